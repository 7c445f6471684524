"""The steps of a GPU day as work of the engine's runner: when they begin and stop, and what they have left."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from experiments.runs.launch import Launch
from experiments.system.processes import Job, JobFailed, read_stamp, write_stamp
from experiments.system.progress import clock

LONGEST = 9 * 60.0  # seconds after which a step fails, unless it can be continued
LEAST = 60.0  # seconds for which a step that continues is worth a start: its imports alone take ten
CAUTION = 1.3  # a stopped step is taken to need this many times what it ran


@dataclass
class Step:
    """One command of the day.

    Args:
        name: of its log and stamp.
        stage: of plan.STAGES.
        argv: the command, without the interpreter.
        minutes: estimate for an H200.
        out: OUT, in whose folder steps its log and stamp are.
        continues: a second start goes on where the first one was stopped, so that it may be stopped at any time.
        threads: of the CPU.
        deadline: of time.monotonic(); before it a step for which there is no time does not begin, and others stop.
    """

    name: str
    stage: str
    argv: tuple[str, ...]
    minutes: float
    out: Path
    continues: bool = False
    threads: int = 1
    deadline: float = math.inf
    held: IO[str] | None = None
    _job: Job | None = field(default=None, repr=False)
    _begun: float = 0.0

    @property
    def folder(self) -> Path:
        return self.out / "steps"

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    def stamp(self) -> dict[str, Any]:
        """Return what the last start has left, by the same command: seconds, failed or stopped; empty without one."""
        found = read_stamp(self.log.with_suffix(".json"), "argv") or {}
        return found if found.get("argv") == list(self.argv) else {}

    def state(self) -> str:
        """Return what has become of the step, for reading."""
        found = self.stamp()
        if "seconds" in found:
            return f"done in {clock(found['seconds'])}"
        if "failed" in found:
            return f"failed: {found['failed'].splitlines()[0]}"
        return f"stopped after {clock(found['stopped'])}" if "stopped" in found else "not begun"

    def fits(self) -> bool:
        """Return whether the time left suffices: for the plan's estimate, or more if a stopped start took longer."""
        expected = max(60 * self.minutes, CAUTION * self.stamp().get("stopped", 0.0))
        return self.deadline - time.monotonic() >= (LEAST if self.continues else expected)

    def announcement(self) -> str:
        if self.fits():
            return f"{self.name}: starts, some {self.minutes:g} min on an H200; log: {self.log}"
        return f"{self.name}: left for the next call: {clock(self.deadline - time.monotonic())} are too little"

    def advance(self, lane: Launch) -> bool:
        """Start the command, or stop it where its time is up; return whether it has ended, or is left."""
        if self._job is None:
            if not self.fits():
                return True
            self.log.unlink(missing_ok=True)
            self._begun = time.monotonic()
            self._job = Job([sys.executable, *self.argv], self.log, threads=self.threads, held=self.held)
            return False
        taken = time.monotonic() - self._begun
        facts: dict[str, Any] = {}
        try:
            if self._job.finished():
                facts = {"seconds": round(taken, 1)}
            elif time.monotonic() > self.deadline:
                self._job.stop()
                facts = {"stopped": round(taken, 1)}
            elif taken > LONGEST and not self.continues:
                self._job.stop()
                raise JobFailed(f"stopped after {clock(taken)}: a step should not take as long (log: {self.log})")
        except JobFailed as error:
            facts = {"failed": str(error)}
        if facts:
            write_stamp(self.log.with_suffix(".json"), {"argv": list(self.argv), **facts})
        return bool(facts)

    def status(self) -> str:
        return self.name

    def seconds_left(self) -> float:
        return max(0.0, 60 * self.minutes - (time.monotonic() - self._begun if self._job else 0.0))


def waiting(steps: Iterable[Step]) -> list[Step]:
    """Return the steps that are not done: those that have failed before come last."""
    left = [step for step in steps if "seconds" not in step.stamp()]
    return sorted(left, key=lambda step: "failed" in step.stamp())
