"""What a table's run consists of: its corpora, its runs, and the lines that they add to the results."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from experiments.data.preparation import local_folder, prepare, prepare_argv, row_data
from experiments.engine.rows import RowRun, check_row, lines_of, row_settings, scoring_of
from experiments.engine.smoke import mini_commands, mini_corpus_argv, small
from experiments.measure.command import ScoreError
from experiments.measure.row_measures import row_measure
from experiments.recipes.recipe import Recipe, RecipeError, load_recipe
from experiments.report.results import Table
from experiments.runs.launch import Launch
from experiments.runs.machines import Leader
from experiments.runs.processes import Job, JobFailed, lock
from experiments.runs.progress import Progress, clock
from experiments.runs.run import Prepared, forget_fingerprints

TREES_VARIABLE = "PROBING_TREES"  # a folder with {train,valid,test}.mrg or .mrg.gz
Lines = list[dict[str, str]]


@dataclass
class Corpus:
    """The data of one or more rows. `mini` is the folder of the mini corpus of a smoke run."""

    recipe: Recipe
    data: Prepared
    local: Path | None
    mini: Path | None

    @property
    def name(self) -> str:
        return self.recipe.get("data")["name"]

    def commands(self) -> list[list[str]]:
        """What prepares them, in order."""
        last = prepare_argv(self.recipe, self.data, self.mini or self.local)
        return [*mini_commands(self.recipe, self.data, self.mini), last] if self.mini else [last]

    def prepare(self, progress: Progress, after: float) -> None:
        """Prepares the data; what is done is skipped. Raises JobFailed."""
        commands = self.commands()
        done = self.data.complete(phrases="--trees" in commands[-1])
        for argv in commands[:-1] if self.mini and not done else []:
            job = Job(argv, self.mini.with_suffix(".log"), threads=1)
            while not job.finished():
                time.sleep(0.1)
        prepare(self.recipe, self.data, self.mini or self.local, progress, after=after, threads=1)


@dataclass
class Plan:
    """All runs of a table. `rows` are the recipes as they stand in configs/, by name."""

    paper: str
    rows: dict[str, Recipe]
    seeds: list[int] | None
    launch: Launch
    out: Path
    table: Table
    smoke: bool
    with_baselines: bool
    corpora: list[Corpus]
    runs: list[RowRun] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def leader(self) -> Leader:
        """Of the machines that train together."""
        return Leader(self.launch, self.out / self.paper)

    def here(self, stated: Recipe) -> Recipe:
        """The recipe as it runs on this machine."""
        recipe = self.basis(stated)
        return recipe if recipe.get("lead") else self.launch.adapt(recipe)

    def basis(self, stated: Recipe) -> Recipe:
        """The recipe that names the settings: the row's own, in a smoke run made small."""
        return small(stated) if self.smoke else stated

    def make_runs(self) -> None:
        """Makes the runs; rows that are one training and one measure share theirs. The data must be there."""
        forget_fingerprints()
        found: dict[tuple[Path, str], RowRun] = {}
        for name, stated in self.rows.items():
            if name in self.failures:
                continue
            for seed in self._seeds_of(stated):
                run = self._run(name, stated, seed)
                found.setdefault((run.folder, stated.get("metric")), run).rows.append(name)
        self.runs = list(found.values())

    def _seeds_of(self, stated: Recipe) -> list[int]:
        seeds = self.seeds or stated.get("seeds", [1])
        return seeds[:1] if stated.get("lead") else seeds

    def _run(self, name: str, stated: Recipe, seed: int) -> RowRun:
        recipe = self.here(stated)
        data = row_data(recipe, self.out)
        arch = recipe.get("architecture", "")
        basis = self.basis(stated)
        settings = row_settings(basis, data)
        folder = self.out / self.paper / f"{arch or name}.{settings}.seed{seed}"
        threads = recipe.get("threads", 1)
        run = RowRun(recipe, arch, seed, data, folder, threads, name, self.launch, stated=basis, narrow=self.smoke)
        run.trees = self._trees() if recipe.get("probing") else None
        run.leader = self.leader
        return run

    def _trees(self) -> Path | None:
        if self.smoke:
            return self.out / "mini" / "probing"
        return Path(os.environ[TREES_VARIABLE]).resolve() if os.environ.get(TREES_VARIABLE) else None

    def baseline_run(self, row: str, run: RowRun) -> RowRun | None:
        """The run of a row's baseline with the same seed, of this table or another."""
        name = self.rows[row].get("baseline")
        return self._run(name, baseline_recipe(self.rows[row]), run.seed) if name else None

    # --- what is there, what is to be done

    def lines(self, row: str, run: RowRun) -> Lines:
        """The lines of the results that a row has with a run's seed and settings, scored as it would be now."""
        scoring = self._scoring(row, run)
        return [line for line in self.table.rows() if _same(line, row, run) and line["scoring"] == scoring]

    def _scoring(self, row: str, run: RowRun) -> str:
        return scoring_of(self.rows[row], self.baseline_run(row, run))

    def to_do(self) -> list[RowRun]:
        """The runs without lines, and where all rows are wanted the baselines of other tables, first."""
        missing = [run for run in self.runs if not all(self.lines(row, run) for row in run.rows)]
        further: dict[Path, RowRun] = {}
        for row, other in self._absent_baselines() if self.with_baselines else []:
            other.rows = [self.rows[row].get("baseline")]
            further.setdefault(other.folder, other)
        return [*further.values(), *missing]

    def _absent_baselines(self) -> Iterator[tuple[str, RowRun]]:
        """(row, run of its baseline) where that is of another table, or not among the chosen rows, and not finished."""
        own = {run.folder for run in self.runs}
        for run in self.runs:
            for row in run.rows:
                other = self.baseline_run(row, run) if run.row_measure.compares else None
                if other is not None and other.folder not in own and not other.done():
                    yield row, other

    def notes(self) -> list[str]:
        """What a user may want to know before it begins."""
        if self.with_baselines:
            return []
        absent = {self.rows[row].get("baseline") for row, _ in self._absent_baselines()}
        return [f"{name} is not trained: its difference is added when it is" for name in sorted(absent)]

    # --- what is finished

    def record(self, run: RowRun) -> str:
        """Scores a finished run, and those that waited for it as their baseline. Returns a line for reading."""
        for row in run.rows:
            if row in self.rows:
                self._append(row, run)
        for other in self.runs:
            for row in other.rows:
                waits = self.rows[row].get("baseline") in run.rows and other.seed == run.seed and other is not run
                if waits and other.done():
                    self._append(row, other)
        return f"{', '.join(run.rows)} (seed {run.seed}): {self._headline(run)}"

    def record_all(self) -> None:
        """The lines of what was trained and decoded before, and differences to baselines that are there by now."""
        for run in self.runs:
            for row in run.rows if run.done() else []:
                self._append(row, run)

    def _append(self, row: str, run: RowRun) -> None:
        baseline = self.baseline_run(row, run)
        if baseline is not None and not (baseline.done() and run.row_measure.compares):
            baseline = None
        lines = self.lines(row, run)
        if lines and (baseline is None or any(line["difference"] for line in lines)):
            return
        try:
            new = lines_of(row, self.basis(self.rows[row]), run, self._scoring(row, run), baseline)
            self.table.put(new, instead=lambda line: _same(line, row, run))
        except ScoreError as error:
            self.failures[f"{row} (seed {run.seed})"] = str(error)

    def _headline(self, run: RowRun) -> str:
        row = next((row for row in run.rows if row in self.rows), None)
        if row is None:
            return "trained and decoded, as a baseline"
        found = {line["metric"]: line["score"] for line in self.lines(row, run)}
        metric = self.rows[row].get("metric")
        shown = {metric: found[metric]} if metric in found else dict(list(found.items())[:3])
        return ", ".join(f"{name} {score}" for name, score in shown.items()) or "not scored"

    def failed(self, run: RowRun, error: Exception) -> None:
        """Keeps what went wrong for the end."""
        for row in run.rows:
            self.failures[f"{row} (seed {run.seed})"] = str(error)

    def report(self, progress: Progress) -> int:
        """Says how it ended; returns the exit status."""
        progress.say(f"finished in {clock(progress.elapsed())}")
        for run in self.runs:
            for row in run.rows:
                if f"{row} (seed {run.seed})" not in self.failures:
                    print(f"{row} (seed {run.seed}): {self._headline(run)}")
        for row, error in self.failures.items():
            print(f"table: failed: {row}: {error}", file=sys.stderr)
        return 1 if self.failures else 0


