"""The course of a GPU day: one step after another, until all are done or the time is up."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from experiments.system.processes import Job, JobFailed, read_stamp, write_stamp
from experiments.system.progress import Progress, clock

from .plan import Step

LONGEST = 9 * 60.0  # seconds of a step that does not continue: no command of the course should take as long
LEAST = 60.0  # seconds for which a step that continues is worth a start: its imports alone take ten
POLL_SECONDS = 0.2
CAUTION = 1.3  # a step that was stopped before its end will take longer than that


@dataclass(frozen=True)
class Course:
    """The steps that are to be done, and what is known of them in ``out``/steps."""

    steps: Sequence[Step]
    out: Path
    now: Callable[[], float] = time.monotonic
    longest: float = LONGEST

    def stamp(self, step: Step) -> dict[str, Any]:
        """Return what the last start of a step has left, by the same command; empty where there was none."""
        found = read_stamp(self._file(step, "json"), {"argv": (list,)}) or {}
        return found if found.get("argv") == list(step.argv) else {}

    def done(self, step: Step) -> bool:
        """Return whether a step has succeeded."""
        return "seconds" in self.stamp(step)

    def failed(self, step: Step) -> str:
        """Return why a step has failed; empty where it has not."""
        return str(self.stamp(step).get("failed", ""))

    def state(self, step: Step) -> str:
        """Return what has become of a step, for reading."""
        found = self.stamp(step)
        if "seconds" in found:
            return f"done in {clock(found['seconds'])}"
        if "failed" in found:
            return f"failed: {found['failed'].splitlines()[0]}"
        return f"stopped after {clock(found['stopped'])}" if "stopped" in found else "not begun"

    def waiting(self) -> list[Step]:
        """Return the steps that are not done: those that have failed before come last."""
        return sorted((step for step in self.steps if not self.done(step)), key=lambda step: bool(self.failed(step)))

    def log(self, step: Step) -> Path:
        """Return the path of a step's log."""
        return self._file(step, "log")

    def _file(self, step: Step, kind: str) -> Path:
        return self.out / "steps" / f"{step.name}.{kind}"

    def expected(self, step: Step) -> float:
        """Return the seconds that a step may take: the plan's estimate, or more where it was stopped after more."""
        return max(60 * step.minutes, CAUTION * self.stamp(step).get("stopped", 0.0))

    def carry_out(self, deadline: float | None, held: IO[str], progress: Progress) -> None:
        """Start each waiting step once, in order, for which there is time before the deadline (of ``now``)."""
        for step in self.waiting():
            left = None if deadline is None else deadline - self.now()
            if left is not None and left < (LEAST if step.continues else self.expected(step)):
                progress.say(f"{step.name}: left for the next call: {clock(left)} are too little")
                continue
            progress.say(f"{step.name}: starts, some {step.minutes:g} min on an H200; log: {self.log(step)}")
            facts = self._run(step, left, held, progress)
            write_stamp(self._file(step, "json"), {"argv": list(step.argv), **facts})
            how = f"failed: {facts['failed'].splitlines()[0]}" if "failed" in facts else "done"
            progress.say(f"{step.name}: {'stopped' if 'stopped' in facts else how}")

    def _run(self, step: Step, left: float | None, held: IO[str], progress: Progress) -> dict[str, Any]:
        """Run a step; return its stamp: seconds, failed, or stopped."""
        limit = None if step.continues else self.longest
        if left is not None:
            limit = left if limit is None else min(left, limit)
        self.log(step).unlink(missing_ok=True)
        begun = self.now()
        job = Job([sys.executable, *step.argv], self.log(step), threads=step.threads, held=held)
        try:
            while not job.finished():
                taken = self.now() - begun
                if limit is not None and taken > limit:
                    job.stop()
                    return self._stopped(step, taken, left)
                progress.update(step.name, max(0.0, 60 * step.minutes - taken))
                time.sleep(POLL_SECONDS)
        except JobFailed as error:
            return {"failed": str(error)}
        finally:
            progress.close()
        return {"seconds": round(self.now() - begun, 1)}

    def _stopped(self, step: Step, taken: float, left: float | None) -> dict[str, Any]:
        """Return the stamp of a step that ends before its time: a failure, unless the time of this call is up."""
        if left is not None and taken > left:
            return {"stopped": round(taken, 1)}
        return {"failed": f"stopped after {clock(taken)}: a step should not take as long (log: {self.log(step)})"}
