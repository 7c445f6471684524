"""Trainings on several machines, as all but the first of them take part."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from experiments.engine.plan import Plan
from experiments.runs.processes import Job, JobFailed
from experiments.runs.progress import Progress
from experiments.runs.steps import TRAIN

POLL_SECONDS = 0.5


def follow(plan: Plan, progress: Progress) -> int:
    """Take part in the trainings of machine 0 until it is done; return the exit status.

    It is 1 where a training failed here and machine 0 has not finished it either. One whose processes here are lost
    after its last update has all that it should have.
    """
    leader = plan.leader
    mine = leader.path.with_name(f"{leader.path.stem}.machine{plan.choice.launch.node_rank}")
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("", encoding="utf-8")
    begun = mine.stat().st_mtime  # by the clock of the file system, as what the leader has said
    seen, checked = -1, -1
    failed: set[str] = set()
    while True:
        said = leader.said()
        if "end" in said and leader.written() < begun and said["at"] != checked:
            # The end of an earlier start, or of this one, where machine 0 found nothing to train.
            checked = said["at"]
            if not _is_left(plan):
                progress.say("nothing is left to train")
                return _status(plan, failed)
        if said.get("at", -1) == seen or "at" not in said or ("end" in said and leader.written() < begun):
            progress.update(f"waiting for {plan.choice.launch.rendezvous}", 0.0)
            time.sleep(POLL_SECONDS)
            continue
        seen = said["at"]
        if "end" in said:
            progress.say("machine 0 is done")
            return _status(plan, failed)
        try:
            _take_part(plan, said, progress)
        except JobFailed as error:
            progress.say(f"{said['train']}: {error}")
            failed.add(said["train"])


def _status(plan: Plan, failed: Iterable[str]) -> int:
    """Return the exit status after these trainings have failed here."""
    return int(any(TRAIN.facts(plan.leader.path.with_name(name)) is None for name in failed))


def _is_left(plan: Plan) -> bool:
    """Return whether a run is still to be trained."""
    plan.make_runs()
    return any(TRAIN in run.steps() and not run.facts() for run in plan.to_do())


def _take_part(plan: Plan, said: Mapping[str, Any], progress: Progress) -> None:
    """Train with the others, until the training ends or machine 0 is at something else. Raises JobFailed."""
    plan.make_runs()  # here, as by now the data are prepared
    name = said["train"]
    runs = {run.folder.name: run for run in [*plan.runs, *plan.to_do()]}
    if name not in runs:
        raise JobFailed("machine 0 trains what this one does not know: start the same command on all")
    run = runs[name]
    if run.facts():  # said before machine 0 was stopped
        return
    progress.say(f"{name}: trains with the others")
    log = run.folder / f"train.machine{plan.choice.launch.node_rank}.log"
    job = Job(run.train_argv(), log, threads=run.threads, environment=run.launch.environment())
    while not job.finished():
        if plan.leader.said().get("at") != said["at"]:
            job.stop()
            return
        progress.update(run.status(), run.seconds_left())
        time.sleep(POLL_SECONDS)
