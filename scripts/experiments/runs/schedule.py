"""Work side by side, with its progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from experiments.runs.launch import Launch
from experiments.system.processes import Busy, JobFailed, stop_all
from experiments.system.progress import Progress, time_left

POLL_SECONDS = 0.3


class Work(Protocol):
    """A run, or a step of a GPU day: ``advance`` is called until it is done. Two of one folder take turns.

    ``announcement``: said before it begins. ``advance`` returns whether all is done; raises JobFailed, Busy, OSError.
    """

    @property
    def folder(self) -> Path: ...

    def announcement(self) -> str: ...

    def advance(self, lane: Launch) -> bool: ...

    def status(self) -> str: ...

    def seconds_left(self) -> float: ...


W = TypeVar("W", bound=Work)


def run_all(
    runs: Sequence[W],
    lanes: Sequence[Launch],
    progress: Progress,
    *,
    after: float = 0.0,
    finished: Callable[[W], None] = lambda run: None,
    failed: Callable[[W, Exception], None] | None = None,
) -> None:
    """Bring all runs to their end in order, one at a time in each of ``lanes``. Ctrl-C ends the children.

    Args:
        after: seconds expected for what follows, for the estimate of the time left.
        finished: called with each run that succeeds.
        failed: called with a run that fails, while the others go on; without it the first failure is raised.
    """
    waiting = list(runs)
    active: list[tuple[W, Launch]] = []
    free = list(lanes)
    count = 0
    try:
        while waiting or active:
            while waiting and free:
                at_work = {run.folder for run, _ in active}  # two measures of one training take turns
                run = next((run for run in waiting if run.folder not in at_work), None)
                if run is None:
                    break
                waiting.remove(run)
                if said := run.announcement():
                    progress.say(said)
                active.append((run, free.pop(0)))
            for run, lane in list(active):
                try:
                    if not run.advance(lane):
                        continue
                    finished(run)
                except (JobFailed, Busy, OSError) as error:
                    if failed is None:
                        raise
                    failed(run, error)
                active.remove((run, lane))
                free.append(lane)
                count += 1
            if not active:
                continue
            where = f"{count}/{len(runs)} runs done; " if len(runs) > 2 else ""
            doing = [run for run, _ in active]
            running, later = ([run.seconds_left() for run in of] for of in (doing, waiting))
            left = time_left(running, later, len(lanes))
            progress.update(where + "; ".join(run.status() for run in doing), left + after)
            time.sleep(POLL_SECONDS)
    finally:
        stop_all()
        progress.close()
