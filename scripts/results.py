"""The CSV files of results/: one row a run, appended once, and the table of means that is printed from them."""

from __future__ import annotations

import csv
import datetime
import fcntl
import io
import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jobs import write_atomic
from recipe import Recipe
from runs import Run
from score import Report, ScoreError
from summary import PACKAGE, hardware, versions

# What results/README.md describes. A row is identified by KEY.
COLUMNS = (
    "system", "arch", "baseline", "seed", "updates", "parameters", "bleu", "signature", "tokenised_bleu",
    "difference", "p_value", "words_per_second", "train_minutes", "settings", "commit", "hardware", "torch", "fairseq",
    "package", "date",
)  # fmt: skip
KEY = ("system", "seed", "settings")


def make_row(recipe: Recipe, run: Run, baseline: str, report: Report) -> dict[str, str]:
    """The row of a finished run; difference and p_value are empty for the baseline itself."""
    facts = run.facts()
    found = versions()
    test = report.significance
    row = {
        "system": run.system,
        "arch": run.arch,
        "baseline": baseline,
        "seed": run.seed,
        "updates": facts["updates"],
        "parameters": facts["parameters"],
        "bleu": f"{report.bleu.score:.2f}",
        "signature": report.bleu.signature,
        "tokenised_bleu": "" if report.tokenised is None else f"{report.tokenised.score:.2f}",
        "difference": "" if test is None else f"{test.difference:.2f}",
        "p_value": "" if test is None else f"{test.p_value:.4f}",
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
    return {name: str(row[name]) for name in COLUMNS}


class Table:
    """A CSV file with the columns COLUMNS, in which no KEY comes twice. It need not exist before the first append()."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def rows(self) -> list[dict[str, str]]:
        """All rows. Raises ScoreError where the file has other columns."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        reader = csv.DictReader(io.StringIO(text))
        found = tuple(reader.fieldnames or ())
        if found == COLUMNS[1:]:  # from before there was the column `system`; the next append() writes it
            return [{"system": row["arch"], **row} for row in reader]
        if found != COLUMNS:
            raise ScoreError(f"{self.path}:1: other columns than {','.join(COLUMNS)}; move the file away")
        return list(reader)

    def row(self, run: Run) -> dict[str, str] | None:
        """The row of a run, or None."""
        key = (run.system, str(run.seed), run.settings if run.data.bin.is_dir() else "")
        return next((row for row in self.rows() if _key(row) == key), None)

    def has(self, run: Run) -> bool:
        """True where the run has its row."""
        return self.row(run) is not None

    def append(self, row: Mapping[str, Any]) -> bool:
        """Appends a row, unless one with its KEY is there: then False. The file is replaced as a whole."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        guard = os.open(self.path.parent, os.O_RDONLY)  # the lock of the folder leaves no file behind
        try:
            fcntl.flock(guard, fcntl.LOCK_EX)
            rows = self.rows()
            if _key(row) in map(_key, rows):
                return False
            stream = io.StringIO()
            writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows([*rows, dict(row)])
            write_atomic(self.path, stream.getvalue())
            return True
        finally:
            os.close(guard)


def _key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in KEY)


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
    print(f"\n{'system':<{width}}  seeds  BLEU           difference  p (per seed)         words/s  minutes")
    for system, rows in by_system.items():
        scores = [float(row["bleu"]) for row in rows]
        differences = [float(row["difference"]) for row in rows if row["difference"]]
        spread = f"{statistics.mean(scores):6.2f} ± {statistics.stdev(scores) if len(scores) > 1 else 0:.2f}"
        difference = f"{statistics.mean(differences):+.2f}" if differences else "baseline"
        p_values = " ".join(row["p_value"] for row in rows) if differences else ""
        speed, minutes = _mean(rows, "words_per_second", ".0f"), _mean(rows, "train_minutes", ".1f")
        quality = f"{spread:<13}  {difference:>10}  {p_values:<19}"
        print(f"{system:<{width}}  {len(rows):5}  {quality}  {speed:>7}  {minutes:>7}")
    if baseline in by_system:
        print(f"BLEU: {by_system[baseline][0]['signature']}")
