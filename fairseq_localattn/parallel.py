"""Several processes: a map over the pieces of a long file, in order, and how many cores there are."""

from __future__ import annotations

import functools
import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing.connection import wait
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

AHEAD = 4  # pieces that are read in advance for each process


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_in_order(
    work: Callable[[T], R],
    pieces: Iterable[T],
    workers: int,
    *,
    context: str | None = "fork",
    start: Callable[[], object] | None = None,
) -> Generator[R]:
    """Yield ``work(piece)`` for each piece, in order, computed by ``workers`` processes; with 1, by this process.

    Only a few pieces are in memory at a time. Close the iterator to end early. ``context``: how processes are started,
    as in multiprocessing; ``start`` is called in each first. An exception of ``work`` is raised here, and
    BrokenProcessPool where a process was killed.
    """
    if workers == 1:
        if start is not None:
            start()
        yield from map(work, pieces)
        return
    waiting: deque[Future[R]] = deque()
    begin = functools.partial(_begin, start)
    with ProcessPoolExecutor(workers, multiprocessing.get_context(context), initializer=begin) as pool:
        try:
            for piece in pieces:
                waiting.append(pool.submit(work, piece))
                if len(waiting) > AHEAD * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _begin(start: Callable[[], object] | None) -> None:
    """Let this process end when its parent is killed; otherwise it would wait for work forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    if start is not None:
        start()
