"""Changes the lines of a file in several processes, in their order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from pathlib import Path

from corpora.errors import DataError
from corpora.progress import progress
from corpora.text.lines import check_words, read_lines

_CHUNK = 500  # lines sent to a worker at a time

Change = Callable[[str], str]

_change: Change | None = None  # of a worker process


def _start_worker(make: Callable[[], Change]) -> None:
    global _change
    _change = make()


def _apply(lines: list[str]) -> list[str]:
    assert _change is not None
    return [_change(line) for line in lines]


def _changed(lines: Iterator[str], make: Callable[[], Change], workers: int) -> Iterator[str]:
    """Yield the changed lines in order, with at most four chunks a worker in memory.

    Raises DataError where a worker is killed.
    """
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
    """Return the number of lines that a stopped run left in a file; text after the last newline is removed."""
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
    source: Path, target: Path, make: Callable[[], Change], workers: int, *, allow_empty: bool = False
) -> None:
    """Write `change(line)` for each line of `source` to `target`, which appears when it is complete.

    make: returns `change`, a function from line to line without newlines; called once in each process, and pickled; in
    this process first, so that what is missing is reported once, and what it loads is there for the workers.
    TARGET.part of a stopped run with the same arguments is continued; nothing is done where the target exists. Raises
    DataError for text that cannot be read, for changed lines with symbols of fairseq's as words, and, without
    allow_empty, where nothing is left of a line.
    """
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    done = _complete_lines(part) if part.exists() else 0
    make()
    with part.open("a", encoding="utf-8", newline="\n") as out:
        lines = (text for _, text in islice(read_lines(source, open_end=True), done, None))
        changed = progress(_changed(lines, make, workers), target.name, initial=done)
        for number, text in enumerate(changed, done + 1):
            if not allow_empty and not text.strip():
                raise DataError(f"{source}:{number}: no token left after normalisation; remove the pair")
            check_words(source, number, text)
            out.write(text + "\n")
    os.replace(part, target)
