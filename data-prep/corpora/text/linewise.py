"""Turns the lines of a file into other lines, in several processes, order kept; used by the steps that do so."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from pathlib import Path

from corpora.text.parallel import DataError
from corpora.text.streams import PROGRESS_SECONDS, decode, read_bytes

_CHUNK = 500  # lines sent to a worker at a time

Change = Callable[[str], str]

_change: Change | None = None  # of a worker process


def _start_worker(make: Callable[[], Change]) -> None:
    global _change
    _change = make()


def _apply(lines: list[str]) -> list[str]:
    assert _change is not None
    return [_change(line) for line in lines]


def _lines(source: Path, skip: int) -> Iterator[str]:
    for number, line in islice(read_bytes(source, open_end=True), skip, None):
        yield decode(source, number, line)


def _changed(lines: Iterator[str], make: Callable[[], Change], workers: int) -> Iterator[str]:
    """The changed lines, in order; a few chunks a worker are under way. Raises DataError where a worker is killed."""
    under_way: deque[Future[list[str]]] = deque()
    try:
        with ProcessPoolExecutor(workers, initializer=_start_worker, initargs=(make,)) as pool:
            try:
                while chunk := list(islice(lines, _CHUNK)):
                    under_way.append(pool.submit(_apply, chunk))
                    if len(under_way) >= 4 * workers:
                        yield from under_way.popleft().result()
                while under_way:
                    yield from under_way.popleft().result()
            finally:
                pool.shutdown(cancel_futures=True)
    except BrokenProcessPool:
        raise DataError("a process was killed, probably for lack of memory: give fewer --workers, run again") from None


def _complete_lines(path: Path) -> int:
    """How many lines a file has that a stopped run left; what it has after its last newline is cut off."""
    count = end = 0
    with path.open("r+b") as stream:
        for line in stream:
            if not line.endswith(b"\n"):
                break
            count += 1
            end += len(line)
        stream.truncate(end)
    return count


def change_file(
    source: Path,
    target: Path,
    make: Callable[[], Change],
    workers: int,
    *,
    allow_empty: bool = False,
    resume: bool = False,
) -> None:
    """Write `change(line)` of every line of `source` to `target`, which appears when it is complete.

    make: gives `change` (line without newline → line without newline), once in each process; it is pickled.
    resume: go on where a stopped run of the same work left TARGET.part, and do nothing where the target is there.
    Raises DataError for text that cannot be read, and, without allow_empty, where nothing is left of a line.
    """
    if resume and target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part{'' if resume else os.getpid()}")
    done = _complete_lines(part) if part.exists() else 0
    told = time.monotonic()
    try:
        with part.open("a", encoding="utf-8", newline="\n") as out:
            for number, text in enumerate(_changed(_lines(source, done), make, workers), done + 1):
                if not allow_empty and not text.strip():
                    raise DataError(f"{source}:{number}: no token left after normalisation; remove the pair")
                out.write(text + "\n")
                if time.monotonic() - told > PROGRESS_SECONDS:
                    told = time.monotonic()
                    print(f"{target.name}: {number:,} lines so far", flush=True)
        os.replace(part, target)
    finally:
        if not resume:
            part.unlink(missing_ok=True)
