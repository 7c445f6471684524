"""CSV files that are read as a whole: one that was cut off, or is damaged, is refused with its line."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from experiments.measure.generated import ScoreError

MEND = "restore the file, or remove the line"


def read_csv(path: Path) -> list[tuple[int, list[str]]]:
    """Return number and cells of each line of a CSV file that is not blank, the header first.

    Raises FileNotFoundError, and ScoreError for a file that cannot be read, holds bytes that are not UTF-8 or NUL, has
    lines of other numbers of cells, or does not end its last line, as an interrupted writer leaves it.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ScoreError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ScoreError(f"{path}:{line}: byte {data[error.start]:#04x} is not UTF-8: {MEND}") from None
    if "\0" in text:
        raise ScoreError(f"{path}:{text[: text.index(chr(0))].count(chr(10)) + 1}: holds a NUL byte: {MEND}")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    lines: list[tuple[int, list[str]]] = []
    try:
        for cells in reader:
            if cells:
                lines.append((reader.line_num, cells))
    except csv.Error as error:
        raise ScoreError(f"{path}:{reader.line_num}: {error}: {MEND}") from None
    if not lines:
        raise ScoreError(f"{path}: is empty: remove it")
    for number, cells in lines:
        if len(cells) != len(lines[0][1]):
            raise ScoreError(
                f"{path}:{number}: {len(cells)} columns, where the first line has {len(lines[0][1])}: {MEND}"
            )
    if not text.endswith("\n"):
        raise ScoreError(
            f"{path}:{reader.line_num}: the last line is cut, without its end: {MEND}, or end the line, if it is whole"
        )
    return lines
