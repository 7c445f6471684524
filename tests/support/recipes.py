"""A small recipe, which the tests of recipes and runs vary, and table files under a root of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.recipes import tables
from experiments.recipes.recipe import Recipe, load_recipe

ARCH = "transformer_localattn_tiny"
BASE = f"""\
data: {{name: none, prepare: data-prep/prepare_toy.sh, source: de, target: en}}
architecture: {ARCH}
train:
  cpu: true
  criterion: label_smoothed_cross_entropy
  label_smoothing: 0.1
  optimizer: adam
  adam_betas: [0.9, 0.98]
  lr: [0.001, 0.002]
  max_tokens: 600
  max_update: 3
  share_all_embeddings: true
  no_epoch_checkpoints: false
generate:
  beam: 5
"""


def write(folder: Path, text: str, name: str = "r.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def load(folder: Path, text: str) -> Recipe:
    return load_recipe(write(folder, text))


def with_flag(flag: str, section: str = "train") -> str:
    """Return BASE with another flag, which then stands on line 4 (train) or 15 (generate)."""
    return BASE.replace(f"{section}:\n", f"{section}:\n  {flag}\n")


def values(found: Recipe, section: str) -> dict[str, Any]:
    """Return the flags of a section as the recipe states them."""
    return {key: entry.value for key, entry in found.section(section).items()}


def write_table(root: Path, name: str, text: str) -> Path:
    """Write configs/NAME.yaml under a root, a table or what one extends; a table read before is read again."""
    path = root / "configs" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    tables.load_table.cache_clear()
    tables.read_base.cache_clear()
    return path