def _same(line: Mapping[str, str], row: str, run: RowRun) -> bool:
    """Whether a line of the results is of this row, seed and settings."""
    return (line["row"], line["seed"], line["settings"]) == (row, str(run.seed), run.settings)


def baseline_recipe(stated: Recipe) -> Recipe:
    """The recipe of a row's baseline."""
    recipe = load_recipe(stated.path.with_name(f"{stated.get('baseline')}.yaml"))
    check_row(recipe.name, recipe)
    # Measured as the row is: the baseline of a row of another table may be known there for another number.
    return recipe if type(row_measure(recipe)) is type(row_measure(stated)) else _measured_as(recipe, stated)


def _measured_as(recipe: Recipe, stated: Recipe) -> Recipe:
    return replace(recipe, meta={**recipe.meta, "metric": stated.get("metric")})


def make_plan(
    paper: str,
    rows: dict[str, Recipe],
    seeds: list[int] | None,
    launch: Launch,
    out: Path,
    table: Table,
    local: list[str],
    smoke: bool,
    with_baselines: bool,
) -> Plan:
    """The plan, and every flag of every row checked before anything starts. Raises RecipeError."""
    plan = Plan(paper, rows, seeds, launch, out, table, smoke, with_baselines, [])
    given = _folders(local, rows)
    corpora: dict[str, Corpus] = {}
    for stated in rows.values():
        recipe = plan.here(stated)
        data = row_data(recipe, out)
        name, key = recipe.get("data")["name"], _preparation(recipe)
        if key in corpora:
            continue
        mini = out / "mini" / name if smoke else None
        corpora[key] = Corpus(recipe, data, None if smoke else local_folder(recipe, given.get(name)), mini)
    # Trees are added to data that are there.
    plan.corpora = sorted(corpora.values(), key=lambda corpus: "--trees" in corpus.commands()[-1])
    plan.make_runs()
    for run in plan.runs:
        for step in run.steps():
            run.argv(step)
    plan.runs = []
    return plan


