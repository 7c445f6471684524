"""The CSV files of results/: results/<paper>/<table>.csv, one line a scale, row, seed, settings and metric."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.measure.csv_files import Line, csv_text, read_lines
from experiments.measure.generated import ScoreError
from fairseq_localattn.files import locked, write_whole

# What results/README.md describes.
COLUMNS = (
    "scale", "row", "architecture", "baseline", "seed", "metric", "score", "low", "high", "difference", "p_value",
    "signature", "updates", "parameters", "averaged", "gpus", "batch_tokens", "precision", "words_per_second",
    "steps_per_second", "train_minutes", "attention", "settings", "scoring", "commit", "hardware",
    "torch", "fairseq", "package", "date", "note",
)  # fmt: skip
KEY = ("scale", "row", "seed", "settings", "metric")


class Results:
    """One CSV file of results. It need not exist before the first put()."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self) -> list[Line]:
        """Return all lines. Raises ScoreError where the file has other columns, was cut off or is damaged."""
        lines = read_lines(self.path, COLUMNS) if self.path.exists() else []
        if lines and not lines[0].values.keys() <= set(COLUMNS):
            raise ScoreError(f"{self.path}:1: other columns than {','.join(COLUMNS)}; move the file away")
        return lines

    def put(self, new: Sequence[Mapping[str, Any]], instead: Callable[[Line], bool]) -> None:
        """Append lines in place of those of which ``instead`` is true. The file is replaced as a whole."""
        with locked(self.path):
            lines = [*(line.values for line in self.lines() if not instead(line)), *new]
            write_whole(self.path, csv_text(COLUMNS, [[line.get(name, "") for name in COLUMNS] for line in lines]))


def in_words(line: Line) -> str:
    """Return the score of a line, and its difference to the baseline where that is known."""
    found = f"{line['metric']} {line['score']}"
    if line["difference"]:
        found += f" ({float(line['difference']):+.2f} over {line['baseline']}"
        found += f", p {line['p_value']})" if line["p_value"] else ")"
    return found


def number(value: float | None, digits: int = 2) -> str:
    """Return a cell: a number with so many digits behind the point, or nothing."""
    return "" if value is None else f"{value:.{digits}f}"
