"""What a user asks for, and the plan of it: the rows of a table at one scale, with their corpora and their runs."""

from __future__ import annotations

import os
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from experiments.data.preparation import Corpus, local_folder, prepared
from experiments.measure.measures import measure_of
from experiments.recipes.recipe import Recipe, RecipeError
from experiments.recipes.scales import recipe_at
from experiments.recipes.tables import Table
from experiments.report.estimates import REFERENCE, estimate, hours
from experiments.runs.launch import Launch
from experiments.runs.run import Run
from experiments.system.checkout import ROOT
from fairseq_localattn.files import OutputError, check_file, check_folder

KEPT = "counts"  # folder of the results with what BLEU counts in outputs
TREES_VARIABLE = "PROBING_TREES"  # a folder with {train,valid,test}.mrg or .mrg.gz


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

    @property
    def training(self) -> str:
        """Name of the row's training without the seed; rows that share a training have the same."""
        data = prepared(self.stated, Path())
        run = Run(self.stated, 0, data, stated=self.stated, out=Path(), rows=[self.key])
        return run.known_as(run.options)

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


@dataclass(frozen=True)
class Plan:
    """The rows of a table at one scale, with their corpora and their runs."""

    rows: Sequence[Row]
    choice: Choice
    corpora: Sequence[Corpus] = ()
    runs: Sequence[Run] = ()

    def rows_of(self, run: Run) -> list[Row]:
        """Return the plan's rows that a run measures; none for the baseline of another table."""
        return [row for row in self.rows if row.key in run.rows]

    def here(self, row: Row) -> Recipe:
        """Return a row's recipe as it runs on this machine."""
        if row.stated.lead:
            return row.stated
        launch = self.choice.launch.fitted(row.stated)
        recipe = launch.adapt(row.stated)
        found = None if launch.cpu else estimate(recipe, self.choice.gpu)
        return recipe if found is None else replace(recipe, expect_minutes=60 * found.hours)

    def announce(self, run: Run) -> str:
        """Return what is still to be done for a run, with an estimate of what its training takes."""
        found = None if run.facts() or run.launch.cpu else estimate(run.recipe, self.choice.gpu)
        takes = found.text(run.launch.world, self.choice.gpu) if found else hours(self.seconds(run) / 3600)
        return run.plan() + (f"; estimated: {takes}" if found or self.seconds(run) else "")

    def seconds(self, run: Run) -> float:
        """Return what is left of a run, estimated; 0 where nothing is, and on another device than the recipe's."""
        unknown = run.launch.cpu != (run.recipe.hardware == "cpu") and self.choice.scale != "smoke"
        return 0.0 if unknown or run.recipe.lead else run.seconds_left()

    def check_outputs(self, *paths: Path) -> None:
        """Raise RecipeError where --out or one of these files cannot be written."""
        option = "--out"
        try:
            check_folder(self.choice.out)
            for path in paths:
                option = "--out" if path.is_relative_to(self.choice.out) else "--results"
                check_file(path)
        except OutputError as error:
            raise RecipeError(f"{option} {error}") from None

    # --- runs

    def all_runs(self) -> list[Run]:
        """Return the runs of all rows; rows that are one training and one measure share theirs."""
        found: dict[tuple[Any, ...], Run] = {}
        for row in self.rows:
            for run in (self._run(row, seed) for seed in row.seeds(self.choice.seeds)):
                measured = (run.folder, row.stated.metric, *row.stated.corpus.tests.items())
                if found.setdefault(measured, run) is not run:
                    found[measured].rows.append(row.key)
        return list(found.values())

    def without(self, failed: Container[str]) -> Plan:
        """Return the plan without the runs of these rows alone."""
        rows = {row.key for row in self.rows if row.name not in failed}
        runs = [replace(run, rows=[key for key in run.rows if key in rows]) for run in self.runs]
        return replace(self, runs=[run for run in runs if run.rows])

    def _run(self, row: Row, seed: int) -> Run:
        recipe, out = self.here(row), self.choice.out
        return Run(
            recipe=recipe,
            seed=seed,
            data=prepared(recipe, out),
            stated=row.stated,
            out=out,
            launch=self.choice.launch.fitted(row.stated),
            trees=self.trees(recipe),
            narrow=self.choice.scale == "smoke",
            keep_checkpoints=self.choice.keep_checkpoints,
            kept=self.choice.results / KEPT,
            rows=[row.key],
        )

    def trees(self, recipe: Recipe) -> Path | None:
        """Return the folder with the trees of probing: the mini treebank, the user's, or the recipe's."""
        if not recipe.probing:
            return None
        if self.choice.scale == "smoke":
            return self.choice.out / "mini" / "probing"
        given = os.environ.get(TREES_VARIABLE) or (str(ROOT / recipe.trees) if recipe.trees else "")
        return Path(given).resolve() if given else None

    def baseline_row(self, row: Row) -> Row | None:
        """Return the row that a row is tested against, measured as the row is. Raises RecipeError."""
        found = row.table.baseline(row.name)
        if found is None:
            return None
        table, name = found
        recipe = recipe_at(table, name, self.choice.scale)
        if type(measure_of(recipe)) is not type(measure_of(row.stated)):
            recipe = replace(recipe, metric=row.stated.metric)
        return Row(table, name, recipe)

    def baseline_run(self, row: Row, seed: int) -> Run | None:
        """Return the run of a row's baseline with the same seed, of this table or another."""
        baseline = self.baseline_row(row)
        return None if baseline is None else self._run(baseline, seed)


def make_plan(rows: list[Row], choice: Choice) -> Plan:
    """Return the plan, with every flag of every row checked before anything starts. Raises RecipeError."""
    corpora: dict[str, Corpus] = {}
    for row in rows:
        recipe = Plan(rows, choice).here(row)
        data, key = recipe.corpus, preparation_of(recipe)
        if key not in corpora:
            mini = choice.out / "mini" / data.name if choice.scale == "smoke" else None
            local = None if mini else local_folder(data, choice.local.get(data.name))
            corpora[key] = Corpus(recipe, prepared(recipe, choice.out), local, mini)
    # Trees are added to data that are there.
    in_order = sorted(corpora.values(), key=lambda corpus: "--trees" in corpus.recipe.corpus.options)
    plan = Plan(rows, choice, in_order)
    plan = replace(plan, runs=plan.all_runs())
    for run in plan.runs:
        for step in run.steps():
            run.argv(step)
    return plan


def preparation_of(recipe: Recipe) -> str:
    """Return what tells preparations apart: of one folder there may be one without trees, and one that adds them."""
    return repr((recipe.corpus.prepare, recipe.corpus.options))
