"""Times of several systems, interleaved: in each round each of them runs once on the same work, in rotating order.

So what changes while a run lasts (the clock of the processor, a neighbour) meets all systems alike, and the ratio of
two times of one round says more than the ratio of their means.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Runner(Protocol):
    """What is timed: ``run``. ``prepare`` comes before and ``finish`` after it, on no account."""

    def prepare(self, item: Any) -> None: ...

    def run(self) -> None: ...

    def finish(self) -> None: ...


@dataclass(frozen=True)
class Ratio:
    """Of the baseline's time to a system's, over rounds: above 1 the system is faster."""

    median: float
    lowest: float
    highest: float


def ratio_of(baseline: Sequence[float], system: Sequence[float]) -> Ratio:
    """Baseline / system, round by round. Raises ValueError unless both have the same number of rounds, at least one."""
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
    told: Callable[[str, int], None] = lambda name, number: None,
) -> dict[str, list[float]]:
    """Seconds of each system's ``run``, one for each of ``items`` after the first ``warm_up`` of them.

    ``least``: seconds that a measurement should last; where the first system's last warm-up was shorter, each of the
    later measurements is the mean of so many runs, the same number for all systems. ``told`` is called before each
    measurement with the system's name and the number of the round, negative while warming up.
    """
    names = list(runners)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    calls = 1
    for number, item in enumerate(items):
        if number == warm_up and warm_up:
            calls = max(1, math.ceil(least / max(seconds[names[0]][-1], 1e-9)))
        start = number % len(names)
        with _no_collection():
            for name in names[start:] + names[:start]:
                told(name, number - warm_up)
                seconds[name].append(_measure(runners[name], item, calls, synchronize, clock))
    return {name: found[warm_up:] for name, found in seconds.items()}


def _measure(
    runner: Runner, item: Any, calls: int, synchronize: Callable[[], None], clock: Callable[[], float]
) -> float:
    runner.prepare(item)
    synchronize()
    start = clock()
    for _ in range(calls):
        runner.run()
    synchronize()
    taken = (clock() - start) / calls
    runner.finish()
    return taken


class _no_collection:  # noqa: N801  (used as a word of the with statement)
    """Python's garbage collection before what is measured, and none within."""

    def __enter__(self) -> None:
        gc.collect()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        gc.enable()
