"""The recipe of a table's row at a scale, as it is trained.

``smoke``: a few updates of a narrow model on a mini corpus, with the row's architecture and flags at full scale.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace

from experiments.recipes.nodes import RecipeError
from experiments.recipes.recipe import CONFIGS, Recipe, load_recipe
from experiments.recipes.tables import Table
from fairseq_localattn.errors import UsageError

SMOKE = CONFIGS / "scales" / "smoke.yaml"
# Flags that smoke replaces and never adds: a batch in tokens or in sentences, a schedule, a shortest output.
ONLY_WHERE_GIVEN = {"max_tokens", "batch_size", "warmup_updates", "total_num_update", "min_len"}
TREE_FILES = "{folder}.trees"  # beside the data folder
SIZES = {"small": "small", "sample": "medium"}  # of the architectures, by scale
HEAD_DIM = 8
AVERAGED = 2  # checkpoints, as many as the smoke settings keep


def recipe_at(table: Table, row: str, scale: str) -> Recipe:
    """Return a row's recipe at a scale. Raises RecipeError."""
    if scale not in table.sources[row].scales():
        known = ", ".join(table.sources[row].scales())
        raise RecipeError(f"{table.sources[row].where}: the row {row} has no scale {scale}, only {known}")
    if scale == "smoke":
        return smoke(table.recipe(row, "full"))
    recipe = table.recipe(row, scale)
    if scale == "full" or recipe.lead or any("architecture" in own for own in table.sources[row].own_layers(scale)):
        return recipe
    from fairseq_localattn.models.architectures import other_size_of  # here, as the import takes seconds

    try:
        return replace(recipe, architecture=other_size_of(recipe.architecture, SIZES[scale]))
    except UsageError as error:
        raise RecipeError(f"{recipe.where}: {error}") from None


def smoke(recipe: Recipe) -> Recipe:
    """Return a recipe with the values of configs/scales/smoke.yaml, on the mini corpus."""
    settings = load_recipe(SMOKE)
    for section in ("train", "generate", "eval_lm"):
        if own := recipe.section(section):
            stated = settings.section(section).items()
            flags = {key: each.value for key, each in stated if key in own or key not in ONLY_WHERE_GIVEN}
            recipe = recipe.with_flags(section, flags, str(SMOKE))
    data = recipe.corpus
    options = data.options if data.smoke is None else data.smoke
    if "--trees" in options:  # instead of a parser
        options = (*options, "--tree-files", TREE_FILES)
    average = {which: min(AVERAGED, count) for which, count in recipe.average.items()}
    return replace(
        recipe,
        data=replace(data, options=options),
        average=average,
        gpus=1,
        seeds=recipe.seeds[:1],
        expect_minutes=settings.expect_minutes,
    )


def narrow_flags(architecture: str, stacks: Sequence[str] = ("encoder", "decoder")) -> list[str]:
    """Return flags that make an architecture narrow: same heads and layers, 8 channels a head, an FFN of 2·d."""
    from fairseq.models import ARCH_CONFIG_REGISTRY

    args = Namespace()
    ARCH_CONFIG_REGISTRY[architecture](args)
    flags: list[str] = []
    for stack in stacks:
        if heads := getattr(args, f"{stack}_attention_heads", None):
            dim = HEAD_DIM * heads
            flags += [f"--{stack}-embed-dim", str(dim), f"--{stack}-ffn-embed-dim", str(2 * dim)]
    return flags