def _preparation(recipe: Recipe) -> str:
    """What tells preparations apart: of one folder there may be one without trees, and one that adds them."""
    spec = recipe.get("data")
    return repr((spec["prepare"], spec.get("options", [])))


def _folders(local: list[str], rows: dict[str, Recipe]) -> dict[str, str]:
    """Corpus → the folder given for it."""
    names = list(dict.fromkeys(recipe.get("data")["name"] for recipe in rows.values()))
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


def prepare_all(plan: Plan, progress: Progress) -> None:
    """Prepares the corpora; rows whose corpus cannot be prepared have failed."""
    no_trees = f"no trees to probe with: set ${TREES_VARIABLE} to a folder with {{train,valid,test}}.mrg"
    for name, stated in plan.rows.items():
        if stated.get("probing") and not plan.smoke and not os.environ.get(TREES_VARIABLE):
            plan.failures[name] = no_trees
    minutes = sum(recipe.get("expect_minutes", 10) for recipe in map(plan.here, plan.rows.values()))
    for corpus in plan.corpora:
        try:
            corpus.prepare(progress, 60.0 * minutes)
        except (JobFailed, RecipeError) as error:
            for name, stated in plan.rows.items():
                if _preparation(plan.here(stated)) == _preparation(corpus.recipe):
                    plan.failures[name] = str(error)
            progress.say(f"data {corpus.name}: {error}")
    _mini_trees(plan)


def _mini_trees(plan: Plan) -> None:
    """The trees that a smoke run of probing takes."""
    wants = any(recipe.get("probing") for recipe in plan.rows.values())
    folder = plan.out / "mini" / "probing"
    if plan.smoke and wants and not folder.is_dir():
        job = Job(mini_corpus_argv("probing", folder), folder.with_suffix(".log"), threads=1)
        while not job.finished():
            time.sleep(0.1)


def start_anew(runs: list[RowRun], progress: Progress) -> None:
    """Puts aside what unfinished runs have trained so far. Raises Busy where one is being trained."""
    for run in runs:
        if run.folder.is_dir() and not run.done():
            number = 1
            while (aside := run.folder.with_name(f"{run.folder.name}.aside{number}")).exists():
                number += 1
            with lock(run.folder):
                shutil.move(run.folder, aside)
            progress.say(f"{', '.join(run.rows)}: begins anew; the old training is in {aside}")
