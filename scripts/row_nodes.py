"""Trainings on several machines: the first one leads, the others take part in each training that it announces.

The machines share a file system. Machine 0 does all that a single one would do; when it begins to train a run it writes
down which, and the others start the same command, which meets the first at the rendezvous.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs import Job, JobFailed, read_stamp, write_stamp
from launch import Launch
from progress import Progress

if TYPE_CHECKING:
    from row_plan import Plan

POLL_SECONDS = 0.5


def announce(launch: Launch, leader: Path, folder: Path) -> None:
    """Tells the other machines that the run of this folder is trained now."""
    if launch.nodes > 1 and launch.node_rank == 0:
        write_stamp(leader, {"train": folder.name, "at": time.time_ns(), "rendezvous": launch.rendezvous})


def announce_end(launch: Launch, leader: Path) -> None:
    """Tells the other machines that there is nothing more to do."""
    if launch.nodes > 1 and launch.node_rank == 0:
        write_stamp(leader, {"end": True, "at": time.time_ns(), "rendezvous": launch.rendezvous})


def follow(plan: Plan, progress: Progress) -> int:
    """Takes part in the trainings of machine 0 until it is done; returns the exit status."""
    leader = plan.out / plan.paper / ".training.json"
    mine = leader.with_name(f".machine{plan.launch.node_rank}")
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("", encoding="utf-8")
    begun = mine.stat().st_mtime  # by the clock of the file system, as the announcements are
    seen, status = -1, 0
    while True:
        said = _said(leader, plan.launch)
        if said.get("at", -1) == seen or "at" not in said or ("end" in said and leader.stat().st_mtime < begun):
            progress.update(f"waiting for {plan.launch.rendezvous}", 0.0)
            time.sleep(POLL_SECONDS)
            continue
        seen = said["at"]
        if "end" in said:
            progress.say("machine 0 is done")
            return status
        try:
            _take_part(plan, said["train"], progress)
        except JobFailed as error:
            progress.say(f"{said['train']}: {error}")
            status = 1


def _said(leader: Path, launch: Launch) -> Mapping[str, Any]:
    """What machine 0 of this rendezvous has announced last."""
    said = read_stamp(leader) or {}
    return said if said.get("rendezvous") == launch.rendezvous else {}


def _take_part(plan: Plan, name: str, progress: Progress) -> None:
    plan.make_runs()  # here, as by now the data are prepared
    runs = {run.folder.name: run for run in [*plan.runs, *plan.to_do()]}
    if name not in runs:
        raise JobFailed("machine 0 trains what this one does not know: start the same command on all")
    run = runs[name]
    progress.say(f"{name}: trains with the others")
    log = run.folder / f"train.machine{plan.launch.node_rank}.log"
    job = Job(run.train_argv(), log, threads=run.threads, environment=run.launch.environment())
    while not job.finished():
        progress.update(run.status(), run.seconds_left())
        time.sleep(POLL_SECONDS)
