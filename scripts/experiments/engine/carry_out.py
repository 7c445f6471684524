"""Carries out a plan: prepares its corpora, trains and measures its runs, and writes their lines."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from experiments.data.preparation import mini_corpus_argv, run_to_end
from experiments.engine.plan import TREES_VARIABLE, Plan, preparation_of
from experiments.recipes.nodes import RecipeError
from experiments.report.estimates import hours
from experiments.runs.launch import Launch
from experiments.runs.run import Run
from experiments.runs.schedule import run_all
from experiments.system.processes import JobFailed, lock
from experiments.system.progress import Progress, clock, time_left


def carry_out(plan: Plan, lanes: Sequence[Launch], resume: bool, progress: Progress) -> int:
    """Prepare, train, measure and score; return the exit status."""
    prepare_all(plan, progress, len(lanes))
    plan.make_runs()
    adopted = plan.adopt()
    if not resume:
        start_anew(plan.to_do(), progress)
    to_do = plan.to_do()
    progress.say(f"{len(to_do)} of {len(plan.runs)} runs to do; numbers go to {plan.results(plan.rows[0]).path}")
    if adopted:
        progress.say(f"{adopted} runs are trainings of other rows too, whose numbers they take")
    for note in [*plan.notes(), *idle_gpus(plan), *map(plan.announce, to_do)]:
        progress.say(note)

    def started(run: Run, lane: int) -> None:
        run.launch = lanes[lane].on(run.launch.gpus)
        if run.launch.rendezvous and not run.launch.srun and not run.facts():
            progress.say(f"on each other machine, in this folder: {shlex.join(run.train_argv())}")

    def finished(run: Run) -> None:
        progress.say(plan.record(run))

    run_all(to_do, len(lanes), progress, finished=finished, failed=plan.failed, started=started)
    plan.record_all()
    return report(plan, progress)


def prepare_all(plan: Plan, progress: Progress, lanes: int) -> None:
    """Prepare the corpora; rows whose corpus cannot be prepared have failed. ``lanes``: trainings side by side."""
    rows = [(row, plan.here(row)) for row in plan.rows]
    plan.make_runs()
    after = time_left([], [run.seconds_left() for run in plan.to_do()], lanes)
    mini_trees = plan.choice.out / "mini" / "probing"
    for row, recipe in rows:
        if recipe.probing and plan.choice.scale != "smoke" and plan.trees(recipe) is None:
            plan.failures[row.name] = (
                f"no trees to probe with: set ${TREES_VARIABLE} to a folder with {{train,valid,test}}.mrg"
            )
    for corpus in plan.corpora:
        try:
            corpus.prepare(progress, after)
        except (JobFailed, RecipeError) as error:
            for row, recipe in rows:
                if preparation_of(recipe) == preparation_of(corpus.recipe):
                    plan.failures[row.name] = str(error)
            progress.say(f"data {corpus.name}: {error}")
    if plan.choice.scale == "smoke" and any(recipe.probing for _, recipe in rows) and not mini_trees.is_dir():
        run_to_end(mini_corpus_argv("probing", mini_trees), mini_trees.with_suffix(".log"))


def idle_gpus(plan: Plan) -> list[str]:
    """Return how GPUs that no batch fills could train several rows or seeds at a time, where there are such GPUs."""
    launch = plan.choice.launch
    few = [run for run in plan.to_do() if run.launch.gpus < launch.gpus]
    if len(few) < 2 or launch.nodes > 1:
        return []
    used, there = max(run.launch.gpus for run in few), launch.gpus * plan.choice.jobs
    rows = dict.fromkeys(key.rpartition("/")[2] for run in few for key in run.rows)
    chosen = f" --rows {','.join(rows)}" if len(few) < len(plan.runs) else ""
    return [
        f"{len(few)} trainings have batches that fill no more than {used} of {there} GPUs:"
        f"{chosen} --jobs {there // used} --gpus {used} trains them side by side"
    ]


def start_anew(runs: list[Run], progress: Progress) -> None:
    """Put aside what unfinished trainings have so far. Raises Busy where one is being trained."""
    for run in runs:
        if run.folder.is_dir() and not run.facts() and not run.done():
            number = 1
            while (aside := run.folder.with_name(f"{run.folder.name}.aside{number}")).exists():
                number += 1
            with lock(run.folder):
                shutil.move(run.folder, aside)
            progress.say(f"{run.name}: begins anew; the old training is in {aside}")


def report(plan: Plan, progress: Progress) -> int:
    """Say how it ended; return the exit status."""
    progress.say(f"finished in {clock(progress.elapsed())}")
    for run in plan.runs:
        for key in run.rows:
            label = f"{key.rpartition('/')[2]} (seed {run.seed})"
            if label not in plan.failures:
                print(f"{label}: {plan.headline(run, key)}")
    for row, error in plan.failures.items():
        print(f"table: failed: {row}: {error}", file=sys.stderr)
    return 1 if plan.failures else 0


def show_commands(plan: Plan, written: Iterable[Path]) -> None:
    """Print the commands that would be started, and the files to which the numbers would go."""
    plan.make_runs()
    plan.adopt(write=False)
    for corpus in plan.corpora:
        print(f"# data: {corpus.name}")
        for argv in corpus.commands():
            print(shlex.join(argv))
    for note in idle_gpus(plan):
        print(f"# {note}")
    for run in (to_do := plan.to_do()):
        print(f"# {plan.announce(run)}")
        for step in run.steps():
            before = [f"{name}={shlex.quote(value)}" for name, value in run.environment(step).items()]
            print(" ".join([*before, shlex.join(run.argv(step))]))
    seconds, jobs = [plan.seconds(run) for run in to_do], plan.choice.jobs
    if len(to_do) > 1 and all(seconds):
        print(f"# {len(to_do)} trainings, {jobs} at a time: about {hours(time_left([], seconds, jobs) / 3600)} in all")
    for path in dict.fromkeys(written):
        print(f"# scored into {path}")
