"""Carries out a plan: prepares its corpora, trains and measures its runs, and writes their lines."""

from __future__ import annotations

import itertools
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from experiments.data.preparation import mini_corpus_argv, run_to_end
from experiments.engine.ledger import Ledger, label_of
from experiments.engine.plan import TREES_VARIABLE, Plan, preparation_of
from experiments.recipes.nodes import RecipeError
from experiments.report.estimates import hours
from experiments.runs.launch import Launch
from experiments.runs.run import Run
from experiments.runs.schedule import run_all
from experiments.runs.steps import TRAIN
from experiments.system.processes import JobFailed, lock
from experiments.system.progress import Progress, clock, time_left


def carry_out(plan: Plan, lanes: Sequence[Launch], resume: bool, progress: Progress) -> tuple[int, Ledger]:
    """Prepare, train, measure and score; return the exit status, and the ledger."""
    failures = prepare_all(plan, progress)
    plan = plan.without(failures)
    ledger = Ledger(plan, failures)
    adopted = ledger.adopt()
    if not resume:
        start_anew(ledger.to_do(), progress)
    to_do = ledger.to_do()
    progress.say(f"{len(to_do)} of {len(plan.runs)} runs to do; numbers go to {ledger.results(plan.rows[0]).path}")
    if adopted:
        progress.say(f"{adopted} runs are trainings of other rows too, whose numbers they take")
    for note in [*ledger.notes(), *map(plan.announce, to_do)]:
        progress.say(note)

    run_all(to_do, lanes, progress, finished=lambda run: progress.say(ledger.record(run)), failed=ledger.failed)
    ledger.record_all()
    return report(ledger, progress), ledger


def prepare_all(plan: Plan, progress: Progress) -> dict[str, str]:
    """Prepare the corpora; return why by row where that failed."""
    probing = [row for row in plan.rows if row.stated.probing]
    without = f"no trees to probe with: set ${TREES_VARIABLE} to a folder with {{train,valid,test}}.mrg"
    failures = {row.name: without for row in probing if plan.trees(row.stated) is None}
    after = time_left([], [run.seconds_left() for run in Ledger(plan).to_do()], plan.choice.jobs)
    for corpus in plan.corpora:
        try:
            corpus.prepare(progress, after)
        except (JobFailed, RecipeError) as error:
            of = preparation_of(corpus.recipe)
            failures |= {row.name: str(error) for row in plan.rows if preparation_of(row.stated) == of}
            progress.say(f"data {corpus.name}: {error}")
    if plan.choice.scale == "smoke" and probing and (trees := plan.trees(probing[0].stated)) and not trees.is_dir():
        run_to_end(mini_corpus_argv("probing", trees), trees.with_suffix(".log"))
    return failures


def start_anew(runs: list[Run], progress: Progress) -> None:
    """Put aside what unfinished trainings have so far. Raises Busy where one is being trained."""
    for run in runs:
        if run.folder.is_dir() and not run.facts() and not run.done():
            places = (run.folder.with_name(f"{run.folder.name}.aside{number}") for number in itertools.count(1))
            aside = next(place for place in places if not place.exists())
            with lock(run.folder):
                shutil.move(run.folder, aside)
            progress.say(f"{run.name}: begins anew; the old training is in {aside}")


def report(ledger: Ledger, progress: Progress) -> int:
    """Say how it ended; return the exit status."""
    progress.say(f"finished in {clock(progress.elapsed())}")
    for run in ledger.plan.runs:
        for key in run.rows:
            label = label_of(key, run)
            if label not in ledger.failures:
                print(f"{label}: {ledger.headline(run, key)}")
    for row, error in ledger.failures.items():
        print(f"table: failed: {row}: {error}", file=sys.stderr)
    return 1 if ledger.failures else 0


def show_commands(plan: Plan, written: Iterable[Path]) -> None:
    """Print the commands that would be started, and the files to which the numbers would go."""
    ledger = Ledger(plan)
    ledger.adopt(write=False)
    for corpus in plan.corpora:
        print(f"# data: {corpus.name}")
        for argv in corpus.commands():
            print(shlex.join(argv))
    for run in (to_do := ledger.to_do()):
        print(f"# {plan.announce(run)}")
        for step in run.steps():
            before = [f"{name}={shlex.quote(value)}" for name, value in run.launch.environment(step == TRAIN).items()]
            print(" ".join([*before, shlex.join(run.argv(step))]))
    seconds, jobs = [plan.seconds(run) for run in to_do], plan.choice.jobs
    if len(to_do) > 1 and all(seconds):
        print(f"# {len(to_do)} trainings, {jobs} at a time: about {hours(time_left([], seconds, jobs) / 3600)} in all")
    for path in dict.fromkeys(written):
        print(f"# scored into {path}")
