"""A row's recipe made small: the same architecture and flags, but narrow, for a few updates on a mini corpus."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments.data.preparation import prepare_argv
from experiments.recipes.recipe import ROOT, Recipe, load_recipe
from experiments.runs.run import Prepared

SETTINGS = ROOT / "configs" / "smoke.yaml"
MINI_CORPUS = ROOT / "data-prep" / "mini_corpus.py"
# Of these a recipe has one or the other; one that it does not have would change how it trains.
ONLY_WHERE_GIVEN = {"max_tokens", "batch_size", "warmup_updates", "total_num_update", "min_len"}
MINI_TREES = ROOT / "data-prep" / "mini_trees.py"
TREE_FILES = "{folder}.trees"  # beside the data folder
HEAD_DIM = 8
AVERAGED = 2  # checkpoints, as many as configs/smoke.yaml keeps


def small(recipe: Recipe) -> Recipe:
    """The recipe with the values of configs/smoke.yaml, on the mini corpus."""
    settings = load_recipe(SETTINGS)
    for section, entries in settings.sections.items():
        own = recipe.sections.get(section)
        if own is None:
            continue
        flags = {key: entry.value for key, entry in entries.items() if key in own or key not in ONLY_WHERE_GIVEN}
        recipe = recipe.with_flags(section, flags, str(SETTINGS))
    data = recipe.get("data")
    options = [*data.get("smoke", data.get("options", []))]
    if "--trees" in options:  # instead of a parser
        options += ["--tree-files", TREE_FILES]
    meta = {**recipe.meta, "expect_minutes": settings.get("expect_minutes"), "gpus": 1}
    meta["data"] = {**data, "options": options}
    if average := recipe.get("average"):
        meta["average"] = {which: min(AVERAGED, count) for which, count in average.items()}
    return replace(recipe, meta=meta)


def narrow_flags(architecture: str, sides: Sequence[str] = ("encoder", "decoder")) -> list[str]:
    """Flags that make an architecture narrow: its heads and layers stay, a head has 8 channels, the FFN is 2·d."""
    from fairseq.models import ARCH_CONFIG_REGISTRY

    import fairseq_localattn  # noqa: F401  registers the architectures

    args = Namespace()
    ARCH_CONFIG_REGISTRY[architecture](args)
    flags: list[str] = []
    for side in sides:
        heads = getattr(args, f"{side}_attention_heads", None)
        if heads is not None:
            dim = HEAD_DIM * heads
            flags += [f"--{side}-embed-dim", str(dim), f"--{side}-ffn-embed-dim", str(2 * dim)]
    return flags


def mini_corpus_argv(name: str, folder: Path) -> list[str]:
    """The command that writes the mini corpus of a recipe's data into a folder."""
    return [sys.executable, str(MINI_CORPUS), name, str(folder)]


def mini_commands(recipe: Recipe, data: Prepared, folder: Path) -> list[list[str]]:
    """What comes before the preparation of a mini corpus: its text, and where it takes trees, such of its tokens."""
    found = [mini_corpus_argv(recipe.get("data")["name"], folder)]
    argv = prepare_argv(recipe, data, folder)
    if "--trees" in argv:
        at = argv.index("--trees")
        lang, trees = argv[at + 1], argv[argv.index("--tree-files") + 1]
        without = [word for n, word in enumerate(argv) if n not in (at, at + 1) and word not in ("--tree-files", trees)]
        found += [without, [sys.executable, str(MINI_TREES), str(data.folder / "tok"), lang, trees]]
    return found
