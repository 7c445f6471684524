"""The rows of the probing tasks in a CSV file, and how far a run is."""

from __future__ import annotations

import csv
import fcntl
import io
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TextIO

from ...errors import UsageError


@dataclass(frozen=True)
class Row:
    """One task and seed. Shares are in percent: accuracy on the test set with its 95 % interval (Wilson), that of the
    class that is most frequent in training (``majority``), and on the validation set at the ``best_epoch``.

    training: ``pre-trained`` or ``scratch``; balanced: classes of the same size; settings: a checksum of data, encoder
    and all options.
    """

    name: str
    training: str
    architecture: str
    task: str
    balanced: bool
    seed: int
    accuracy: float
    low: float
    high: float
    correct: int
    total: int
    majority: float
    classes: int
    valid_accuracy: float
    best_epoch: int
    epochs: int
    train_sentences: int
    left_out: int
    parameters: int
    seconds: int
    settings: str


HEADER = [field.name for field in fields(Row)]


def _text(row: Row) -> dict[str, str]:
    return {name: f"{value:.2f}" if isinstance(value, float) else str(value) for name, value in asdict(row).items()}


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a file, none if it is not there. Raises UsageError with file and line where it is no such file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        lines = list(csv.reader(stream))
    if lines and lines[0] != HEADER:
        raise UsageError(f"{path}:1: not the columns of this command ({', '.join(HEADER[:4])}, …): give another file")
    for number, line in enumerate(lines[1:], 2):
        if len(line) != len(HEADER):
            raise UsageError(f"{path}:{number}: {len(line)} columns, expected {len(HEADER)}: remove the line")
    return [dict(zip(HEADER, line, strict=True)) for line in lines[1:]]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time; a lock on the folder leaves no file behind."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def add_row(path: Path, row: Row) -> None:
    """Write a row at the end of a file that other processes may write to as well."""
    with _locked(path.parent):
        rows = [*read_rows(path), _text(row)]
        text = io.StringIO()
        writer = csv.DictWriter(text, HEADER, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        temporary = path.with_name(f"{path.name}.part{os.getpid()}")
        temporary.write_text(text.getvalue(), encoding="utf-8")
        os.replace(temporary, path)


def clock(seconds: float) -> str:
    """Seconds as m:ss or h:mm:ss."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Progress:
    """Tells how far a run is, with an estimate of the time left: in place on a terminal, else now and then.

    total: items of all that is to be done, of about the same cost each.
    """

    def __init__(self, total: int, stream: TextIO | None = None, every: float = 15.0) -> None:
        self.total, self.done = total, 0
        self.stream = sys.stderr if stream is None else stream
        self.every = every
        self.started = time.monotonic()
        self._spent = 0.0  # seconds on items
        self._called = self.started
        self._told = 0.0
        self._warm = False

    def skip(self, items: int) -> None:
        """Items that an earlier run has done."""
        self.total -= items

    def update(self, items: int, message: str) -> None:
        """``items`` more are done; 0: something else was, which says nothing of the time that the others take."""
        now = time.monotonic()
        if items and not self._warm:  # the first batch waits for what torch loads late, and says nothing of the rest
            self._warm = True
            self.skip(items)
        elif items:
            self.done += items
            self._spent += now - self._called
        self._called = now
        terminal = self.stream.isatty()
        if now - self._told < (0.5 if terminal else self.every):
            return
        self._told = now
        left = f", about {clock(self._spent * (self.total - self.done) / self.done)} left" if self.done else ""
        line = f"[{clock(now - self.started)}{left}] {message}"
        self.stream.write(f"\r\033[K{line}" if terminal else f"{line}\n")
        self.stream.flush()

    def close(self) -> None:
        """Clear the line that is rewritten."""
        if self.stream.isatty():
            self.stream.write("\r\033[K")
            self.stream.flush()
