"""Where a run of the benchmarks stands: lines on stderr with the time left of the part."""

from __future__ import annotations

import time
from collections.abc import Callable

from experiments.runs.progress import Progress


class Pace:
    """Progress of one part. Work is counted in units of about the same time; :meth:`expect` says how many there are."""

    def __init__(self, part: str, progress: Progress) -> None:
        self.part, self.progress = part, progress
        self.total = self.done = 0.0
        self.begun = time.monotonic()

    def expect(self, units: float) -> None:
        """The timing begins: so many units are to be done."""
        self.total, self.done, self.begun = units, 0.0, time.monotonic()

    def say(self, what: str) -> None:
        """What is done now; with the time left, once something is done."""
        line = f"{self.part}: {what}"
        if self.done:
            self.progress.update(line, self.left())
        else:
            self.progress.say(line)

    def left(self) -> float:
        """Seconds to the end of the timing, at the speed so far; 0 where nothing is done yet."""
        per_unit = (time.monotonic() - self.begun) / self.done if self.done else 0.0
        return per_unit * max(0.0, self.total - self.done)

    def rounds(self, rounds: int, units: float = 1.0, where: str = "") -> Callable[[str, int], None]:
        """What timing.interleave tells: each measurement is so many units."""

        def told(name: str, number: int) -> None:
            stage = f"round {number + 1} of {rounds}" if number >= 0 else "warming up"
            self.say(f"{where}{name}, {stage}")
            self.done += units

        return told
