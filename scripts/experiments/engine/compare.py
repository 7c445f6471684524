"""Trains systems and their plain Transformer with the same updates and seeds, and compares them.

    python scripts/compare.py configs/compare/multi30k_cpu.yaml [--systems a,b] [--seeds 1,2] [--out DIR] [--local DIR]
                              [--jobs N] [--results DIR] [--dry-run]

A system is an architecture, or one of the recipe's `systems`: an architecture with further flags of fairseq-train.

Each finished run appends one row to results/<recipe>.csv. Run again it skips rows that are there and continues
trainings that were stopped. A run that fails does not stop the others; it is reported at the end, and the exit status
is 1.
"""

from __future__ import annotations

import argparse
import logging
import shlex
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from experiments.data.preparation import data_of, local_folder, prepare, prepare_argv
from experiments.measure.command import ScoreError
from experiments.measure.measures import check_sections, measure_of, measures_of
from experiments.recipes.recipe import ROOT, Recipe, RecipeError, load_recipe
from experiments.report.results import Table, columns_of, make_row, print_table
from experiments.runs.checkout import same_package
from experiments.runs.processes import Busy, JobFailed, lock, stop_all, stop_on_signals
from experiments.runs.progress import Progress, clock
from experiments.runs.run import Prepared, Run, settings_hash
from experiments.runs.schedule import cores, run_all


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="compare", description="Trains and compares systems; see scripts/compare.py")
    parser.add_argument("recipe", help="a YAML file of configs/compare")
    help_systems = "comma-separated architectures, and systems of the recipe; default: all that the recipe names"
    parser.add_argument("--systems", "--archs", help=help_systems)
    parser.add_argument("--seeds", help="comma-separated; default: the recipe's")
    parser.add_argument("--out", type=Path, help="data, models and logs (default: runs/compare/<recipe>)")
    parser.add_argument("--local", help="folder with the corpus")
    parser.add_argument("--jobs", type=int, help="runs side by side (default: CPU: cores / threads; GPU: the recipe's)")
    parser.add_argument("--results", type=Path, default=ROOT / "results", help="folder of the CSV (default: results)")
    parser.add_argument("--dry-run", action="store_true", help="print the commands only")
    return parser.parse_args()


@dataclass
class Comparison:
    """What is to be compared: `systems` against `baseline` for each seed, on `data`, under `out`."""

    recipe: Recipe
    systems: list[str]
    baseline: str
    seeds: list[int]
    data: Prepared
    out: Path
    table: Table
    runs: list[Run] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)

    def plan(self) -> None:
        """Makes the runs, the baseline's first: the others are scored against them. The data must be there."""
        threads = self.recipe.get("threads", 1)
        for system in [self.baseline, *self.systems]:
            arch, recipe = self.recipe.system(system)
            settings = settings_hash(recipe, self.data.fingerprint_for(recipe))
            for seed in self.seeds:
                folder = self.out / f"{system}.seed{seed}.{settings}"
                self.runs.append(Run(recipe, arch, seed, self.data, folder, threads, system))

    def to_do(self) -> list[Run]:
        """The runs that have no row yet; with each the baseline run that it needs, should its output be gone."""
        missing = [run for run in self.runs if not self.table.has(run)]
        needed = [self.baseline_run(run) for run in missing]
        return [run for run in self.runs if run in missing or (run in needed and not run.done())]

    def baseline_run(self, run: Run) -> Run:
        """The plain Transformer of the same seed."""
        return next(other for other in self.runs if other.system == self.baseline and other.seed == run.seed)

    def other_rows(self) -> str | None:
        """A line on rows that are there, but were measured with another package; None without such."""
        kept = [row["commit"] for run in self.runs if (row := self.table.row(run))]
        other = Counter(name for name in kept if not same_package(name))
        where = ", ".join(f"{name} ({count})" for name, count in other.items())
        if not other:
            return None
        return (
            f"{sum(other.values())} of the {len(kept)} rows that are kept were measured with another fairseq_localattn "
            f"than the present one, or that cannot be told; commits (rows): {where}"
        )

    def record(self, run: Run) -> None:
        """Scores a finished run and appends its row, and the rows that were waiting for it as their baseline."""
        waiting = [other for other in self.runs if self.baseline_run(other) is run]
        rows = waiting if run.system == self.baseline else [run]
        for other in rows:
            if other.done() and self.baseline_run(other).done() and not self.table.has(other):
                try:
                    self._append(other)
                except ScoreError as error:
                    self.failures[other.label] = str(error)

    def _append(self, run: Run) -> None:
        against = None if run.system == self.baseline else self.baseline_run(run)
        score = run.measure.score(run, against)
        self.table.append(make_row(self.recipe, run, self.baseline, score, self.table.columns))

    def failed(self, run: Run, error: Exception) -> None:
        """Keeps what went wrong for the end."""
        self.failures[run.label] = str(error)


def baseline_of_all(recipe: Recipe, systems: list[str]) -> str:
    """The plain Transformer that all systems share. RecipeError where one is unknown or they share none."""
    from fairseq.models import ARCH_MODEL_REGISTRY

    import fairseq_localattn  # noqa: F401  registers the architectures
    from fairseq_localattn.models.architectures import baseline_of, localattn_architectures

    known = {arch: baseline_of(arch) for arch in localattn_architectures(measure_of(recipe).task)}
    named = recipe.get("systems", {})
    for name, entries in named.items():
        if name in ARCH_MODEL_REGISTRY:
            raise RecipeError(f"{entries['arch'].where}: system {name}: this is the name of an architecture")
    plain_too = {**known, **{arch: arch for arch in known.values()}}  # for systems: the baseline with further flags
    of = {}
    for system in systems:
        arch, _ = recipe.system(system)
        where, choices = (f"{named[system]['arch'].where}: ", plain_too) if system in named else ("", known)
        if arch not in choices:
            others = "" if system in named else "".join(f"{name}, " for name in named)
            raise RecipeError(f"{where}{arch}: no such architecture; there are {others}{', '.join(sorted(choices))}")
        of[system] = choices[arch]
    if len(set(of.values())) > 1:
        pairs = ", ".join(f"{system} (size of {baseline})" for system, baseline in of.items())
        raise RecipeError(f"systems of different sizes cannot be compared: {pairs}; give --systems of one size")
    return of[systems[0]]


