"""Interleaved timing of several systems: in each round every system runs once on the same work, in rotating order.

Whatever changes during a run (the processor's clock, other processes) then affects all systems alike, so the ratio of
two times of one round is more reliable than the ratio of their means.
"""

from __future__ import annotations

import contextlib
import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from experiments.system.progress import Progress

from .settings import Settings


class Runner(Protocol):
    """A system that is timed: the time of ``run`` counts, that of ``prepare`` before and ``finish`` after it not."""

    def prepare(self, item: Any) -> None: ...

    def run(self) -> None: ...

    def finish(self) -> None: ...


@dataclass(frozen=True)
class Ratio:
    """Ratios of the baseline's time to a system's over all rounds; above 1 the system is faster."""

    median: float
    lowest: float
    highest: float


def ratio_of(baseline: Sequence[float], system: Sequence[float]) -> Ratio:
    """Compute baseline / system round by round.

    Raises ValueError unless both have the same number of rounds, at least one.
    """
    if not baseline or len(baseline) != len(system):
        raise ValueError(f"{len(baseline)} rounds of the baseline and {len(system)} of the system")
    ratios = [base / own for base, own in zip(baseline, system, strict=True)]
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))


def interleave(
    runners: Mapping[str, Runner],
    items: Sequence[Any],
    warm_up: int,
    *,
    synchronize: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
    least: float = 0.0,
    on_progress: Callable[[str, int], None] = lambda name, number: None,
) -> dict[str, list[float]]:
    """Time every system on every item.

    Args:
        runners: the systems by name.
        items: the work of each round.
        warm_up: rounds at the beginning that do not count.
        synchronize: waits for the device.
        clock: returns seconds.
        least: seconds that a measurement should last at least. If the first system's last warm-up was shorter, each
            measurement is the mean of several runs, the same number for all systems.
        on_progress: called before each measurement with the system's name and the number of the round, which is
            negative while warming up.

    Returns the seconds of ``run`` in each round after the warm-up, by system.
    """
    names = list(runners)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    repeats = 1
    for number, item in enumerate(items):
        if number == warm_up and warm_up:
            repeats = max(1, math.ceil(least / max(seconds[names[0]][-1], 1e-9)))
        start = number % len(names)
        with garbage_collection_paused():
            for name in names[start:] + names[:start]:
                on_progress(name, number - warm_up)
                seconds[name].append(_measure(runners[name], item, repeats, synchronize=synchronize, clock=clock))
    return {name: found[warm_up:] for name, found in seconds.items()}


def time_rounds(
    runners: Mapping[str, Runner],
    items: Sequence[Any],
    settings: Settings,
    progress: PartProgress,
    *,
    units: float = 1.0,
    where: str = "",
    least: float = 0.0,
) -> dict[str, list[float]]:
    """Return :func:`interleave` by the settings of a run; each measurement is so many ``units`` of the progress."""
    on_progress = progress.rounds(settings.rounds, units, where)
    wait = settings.synchronize
    return interleave(runners, items, settings.warm_up, synchronize=wait, least=least, on_progress=on_progress)


def _measure(
    runner: Runner, item: Any, repeats: int, *, synchronize: Callable[[], None], clock: Callable[[], float]
) -> float:
    """Return the mean seconds of several calls of ``run``."""
    runner.prepare(item)
    synchronize()
    start = clock()
    for _ in range(repeats):
        runner.run()
    synchronize()
    taken = (clock() - start) / repeats
    runner.finish()
    return taken


@contextlib.contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Collect Python's garbage, then pause the collection inside of the context."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class PartProgress:
    """Progress of one part of the benchmarks, with the time left.

    Work is counted in units that take about the same time; :meth:`expect` sets their number.
    """

    def __init__(self, part: str, progress: Progress) -> None:
        self.part, self.progress = part, progress
        self.total = self.done = 0.0
        self.begun = time.monotonic()

    def expect(self, units: float) -> None:
        """Begin the timing of so many units."""
        self.total, self.done, self.begun = units, 0.0, time.monotonic()

    def say(self, what: str) -> None:
        """Show the current step, with the time left once a unit is done."""
        line = f"{self.part}: {what}"
        if self.done:
            self.progress.update(line, self.left())
        else:
            self.progress.say(line)

    def left(self) -> float:
        """Estimate the seconds to the end of the timing from the speed so far; 0 before the first unit is done."""
        per_unit = (time.monotonic() - self.begun) / self.done if self.done else 0.0
        return per_unit * max(0.0, self.total - self.done)

    def rounds(self, rounds: int, units: float = 1.0, where: str = "") -> Callable[[str, int], None]:
        """Return an ``on_progress`` for :func:`interleave`, where each measurement is so many units."""

        def on_progress(name: str, number: int) -> None:
            stage = f"round {number + 1} of {rounds}" if number >= 0 else "warming up"
            self.say(f"{where}{name}, {stage}")
            self.done += units

        return on_progress
