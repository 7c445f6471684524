"""Work on a long file by several processes, in order, and how far it is."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing.connection import wait
from typing import TextIO, TypeVar

T = TypeVar("T")
R = TypeVar("R")

AHEAD = 4  # pieces of work for each process that are read in advance


def in_order(work: Callable[[T], R], pieces: Iterable[T], workers: int) -> Generator[R]:
    """Yield work(piece) for each piece, in order, by `workers` processes; with 1, in this one.

    Only a few pieces are in memory at a time. An exception of `work` is raised here; close the iterator to end early.
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
    """End this process when the one that started it is killed, which would leave it waiting for ever.

    A Ctrl-C on the terminal reaches all processes: the first one ends the others.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Progress:
    """Tells on `stream` how much of `total` is done and how long the rest takes: in place on a terminal, else a line
    every `every` seconds.
    """

    def __init__(self, total: int, unit: str, stream: TextIO | None = None, every: float = 15.0) -> None:
        self.total, self.unit = total, unit
        self.stream = sys.stderr if stream is None else stream
        self._terminal = self.stream.isatty()
        self.every = min(every, 0.5) if self._terminal else every
        self.done = 0
        self._begin = self._told = time.monotonic()

    def advance(self, number: int, name: str) -> None:
        """`number` more are done, of the part `name`."""
        self.done += number
        now = time.monotonic()
        if now - self._told < self.every:
            return
        self._told = now
        spent = now - self._begin
        left = spent / self.done * max(0, self.total - self.done)
        text = f"{name}: {self.done:,} of {self.total:,} {self.unit}, {spent / 60:.1f} min, about {left / 60:.1f} left"
        self.stream.write(f"\r\033[K{text}" if self._terminal else f"{text}\n")
        self.stream.flush()

    def close(self) -> None:
        """Clear the line that is rewritten on a terminal."""
        if self._terminal:
            self.stream.write("\r\033[K")
            self.stream.flush()