def chosen(args: argparse.Namespace, recipe: Recipe) -> tuple[list[str], list[int]]:
    """Systems and seeds from the command line, or the recipe's. Raises RecipeError."""
    named = [*recipe.get("architectures", []), *recipe.get("systems", {})]
    systems = args.systems.split(",") if args.systems else named
    try:
        seeds = [int(seed) for seed in (args.seeds.split(",") if args.seeds else recipe.get("seeds", [1]))]
    except ValueError:
        raise RecipeError(f"--seeds {args.seeds}: seeds are whole numbers, separated by commas") from None
    if not systems:
        raise RecipeError(f"{recipe.path}: names no architectures and no systems; give --systems")
    for values, what in ((systems, "system"), (seeds, "seed")):
        if len(set(values)) < len(values):
            raise RecipeError(f"a {what} is given twice: {', '.join(map(str, values))}")
    if recipe.flag("train", "max_update") is None:
        raise RecipeError(f"{recipe.path}: train needs max_update: all systems are compared after the same updates")
    return systems, seeds


def lanes_of(recipe: Recipe, jobs: int | None, dry: bool) -> int:
    """How many runs go side by side. Raises RecipeError for more than the machine has cores for, or without the GPU."""
    if jobs is not None and jobs < 1:
        raise RecipeError(f"--jobs {jobs}: at least 1")
    threads = recipe.get("threads", 1)
    if recipe.get("hardware", "cpu") == "gpu":
        import torch

        if not dry and not torch.cuda.is_available():
            raise RecipeError(f"{recipe.path}: this recipe needs a CUDA GPU, and torch {torch.__version__} sees none")
        return jobs or recipe.get("jobs", 1)
    most = max(1, cores() // threads)
    if jobs is not None and jobs > most:
        raise RecipeError(f"--jobs {jobs}: with {threads} thread(s) a run, {cores()} cores carry at most {most}")
    return jobs or most


def show_commands(work: Comparison, prepare_command: list[str]) -> None:
    """What a run without --dry-run would start."""
    print(shlex.join(prepare_command))
    for run in work.runs:
        if work.table.has(run):
            print(f"# {run.label}: has its row")
            continue
        print(f"# {run.label}: {'finished, to be scored' if run.done() else f'{run.updates} updates'}")
        print(shlex.join(run.train_argv()))
        print(shlex.join(run.generate_argv()))


def compare(args: argparse.Namespace) -> int:
    recipe = load_recipe(args.recipe)
    check_sections(recipe)
    systems, seeds = chosen(args, recipe)
    baseline = baseline_of_all(recipe, systems)
    lanes = lanes_of(recipe, args.jobs, args.dry_run)
    out = (args.out or ROOT / "runs" / "compare" / recipe.name).resolve()
    data = data_of(recipe, out)
    command = prepare_argv(recipe, data, local := local_folder(recipe, args.local))
    table = Table(args.results.resolve() / f"{recipe.name}.csv", columns_of(*measures_of(recipe)))
    work = Comparison(recipe, systems, baseline, seeds, data, out, table)
    if args.dry_run:
        work.plan()
        show_commands(work, command)
        return 0
    progress = Progress()
    with lock(out):
        total = len(seeds) * (len(systems) + 1)
        after = total * 60.0 * recipe.get("expect_minutes", 10) / lanes
        prepare(recipe, data, local, progress, after=after, threads=recipe.get("threads", 1))
        work.plan()
        for run in work.runs:  # one more check of every flag, before hours go by
            run.train_argv(), run.generate_argv()
        to_do = work.to_do()
        progress.say(f"{len(to_do)} of {total} runs to do, {lanes} side by side; rows go to {work.table.path}")
        for line in filter(None, [work.other_rows(), *(run.plan() for run in to_do)]):
            progress.say(line)
        run_all(to_do, lanes, progress, finished=lambda run: _finished(work, run, progress), failed=work.failed)
        for run in work.runs:  # trained before, not yet scored
            if run.done() and not work.table.has(run):
                work.record(run)
    progress.say(f"finished in {clock(progress.elapsed())}")
    print_table(work.table, work.runs, baseline)
    for run in work.runs:
        if run.label not in work.failures and not work.table.has(run):
            work.failures[run.label] = f"not scored: {work.baseline_run(run).label}, its baseline, is not finished"
    for label, error in work.failures.items():
        print(f"compare: failed: {label}: {error}", file=sys.stderr)
    return 1 if work.failures else 0


def _finished(work: Comparison, run: Run, progress: Progress) -> None:
    work.record(run)
    row, measure = work.table.row(run), run.measure
    progress.say(
        f"{run.label}: "
        + (f"{measure.title} {row[measure.headline]}" if row else "trained; scored when its baseline is there")
    )


def main() -> int:
    args = parse_args()
    logging.disable(logging.INFO)  # of fairseq, in this process
    stop_on_signals()
    try:
        return compare(args)
    except (RecipeError, Busy, ScoreError) as error:
        print(f"compare: error: {error}", file=sys.stderr)
        return 2
    except JobFailed as error:
        print(f"compare: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ncompare: stopped; the same command continues from the last checkpoints", file=sys.stderr)
        return 130
    finally:
        stop_all()
