"""A small recipe, which the tests of the runners vary."""

from __future__ import annotations

from pathlib import Path

ARCH = "transformer_localattn_tiny"
BASE = """\
data: {name: none, prepare: data-prep/prepare_toy.sh, source: de, target: en}
architectures: [transformer_mma_small]
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


def with_flag(flag: str, section: str = "train") -> str:
    """BASE with another flag, which then stands on line 4 (train) or 15 (generate)."""
    return BASE.replace(f"{section}:\n", f"{section}:\n  {flag}\n")
