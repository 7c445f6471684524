"""The CSV files of results/: one row a run, appended once, and the table of means that is printed from them."""

from __future__ import annotations

import contextlib
import csv
import datetime
import fcntl
import io
import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.measure.command import ScoreError
from experiments.measure.measures import MEASURES, Measure
from experiments.recipes.recipe import Recipe
from experiments.report.summary import PACKAGE, hardware, versions
from experiments.runs.processes import write_atomic
from experiments.runs.run import Run

# What results/README.md describes: these, and between them those of the measure. A row is identified by KEY.
FIRST = ("system", "arch", "baseline", "seed", "updates", "parameters")
LAST = (
    "words_per_second", "train_minutes", "settings", "commit", "hardware", "torch", "fairseq", "package", "date",
)  # fmt: skip
KEY = ("system", "seed", "settings")


def columns_of(*measures: Measure) -> tuple[str, ...]:
    """The columns of a file for these measures."""
    return (*FIRST, *dict.fromkeys(name for measure in measures for name in measure.columns), *LAST)


COLUMNS = columns_of(MEASURES["translation"])


def make_row(
    recipe: Recipe, run: Run, baseline: str, score: Mapping[str, str], columns: Sequence[str] = COLUMNS
) -> dict[str, str]:
    """The row of a finished run; `score` has the columns of its measure, other ones stay empty."""
    facts = run.facts()
    found = versions()
    row = {
        "system": run.system,
        "arch": run.arch,
        "baseline": baseline,
        "seed": run.seed,
        "updates": facts["updates"],
        "parameters": facts["parameters"],
        **score,
        "words_per_second": "" if facts["words_per_second"] is None else facts["words_per_second"],
        "train_minutes": "" if facts["train_minutes"] is None else facts["train_minutes"],
        "settings": run.settings,
        "commit": run.commit(),
        "hardware": hardware(recipe.get("hardware", "cpu"), recipe.get("threads", 1)),
        "torch": found["torch"],
        "fairseq": found["fairseq"],
        "package": found[PACKAGE],
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    return {name: str(row.get(name, "")) for name in columns}


class Table:
    """A CSV file with these columns, in which no `key` comes twice. It need not exist before the first append()."""

    def __init__(self, path: Path, columns: tuple[str, ...] = COLUMNS, key: tuple[str, ...] = KEY) -> None:
        self.path, self.columns, self.key = path, columns, key

    def rows(self) -> list[dict[str, str]]:
        """All rows. Raises ScoreError where the file has other columns."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        reader = csv.DictReader(io.StringIO(text))
        found = tuple(reader.fieldnames or ())
        if found == self.columns[1:]:  # from before there was the column `system`; the next append() writes it
            return [{"system": row["arch"], **row} for row in reader]
        if found != self.columns:
            raise ScoreError(f"{self.path}:1: other columns than {','.join(self.columns)}; move the file away")
        return list(reader)

    def row(self, run: Run) -> dict[str, str] | None:
        """The row of a run, or None."""
        key = (run.system, str(run.seed), run.settings if run.data.bin.is_dir() else "")
        return next((row for row in self.rows() if self._key(row) == key), None)

    def has(self, run: Run) -> bool:
        """True where the run has its row."""
        return self.row(run) is not None

    def append(self, row: Mapping[str, Any]) -> bool:
        """Appends a row, unless one with its key is there: then False. The file is replaced as a whole."""
        with self._alone():
            rows = self.rows()
            if self._key(row) in map(self._key, rows):
                return False
            self._write([*rows, dict(row)])
            return True

    def put(self, new: Sequence[Mapping[str, Any]], instead: Callable[[Mapping[str, str]], bool]) -> None:
        """Appends rows in place of those of which `instead` is true."""
        with self._alone():
            self._write([*(row for row in self.rows() if not instead(row)), *map(dict, new)])

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One process at a time."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        guard = os.open(self.path.parent, os.O_RDONLY)  # the lock of the folder leaves no file behind
        try:
            fcntl.flock(guard, fcntl.LOCK_EX)
            yield
        finally:
            os.close(guard)

    def _write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        stream = io.StringIO()
        writer = csv.DictWriter(stream, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_atomic(self.path, stream.getvalue())

    def _key(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(str(row[name]) for name in self.key)


def _mean(rows: Sequence[Mapping[str, str]], column: str, form: str) -> str:
    """The mean of what is there; '-' where nothing is (a training shorter than one interval of its log)."""
    values = [float(row[column]) for row in rows if row[column]]
    return format(statistics.mean(values), form) if values else "-"


def print_table(table: Table, runs: Sequence[Run], baseline: str) -> None:
    """Means and standard deviations over the seeds of these runs, and the difference to the baseline."""
    by_system: dict[str, list[dict[str, str]]] = {}
    for run in runs:
        if row := table.row(run):
            by_system.setdefault(run.system, []).append(row)
    if not by_system:
        return
    width = max(map(len, ["system", *by_system]))
    headline, title = runs[0].measure.headline, runs[0].measure.title
    print(f"\n{'system':<{width}}  seeds  {title:<13}  difference  p (per seed)         words/s  minutes")
    for system, rows in by_system.items():
        scores = [float(row[headline]) for row in rows]
        differences = [float(row["difference"]) for row in rows if row["difference"]]
        spread = f"{statistics.mean(scores):6.2f} ± {statistics.stdev(scores) if len(scores) > 1 else 0:.2f}"
        difference = f"{statistics.mean(differences):+.2f}" if differences else "baseline"
        p_values = " ".join(row.get("p_value", "") for row in rows) if differences else ""
        speed, minutes = _mean(rows, "words_per_second", ".0f"), _mean(rows, "train_minutes", ".1f")
        quality = f"{spread:<13}  {difference:>10}  {p_values:<19}"
        print(f"{system:<{width}}  {len(rows):5}  {quality}  {speed:>7}  {minutes:>7}")
    if baseline in by_system and "signature" in table.columns:
        print(f"BLEU: {by_system[baseline][0]['signature']}")
