"""The rows of the papers' tables (configs/<paper>/<table>.yaml): recipes, and their models.

A row is named 'man/table1_iwslt14_man': paper, table and row.

Models are built at full size on torch's device `meta`, which has shapes and no numbers, with dictionaries of the sizes
that the recipe states.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from fairseq import options
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from torch import nn

from experiments.recipes.flags import expand
from experiments.recipes.recipe import Recipe
from experiments.recipes.scales import recipe_at
from experiments.recipes.tables import RowSource, find_table, tables_of
from experiments.system.checkout import USER_DIR
from fairseq_localattn.analysis.probing.models import architecture_options, new_encoder
from support.paths import ROOT
from support.recipes import values

CONFIGS = ROOT / "configs"
PAPERS = ("man", "diffwin", "csan", "mma", "mgsa")
# Recipes that tables extend: at full scale of several papers and of one, and at small scale.
BASES = [path for folder in ("base", "*/base", "scales/small") for path in sorted(CONFIGS.glob(f"{folder}/*.yaml"))]
TABLES = {f"{paper}/{name}": find_table(paper, name) for paper in PAPERS for name in tables_of(paper)}
_PLACES = {f"{name}_{row}": (table, row) for name, table in TABLES.items() for row in table.sources}
ROWS = sorted(name for name, (table, row) in _PLACES.items() if row in table.rows("full"))
SMALL_ROWS = sorted(name for name, (table, row) in _PLACES.items() if row in table.rows("small"))
LEVELS = 3  # of the trees


@cache
def row(name: str, scale: str = "full") -> Recipe:
    return recipe_at(*_PLACES[name], scale)


def baseline_of_row(name: str) -> str:
    """Return the name of the row that a row is tested against; empty without one."""
    table, short = _PLACES[name]
    found = table.baseline(short)
    return "" if found is None else f"{found[0].paper}/{found[0].name}_{found[1]}"


def source_of(name: str) -> RowSource:
    """Return what a row is made of."""
    table, short = _PLACES[name]
    return table.sources[short]


def chain(path: Path) -> Iterator[Path]:
    """Yield a file, the one that it extends, and so on."""
    yield path
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("extends: "):
            yield from chain((path.parent / line.removeprefix("extends: ")).resolve())


@cache
def _dictionary(size: int) -> Dictionary:
    words = Dictionary()
    for n in range(size - len(words)):
        words.add_symbol(f"w{n}")
    return words


def build(name: str) -> nn.Module:
    """Return a row's model at full size, without numbers; of a probing row from scratch its new encoder alone."""
    found, architecture = row(name), row(name).architecture
    sizes = found.sizes
    sides_of = sizes["dictionary"] if isinstance(sizes["dictionary"], list) else [sizes["dictionary"]] * 2
    source, target = map(_dictionary, sides_of)
    tags = _dictionary(sizes.get("tags", 9))
    task = SimpleNamespace(
        source_dictionary=source, target_dictionary=target, tag_dictionary=tags, phrase_levels=LEVELS
    )
    with torch.device("meta"):
        if found.probing == "scratch":
            own = (item for item in values(found, "train").items() if item[0].startswith("mgsa_"))
            flags = [f"--{key.replace('_', '-')}={value}" for key, value in own]
            data: Any = SimpleNamespace(dictionary=source, phrase_levels=LEVELS, folder=Path("DATA"))
            return new_encoder(architecture_options(architecture, flags), data)
        words = ["DATA", "--user-dir", str(USER_DIR), "--arch", architecture]
        words += expand(found, "train")
        args = options.parse_args_and_arch(options.get_training_parser(), words)
        if args.task == "sentence_prediction":
            args.max_positions = getattr(args, "max_positions", 512) or 512
        model = ARCH_MODEL_REGISTRY[architecture].build_model(args, task)
        if args.task == "sentence_prediction":
            model.register_classification_head("head", num_classes=sizes["classes"])
    return model


def sizes_of(model: nn.Module) -> dict[str, Any]:
    """Return what a recipe's `sizes` states, measured on the model."""
    measured: dict[str, set[Any]] = {"embed_dim": set(), "ffn_embed_dim": set(), "attention_heads": set()}
    found: dict[str, Any] = {}
    words = {}
    stacks = {side: getattr(model, side) for side in ("encoder", "decoder") if getattr(model, side, None) is not None}
    for side, stack in (stacks or {"encoder": model}).items():
        found[f"{side}_layers"] = len(stack.layers)
        words[side] = stack.embed_tokens.num_embeddings
        measured["embed_dim"].add(stack.embed_tokens.embedding_dim)
        for layer in stack.layers:
            for name, module in layer.named_modules():
                if name.rpartition(".")[2] == "fc1":
                    measured["ffn_embed_dim"].add(module.out_features)
                if hasattr(module, "num_heads"):
                    measured["attention_heads"].add(module.num_heads)
        if hasattr(stack, "output_projection"):
            words["output"] = stack.output_projection.out_features
        if getattr(stack, "tag_proj", None) is not None:
            found["tags"] = stack.tag_proj.out_features
    for name, seen in measured.items():
        (found[name],) = seen  # the same everywhere
    for head in getattr(model, "classification_heads", {}).values():
        found["classes"] = head.out_proj.out_features
    found["words"] = words
    found["parameters"] = sum(weights.numel() for weights in model.parameters())
    return found
