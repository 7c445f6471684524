"""CSV files that are read as a whole, with their line numbers: one that was cut off, or is damaged, is refused."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.measure.generated import ScoreError

MEND = "restore the file, or remove the line"


@dataclass(frozen=True)
class Line:
    """One line of a CSV file and its place, 'file:line'."""

    where: str
    values: Mapping[str, str]

    def __getitem__(self, column: str) -> str:
        return self.values.get(column, "")

    def number(self, column: str) -> float:
        """Return the number in a column. Raises ScoreError where there is none."""
        try:
            value = float(self[column])
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise ScoreError(f"{self.where}: {column} must be a number, not {self[column]!r}")
        return value


def read_lines(path: Path, needed: Sequence[str] = (), key: Sequence[str] = ()) -> list[Line]:
    """Return the lines of a CSV file that has the columns ``needed``, and no ``key`` twice; blank ones are left out.

    Raises ScoreError, also for a file that holds bytes that are not UTF-8 or NUL, has lines of other numbers of cells,
    or does not end its last line, as an interrupted writer leaves it.
    """
    (_, header), *found = _cells(path)
    if missing := [name for name in needed if name not in header]:
        raise ScoreError(f"{path}:1: lacks the column(s) {', '.join(missing)}")
    lines: list[Line] = []
    seen: dict[tuple[str, ...], int] = {}
    for number, cells in found:
        line = Line(f"{path}:{number}", dict(zip(header, cells, strict=True)))
        values = tuple(line[name] for name in key)
        if key and values in seen:
            said = ", ".join(f"{name} {value}" for name, value in zip(key, values, strict=True))
            raise ScoreError(f"{line.where}: {said}: is on line {seen[values]} already")
        seen[values] = number
        lines.append(line)
    return lines


def _cells(path: Path) -> list[tuple[int, list[str]]]:
    """Return number and cells of each line that is not blank, the header first. Raises ScoreError."""
    try:
        data = path.read_bytes()
        text = data.decode("utf-8")
    except OSError as error:
        raise ScoreError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ScoreError(f"{path}:{line}: byte {data[error.start]:#04x} is not UTF-8: {MEND}") from None
    if "\0" in text:
        raise ScoreError(f"{path}:{text[: text.index(chr(0))].count(chr(10)) + 1}: holds a NUL byte: {MEND}")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        lines = [(reader.line_num, cells) for cells in reader if cells]
    except csv.Error as error:
        raise ScoreError(f"{path}:{reader.line_num}: {error}: {MEND}") from None
    if not lines:
        raise ScoreError(f"{path}: is empty: remove it")
    size = len(lines[0][1])
    for number, cells in lines:
        if len(cells) != size:
            raise ScoreError(f"{path}:{number}: {len(cells)} columns, where the first line has {size}: {MEND}")
    if not text.endswith("\n"):
        cut = "the last line is cut, without its end"
        raise ScoreError(f"{path}:{reader.line_num}: {cut}: {MEND}, or end the line, if it is whole")
    return lines


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a CSV file's text."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([header, *rows])
    return stream.getvalue()
