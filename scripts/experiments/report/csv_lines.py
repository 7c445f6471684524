"""CSV files with their line numbers, numbers as text, and Markdown, for the tables of the pages."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.measure.csv_files import read_csv
from experiments.measure.generated import ScoreError

NOTHING = "—"  # there is no such number
NOT_MEASURED = "not measured"


class TableError(ValueError):
    """A table that cannot be made; the message names the file, and the line where there is one."""


@dataclass(frozen=True)
class Line:
    """One line of a CSV file and its place, 'file:line'."""

    where: str
    values: Mapping[str, str]

    def __getitem__(self, column: str) -> str:
        return self.values.get(column, "")

    def number(self, column: str) -> float:
        """Return the number in a column. Raises TableError where there is none."""
        try:
            value = float(self[column])
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise TableError(f"{self.where}: {column} must be a number, not {self[column]!r}")
        return value

    def number_or_none(self, column: str) -> float | None:
        """Return the number in a column, or None where the column is empty."""
        return self.number(column) if self[column] else None


def read_lines(path: Path, needed: Sequence[str], key: Sequence[str]) -> list[Line]:
    """Return the lines of a CSV file that has the columns ``needed`` and no ``key`` twice. Raises TableError."""
    try:
        (_, header), *found = read_csv(path)
    except FileNotFoundError:
        raise TableError(f"{path}: cannot be read: no such file") from None
    except ScoreError as error:
        raise TableError(str(error)) from None
    missing = [name for name in needed if name not in header]
    if missing:
        raise TableError(f"{path}:1: lacks the column(s) {', '.join(missing)}")
    lines: list[Line] = []
    seen: dict[tuple[str, ...], int] = {}
    for number, cells in found:
        where = f"{path}:{number}"
        line = Line(where, dict(zip(header, cells, strict=True)))
        values = tuple(line[name] for name in key)
        if values in seen:
            said = ", ".join(f"{name} {value}" for name, value in zip(key, values, strict=True))
            raise TableError(f"{where}: {said}: is on line {seen[values]} already")
        seen[values] = number
        lines.append(line)
    return lines


def groups(lines: Iterable[Line], *columns: str) -> dict[tuple[str, ...], list[Line]]:
    """Return the lines by the values of some columns, in the order of their first line; within each by seed."""
    found: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        found.setdefault(tuple(line[name] for name in columns), []).append(line)
    return {key: sorted(group, key=lambda line: natural(line["seed"])) for key, group in found.items()}


def distinct(lines: Iterable[Line], column: str) -> list[str]:
    """Return the values of a column, each once, in the lines' order, without the empty one."""
    return [value for value in dict.fromkeys(line[column] for line in lines) if value]


def seeds_of(lines: Iterable[Line]) -> list[str]:
    """Return the seeds of these lines, in order."""
    return sorted(distinct(lines, "seed"), key=natural)


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts names as one reads them: window_3 before window_11."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part]


# --- numbers as text


def mean_and_sd(values: Sequence[float], digits: int = 2) -> str:
    """Return mean and standard deviation of a sample, '38.04 ± 0.27'; a single value as it is."""
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{spread}"


def mean_change(values: Sequence[float]) -> str:
    """Return the mean with its sign, '+1.22', and all values where their signs differ; an empty text for no values."""
    if not values:
        return ""
    by_seed = f" ({', '.join(f'{value:+.2f}' for value in values)})" if min(values) < 0 < max(values) else ""
    return f"{statistics.mean(values):+.2f}{by_seed}"


def p_value(line: Line) -> str:
    """Return the column p_value as '0.012', or '<0.001' for less; an empty text where it is empty."""
    value = line.number_or_none("p_value")
    if value is None:
        return ""
    return f"{value:.3f}" if value >= 0.0005 else "<0.001"


def millions(parameters: float, digits: int | None = None) -> str:
    """Return a number of parameters as '36.8M', below ten million as '1.91M'."""
    digits = (1 if parameters >= 1e7 else 2) if digits is None else digits
    return f"{parameters / 1e6:.{digits}f}M"


def decimals(values: Iterable[float]) -> int:
    """Return the largest number of decimals with which numbers are written: 1 for 36.3 and 27."""
    return max((len(f"{value:.10f}".rstrip("0").partition(".")[2]) for value in values), default=0)


# --- Markdown


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table without the columns that are empty in every row."""
    kept = [i for i in range(len(header)) if any(row[i] for row in rows)]
    lines = [[header[i] for i in kept], *([row[i].replace("|", "\\|") for i in kept] for row in rows)]
    text = [("| " + " | ".join(cells) + " |").replace("|  |", "| |").replace("|  |", "| |") for cells in lines]
    return "\n".join([text[0], "|" + "---|" * len(kept), *text[1:]])
