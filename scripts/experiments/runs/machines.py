"""Trainings on several machines: the first one leads, the others take part in each training that it announces.

The machines share a file system. Machine 0 does all that a single one would do; when it begins to train a run it writes
down which, and the others start the same command, which meets the first at the rendezvous.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.runs.launch import Launch
from experiments.runs.processes import Job, JobFailed, read_stamp, write_stamp
from experiments.runs.progress import Progress

if TYPE_CHECKING:
    from experiments.engine.plan import Plan

POLL_SECONDS = 0.5


class Leader:
    """What machine 0 of one rendezvous says, in a file under `folder` that the others read."""

    def __init__(self, launch: Launch, folder: Path) -> None:
        self.launch = launch
        self.path = folder / f".training.{re.sub(r'[^A-Za-z0-9.]', '_', launch.rendezvous)}.json"

    def begin(self) -> None:
        """Takes back what was said before this start."""
        if self._speaks():
            self.path.unlink(missing_ok=True)

    def announce(self, folder: Path) -> None:
        """Tells the other machines that the run of this folder is trained now."""
        if self._speaks():
            write_stamp(self.path, {"train": folder.name, "at": time.time_ns()})

    def end(self) -> None:
        """Tells the other machines that there is nothing more to do."""
        if self._speaks():
            write_stamp(self.path, {"end": True, "at": time.time_ns()})

    def _speaks(self) -> bool:
        return self.launch.nodes > 1 and self.launch.node_rank == 0

    def said(self) -> Mapping[str, Any]:
        """What was said last: `train` (a folder's name) or `end`, and `at`; empty where nothing was."""
        return read_stamp(self.path) or {}

    def written(self) -> float:
        """When, by the clock of the file system."""
        return self.path.stat().st_mtime if self.path.exists() else 0.0


def follow(plan: Plan, progress: Progress) -> int:
    """Takes part in the trainings of machine 0 until it is done; returns the exit status."""
    leader = plan.leader
    mine = leader.path.with_name(f"{leader.path.stem}.machine{plan.launch.node_rank}")
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("", encoding="utf-8")
    begun = mine.stat().st_mtime  # by the clock of the file system, as what the leader has said
    seen, status = -1, 0
    while True:
        said = leader.said()
        if said.get("at", -1) == seen or "at" not in said or ("end" in said and leader.written() < begun):
            progress.update(f"waiting for {plan.launch.rendezvous}", 0.0)
            time.sleep(POLL_SECONDS)
            continue
        seen = said["at"]
        if "end" in said:
            progress.say("machine 0 is done")
            return status
        try:
            _take_part(plan, said, progress)
        except JobFailed as error:
            progress.say(f"{said['train']}: {error}")
            status = 1


def _take_part(plan: Plan, said: Mapping[str, Any], progress: Progress) -> None:
    """Trains with the others, until the training ends or machine 0 is at something else. Raises JobFailed."""
    plan.make_runs()  # here, as by now the data are prepared
    name = said["train"]
    runs = {run.folder.name: run for run in [*plan.runs, *plan.to_do()]}
    if name not in runs:
        raise JobFailed("machine 0 trains what this one does not know: start the same command on all")
    run = runs[name]
    if run.facts():  # said before machine 0 was stopped
        return
    progress.say(f"{name}: trains with the others")
    log = run.folder / f"train.machine{plan.launch.node_rank}.log"
    job = Job(run.train_argv(), log, threads=run.threads, environment=run.launch.environment())
    while not job.finished():
        if plan.leader.said().get("at") != said["at"]:
            job.stop()
            return
        progress.update(run.status(), run.seconds_left())
        time.sleep(POLL_SECONDS)
