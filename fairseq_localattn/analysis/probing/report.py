"""The rows of the probing tasks' results, in a CSV file that several processes may write to."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from ...errors import UsageError
from ...files import locked
from ..command import save_csv


@dataclass(frozen=True)
class Row:
    """The result of one task and seed; shares are in percent.

    Args:
        training: ``pre-trained`` or ``scratch``.
        balanced: whether all classes have the same number of sentences.
        accuracy, low, high: on the test set, with the 95 % interval (Wilson).
        majority: accuracy of always answering the class that is most frequent in training.
        valid_accuracy: on the validation set after ``best_epoch``.
        settings: a checksum of the data, the encoder and all options.
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


def _cells(row: Row) -> list[str]:
    """Return the row as it is written."""
    return [f"{value:.2f}" if isinstance(value, float) else str(value) for value in asdict(row).values()]


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a file, none if it does not exist. Raises UsageError, with line, for another kind of file."""
    if not path.exists():
        return []
    text = path.read_bytes().decode("utf-8", errors="replace")
    if "\0" in text or "\ufffd" in text:
        raise UsageError(f"{path}: holds bytes that are not text: restore it, or give another file")
    reader = csv.reader(io.StringIO(text, newline=""))
    lines = [(reader.line_num, cells) for cells in reader if cells]  # editors leave blank ones
    if lines and lines[0][1] != HEADER:
        raise UsageError(f"{path}:1: not the columns of this command ({', '.join(HEADER[:4])}, …): give another file")
    for number, cells in lines[1:]:
        if len(cells) != len(HEADER):
            raise UsageError(f"{path}:{number}: {len(cells)} columns, expected {len(HEADER)}: remove the line")
    if text and not text.endswith("\n"):
        raise UsageError(
            f"{path}:{reader.line_num}: the line is cut, without its end: remove the line, or end it, if it is whole"
        )
    return [dict(zip(HEADER, cells, strict=True)) for _, cells in lines[1:]]


def add_row(path: Path, row: Row) -> None:
    """Append a row to a file, in which other processes may write as well."""
    with locked(path):
        rows = [*(found.values() for found in read_rows(path)), _cells(row)]
        save_csv(path, HEADER, rows)


def describe(row: Row) -> str:
    """Return a row as one line for the user."""
    return (
        f"{row.name}, {row.task}, seed {row.seed}: accuracy {row.accuracy:.2f} (95 % interval {row.low:.2f} to "
        f"{row.high:.2f}), {row.correct:,} of {row.total:,}; majority {row.majority:.2f}, {row.classes} classes; "
        f"epoch {row.best_epoch} of {row.epochs}, valid {row.valid_accuracy:.2f}; {row.seconds} s"
    )
