"""The rows of a table, and what a user asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from experiments.recipes.nodes import RecipeError
from experiments.recipes.recipe import Recipe
from experiments.recipes.tables import Table
from experiments.report.estimates import REFERENCE
from experiments.runs.launch import Launch


@dataclass(frozen=True)
class Row:
    """One row of a table, with its recipe at the plan's scale as the row states it."""

    table: Table
    name: str
    stated: Recipe

    @property
    def key(self) -> str:
        """PAPER/TABLE/ROW."""
        return f"{self.table.paper}/{self.table.name}/{self.name}"

    def seeds(self, asked: tuple[int, ...]) -> tuple[int, ...]:
        """Return the seeds of its trainings: those asked for, else the recipe's; one where nothing is trained."""
        seeds = asked or self.stated.seeds
        return seeds[:1] if self.stated.lead else seeds


@dataclass(frozen=True)
class Choice:
    """What a user asks for. ``seeds``: in place of the recipes'; ``local``: corpus → folder with a copy of it.

    Data, trainings and logs go to ``out``, CSVs to ``results``. ``with_baselines``: baselines that are missing are
    trained as well. ``jobs``: trainings side by side; ``gpu``: the kind of GPU, for estimates.
    """

    scale: str
    launch: Launch
    out: Path
    results: Path
    seeds: tuple[int, ...] = ()
    local: Mapping[str, str] = field(default_factory=dict)
    with_baselines: bool = True
    keep_checkpoints: bool = False
    jobs: int = 1
    gpu: str = REFERENCE


def folders(local: list[str], rows: list[Row]) -> dict[str, str]:
    """Return corpus → the folder given for it by --local [NAME=]DIR. Raises RecipeError."""
    names = list(dict.fromkeys(row.stated.corpus.name for row in rows))
    found = {}
    for value in local:
        name, equals, folder = value.partition("=")
        if not equals:
            if len(names) > 1:
                raise RecipeError(
                    f"--local {value}: these rows have several corpora: give NAME=DIR, of {', '.join(names)}"
                )
            name, folder = names[0], value
        if name not in names:
            raise RecipeError(f"--local {value}: these rows have no corpus {name}: there are {', '.join(names)}")
        found[name] = folder
    return found
