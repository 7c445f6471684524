"""Runs side by side, with their progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from experiments.runs.run import Run
from experiments.system.processes import Busy, JobFailed, stop_all
from experiments.system.progress import Progress, time_left

POLL_SECONDS = 0.3


def run_all(
    runs: Sequence[Run],
    lanes: int,
    progress: Progress,
    *,
    after: float = 0.0,
    finished: Callable[[Run], None] = lambda run: None,
    failed: Callable[[Run, Exception], None] | None = None,
    started: Callable[[Run, int], None] = lambda run, lane: None,
) -> None:
    """Bring all runs to their end in order, ``lanes`` at a time. Ctrl-C ends the children.

    Args:
        after: seconds expected for what follows, for the estimate of the time left.
        finished: called with each run that succeeds.
        failed: called with a run that fails, while the others go on; without it the first failure is raised.
        started: called with a run and its lane, from 0.
    """
    waiting = list(runs)
    active: list[Run] = []
    free = list(range(lanes))
    lane_of: dict[int, int] = {}
    count = 0
    try:
        while waiting or active:
            while waiting and len(active) < lanes:
                at_work = {run.folder for run in active}  # two measures of one training take turns
                run = next((run for run in waiting if run.folder not in at_work), None)
                if run is None:
                    break
                waiting.remove(run)
                lane_of[id(run)] = free.pop(0)
                started(run, lane_of[id(run)])
                active.append(run)
            for run in list(active):
                try:
                    if not run.advance():
                        continue
                    finished(run)
                except (JobFailed, Busy, OSError) as error:
                    if failed is None:
                        raise
                    failed(run, error)
                active.remove(run)
                free.append(lane_of.pop(id(run)))
                count += 1
            if not active:
                continue
            where = f"{count}/{len(runs)} runs done; " if len(runs) > 2 else ""
            left = time_left([r.seconds_left() for r in active], [r.seconds_left() for r in waiting], lanes)
            progress.update(where + "; ".join(run.status() for run in active), left + after)
            time.sleep(POLL_SECONDS)
    finally:
        stop_all()
        progress.close()
