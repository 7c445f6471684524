"""A map over the pieces of a long file by several processes, in order."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing.connection import wait
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

AHEAD = 4  # pieces that are read in advance for each process


def map_in_order(work: Callable[[T], R], pieces: Iterable[T], workers: int) -> Generator[R]:
    """Yield ``work(piece)`` for each piece, in order, computed by ``workers`` processes; with 1, by this process.

    Only a few pieces are in memory at a time. An exception of ``work`` is raised here. Close the iterator to end early.
    """
    if workers == 1:
        yield from map(work, pieces)
        return
    waiting: deque[Future[R]] = deque()
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with_parent) as pool:
        try:
            for piece in pieces:
                waiting.append(pool.submit(work, piece))
                if len(waiting) > AHEAD * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _end_with_parent() -> None:
    """Let this process end when its parent is killed; otherwise it would wait for work forever.

    Ctrl-C, which a terminal sends to all processes, is ignored: the parent ends the workers.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
