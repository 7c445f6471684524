"""Changes the lines of a file in several processes, in their order."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from pathlib import Path

from corpora.errors import DataError
from corpora.progress import progress
from corpora.text.lines import check_words, read_lines
from fairseq_localattn.parallel import map_in_order

_CHUNK = 500  # lines sent to a worker at a time

Change = Callable[[list[str]], list[str]]  # of a chunk

_change: Change | None = None  # of a worker process


def _start_worker(make: Callable[[], Change]) -> None:
    global _change
    _change = make()


def _apply(lines: list[str]) -> list[str]:
    assert _change is not None
    return _change(lines)


def _in_processes(
    chunks: Iterator[list[str]], make: Callable[[], Change], workers: int, context: str | None
) -> Iterator[list[str]]:
    """Yield the changed chunks in order. Raises DataError where a worker is killed."""
    try:
        yield from map_in_order(_apply, chunks, workers, context=context, start=functools.partial(_start_worker, make))
    except BrokenProcessPool:
        raise DataError("a process was killed, probably for lack of memory: give fewer --workers, run again") from None


def _complete_lines(path: Path, whole: int) -> int:
    """Return the number of lines, a multiple of `whole`, that a stopped run left in a file; the rest is removed."""
    count = end = place = 0
    with path.open("r+b") as stream:
        for number, line in enumerate(stream, 1):
            place += len(line)
            if line.endswith(b"\n") and number % whole == 0:
                count, end = number, place
        stream.truncate(end)
    return count


def change_chunks(
    source: Path, part: Path, make: Callable[[], Change], workers: int, *, title: str, size: int = _CHUNK,
    whole: int = 1, context: str | None = None, total: int | None = None,
) -> Iterator[tuple[int, str]]:  # fmt: skip
    """Append the changed lines of `source` to `part`, after those of a stopped run, and yield number and text of each.

    make: returns the change of a chunk of `size` lines; called once in each process, and pickled; in this process
    first, so that what is missing is reported once, and what it loads is there for workers that are forked. whole: a
    stopped run continues at a multiple of so many lines. context: how processes are started, as in multiprocessing.
    total: lines, if they are known.
    """
    part.parent.mkdir(parents=True, exist_ok=True)
    done = _complete_lines(part, whole) if part.exists() else 0
    change = make()
    if done:
        print(f"{title}: continues after line {done:,}", flush=True)
    lines = (text for _, text in islice(read_lines(source, open_end=True), done, None))
    chunks = iter(lambda: list(islice(lines, size)), [])
    changed: Iterator[list[str]] = map(change, chunks)
    if workers > 1:
        changed = _in_processes(chunks, make, workers, context)
        del change  # a parser takes much memory
    with part.open("a", encoding="utf-8", newline="\n") as out, progress(None, title, initial=done, total=total) as bar:
        for chunk in changed:
            for number, text in enumerate(chunk, done + 1):
                yield number, text
                out.write(text + "\n")
            done += len(chunk)
            out.flush()
            bar.update(len(chunk))


def _by_line(make: Callable[[], Callable[[str], str]]) -> Change:
    change = make()
    return lambda lines: [change(line) for line in lines]


def change_file(
    source: Path, target: Path, make: Callable[[], Callable[[str], str]], workers: int, *, allow_empty: bool = False
) -> None:
    """Write `change(line)` for each line of `source` to `target`, which appears when it is complete.

    make: returns `change`, a function from line to line without newlines; see change_chunks. TARGET.part of a stopped
    run with the same arguments is continued; nothing is done where the target exists. Raises DataError for text that
    cannot be read, for changed lines with symbols of fairseq's as words, and, without allow_empty, where nothing is
    left of a line.
    """
    if target.exists():
        return
    part = target.with_name(f"{target.name}.part")
    for number, text in change_chunks(source, part, functools.partial(_by_line, make), workers, title=target.name):
        if not allow_empty and not text.strip():
            advice = "remove the line (of parallel text, on both sides)"
            raise DataError(f"{source}:{number}: no token left after normalisation; {advice}")
        check_words(source, number, text)
    os.replace(part, target)
