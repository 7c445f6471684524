"""The lines of the results that a plan has and lacks: what is adopted, to be done, recorded and scored."""

from __future__ import annotations

import datetime
import functools
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.data.prepared import trees_fingerprint
from experiments.engine.plan import KEPT, Plan, Row
from experiments.measure.counts import has_counts
from experiments.measure.csv_files import Line
from experiments.measure.generated import ScoreError, language_of, pieces_of_text
from experiments.measure.metrics import OF_TRAINING
from experiments.measure.scoring import TestSet, keep_counts
from experiments.recipes.tables import papers, tables_of
from experiments.report.results import COLUMNS, Results, in_words, number
from experiments.runs.run import Run
from experiments.system.checkout import commit, same_package
from experiments.system.processes import described

SPEEDS = ("words_per_second", "steps_per_second", "train_minutes")


@dataclass
class Ledger:
    """The results of a plan's rows, and what went wrong: ``failures`` by row, or by row and seed."""

    plan: Plan
    failures: dict[str, str] = field(default_factory=dict)
    adopted: set[tuple[str, Path]] = field(default_factory=set)  # row, folder of its run

    def results(self, row: Row) -> Results:
        """Return the CSV file of a row's table."""
        return Results(self.plan.choice.results / row.table.paper / f"{row.table.name}.csv")

    def check_results(self) -> None:
        """Raise RecipeError where the CSVs of the tables cannot be written, and ScoreError where one is damaged."""
        tables = [self.results(row) for row in {row.table.path: row for row in self.plan.rows}.values()]
        self.plan.check_outputs(*(results.path for results in tables), self.plan.choice.results / KEPT / "any.npz")
        for results in tables:
            results.lines()

    def lines(self, row: Row, run: Run) -> list[Line]:
        """Return the lines of the results that a row has with a run's seed and settings, scored as it would be now."""
        scoring = self.scoring(row, run)
        return [line for line in self.results(row).lines() if self.is_of(line, row, run) and line["scoring"] == scoring]

    def is_of(self, line: Line, row: Row, run: Run) -> bool:
        """Return whether a line of the results is of this row, seed and settings."""
        of = (line["scale"], line["row"], line["seed"], line["settings"])
        return of == (self.plan.choice.scale, row.name, str(run.seed), run.settings)

    def scoring(self, row: Row, run: Run) -> str:
        """Return eight hex digits that change with how a row is scored, and against what; it is then scored again."""
        baseline = self.plan.baseline_run(row, run.seed)
        data = row.stated.corpus
        facts: list[Any] = [run.arch, baseline and baseline.key, type(run.measure).__name__]
        facts += [sorted(set(row.stated.paper) & set(OF_TRAINING))]
        facts += [data.source, data.target, data.lowercase, data.bpe, dict(data.tests)]
        facts += [dict(row.stated.beside)] if row.stated.beside else []
        facts += [trees_fingerprint(run.trees)] if run.trees else []
        facts += [row.stated.lead] if row.stated.lead else []
        facts += ["text"] if pieces_of_text(data.bpe, language_of(data.target)) else []
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:8]

    def adopt(self, write: bool = True) -> int:
        """Take over lines of other rows and tables that are of the same training and scoring; return for how many runs.

        A training that several rows, tables or papers share is done once, also where its folder is gone. Without
        ``write`` the rows' runs count as done, and their lines are left as they are.
        """
        known: dict[tuple[str, ...], dict[str, list[Line]]] = {}  # by the row that has them
        configs = self.plan.rows[0].table.path.parents[1]
        for table in (f"{paper}/{name}" for paper in papers(configs) for name in tables_of(paper, configs)):
            # Files of analyses and benchmarks lie beside.
            for line in Results(self.plan.choice.results / f"{table}.csv").lines():
                identity = tuple(line[name] for name in ("scale", "architecture", "seed", "settings", "scoring"))
                known.setdefault(identity, {}).setdefault(f"{table}/{line['row']}", []).append(line)
        for run in self.plan.runs:
            for row in self.plan.rows_of(run):
                if self.lines(row, run):
                    continue
                identity = (self.plan.choice.scale, run.arch, str(run.seed), run.settings, self.scoring(row, run))
                for lines in list(known.get(identity, {}).values())[:1]:
                    own = {"row": row.name, "baseline": _baseline_name(row)}
                    new = [{**line.values, **own} for line in lines]
                    if write:
                        self.results(row).put(new, instead=functools.partial(self.is_of, row=row, run=run))
                    self.adopted.add((row.name, run.folder))
        return len(self.adopted)

    def to_do(self) -> list[Run]:
        """Return the runs without lines, and where all rows are wanted the baselines of other tables, first."""
        missing = [run for run in self.plan.runs if not self._has_lines(run)]
        return [*(self._absent_baselines(missing) if self.plan.choice.with_baselines else []), *missing]

    def _has_lines(self, run: Run) -> bool:
        return all((row.name, run.folder) in self.adopted or self.lines(row, run) for row in self.plan.rows_of(run))

    def _absent_baselines(self, runs: Sequence[Run]) -> Iterator[Run]:
        """Yield the baselines that are none of these runs, and neither finished nor counted, each once."""
        seen = {run.folder for run in runs}
        for run in runs:
            for row in self.plan.rows_of(run) if run.measure.compares else []:
                other = self.plan.baseline_run(row, run.seed)
                if other is not None and other.folder not in seen and not self._comparable(other):
                    seen.add(other.folder)
                    yield other

    def notes(self) -> list[str]:
        """Return what a user may want to know before it begins."""
        absent = [] if self.plan.choice.with_baselines else self._absent_baselines(self.plan.runs)
        names = sorted({other.name for other in absent})
        notes = [f"{name} is not trained: its difference is added when it is" for name in names]
        kept = {
            line["commit"] for run in self.plan.runs for row in self.plan.rows_of(run) for line in self.lines(row, run)
        }
        others = sorted(name for name in kept if not same_package(name))
        if others:
            notes.append(f"rows that are kept were measured with another fairseq_localattn, at {', '.join(others)}")
        return notes

    # --- what is finished

    def record(self, run: Run) -> str:
        """Score a finished run, and those that waited for it as their baseline. Return a line for reading."""
        for row in self.plan.rows_of(run):
            self._append(row, run)
        self._keep_counts(run)
        for other in self.plan.runs:
            for row in self.plan.rows_of(other) if other is not run and other.seed == run.seed and other.done() else []:
                baseline = self.plan.baseline_row(row)
                if baseline is not None and baseline.key in run.rows:
                    self._append(row, other, anew=True)
        return f"{run.label}: {self.headline(run)}"

    def record_all(self) -> None:
        """Score what was trained and decoded before, with differences to baselines that are there by now."""
        for run in filter(Run.done, self.plan.runs):
            scored = [self._append(row, run) for row in self.plan.rows_of(run)]
            if any(scored) or not all(map(has_counts, run.measure.counts_files(run).values())):  # killed in between
                self._keep_counts(run)

    def _keep_counts(self, run: Run) -> None:
        try:
            if self._has_lines(run):  # without, it has failed with a message of its own
                for subset, path in run.measure.counts_files(run).items():
                    if (output := run.folder / run.measure.output(subset)).exists():
                        keep_counts(output, TestSet.of(run.data, subset), path)
        except (ScoreError, OSError) as error:
            self.failures[f"counts of {run.label}"] = described(error)

    def _append(self, row: Row, run: Run, anew: bool = False) -> bool:
        """Score a finished run for a row, where that is not done yet, or ``anew``; return whether it was scored."""
        baseline = self.plan.baseline_run(row, run.seed)
        if baseline is not None and not (self._comparable(baseline) and run.measure.compares):
            baseline = None
        lines, code = self.lines(row, run), run.commit()
        of_this_run = not code or any(line["commit"] == code for line in lines)
        if not anew and lines and of_this_run and (baseline is None or any(line["difference"] for line in lines)):
            return False
        label = label_of(row.key, run)
        self.failures.pop(label, None)  # of an earlier try
        try:
            try:
                new = self._new_lines(row, run, baseline)
            except ScoreError as error:
                if baseline is None or baseline.done():
                    raise
                self.failures[label] = f"{error}; the difference is missing: train {baseline.name} again"
                new = self._new_lines(row, run, None)
            self.results(row).put(new, instead=lambda line: self.is_of(line, row, run))
        except (ScoreError, OSError) as error:
            self.failures[label] = described(error)
            return False
        return True

    def _comparable(self, baseline: Run) -> bool:
        """Return whether a baseline is finished, or its counts of BLEU are kept and it is not to be trained again."""
        again = any(run.folder == baseline.folder and not self._has_lines(run) for run in self.plan.runs)
        files = baseline.measure.counts_files(baseline).values()
        return baseline.done() or (bool(files) and all(map(has_counts, files)) and not again)

    def _new_lines(self, row: Row, run: Run, baseline: Run | None) -> list[dict[str, str]]:
        """Return the lines of the results for a finished run, one a metric. Raises ScoreError."""
        facts: dict[str, Any] = run.facts()
        trained = ("updates", "parameters", "attention", *SPEEDS)
        before = self._noted(row, run)
        same: dict[str, Any] = {
            "scale": self.plan.choice.scale,
            "row": row.name,
            "architecture": run.arch,
            "baseline": _baseline_name(row),
            "seed": run.seed,
            **{key: facts.get(key) for key in trained},
            "averaged": " ".join(f"{which} {count}" for which, count in row.stated.average.items()),
            # The machine of the training; without one, this machine.
            **(facts.get("machine") or run.machine()),
            "settings": run.settings,
            "scoring": self.scoring(row, run),
            "commit": run.commit() or commit(),
            **{name: before[name] for name in ("note", *SPEEDS) if before is not None},
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        }
        lines = []
        for m in run.measurements(baseline, row.stated.paper):
            own: dict[str, Any] = {"metric": m.metric, "signature": m.signature, "p_value": number(m.p_value, 4)}
            own |= {name: number(getattr(m, name)) for name in ("score", "low", "high", "difference")}
            found = {**same, **own}
            lines.append({name: "" if found.get(name) is None else str(found[name]) for name in COLUMNS})
        return lines

    def _noted(self, row: Row, run: Run) -> Line | None:
        """Return an earlier line of the same training where somebody has noted something on it."""
        began = run.commit().partition("..")[0]
        lines = [line for line in self.results(row).lines() if line["note"] and self.is_of(line, row, run)]
        return next((line for line in lines if line["commit"].partition("..")[0] == began), None)

    def headline(self, run: Run, key: str | None = None) -> str:
        """Return the number of a run that is compared, for its row ``key`` or its first, with gain and p if tested."""
        rows = [row for row in self.plan.rows_of(run) if key in (None, row.key)]
        if not rows:
            return "trained and decoded, as a baseline"
        found = {line["metric"]: line for line in self.lines(rows[0], run)}
        metric = rows[0].stated.metric
        shown = [found[metric]] if metric in found else list(found.values())[:3]
        return ", ".join(map(in_words, shown)) or "not scored"

    def failed(self, run: Run, error: Exception) -> None:
        """Keep what went wrong for the end."""
        for key in run.rows:
            self.failures[label_of(key, run)] = described(error)


def label_of(key: str, run: Run) -> str:
    """Return a run as that of one row, PAPER/TABLE/ROW, for reading."""
    return f"{key.rpartition('/')[2]} (seed {run.seed})"


def _baseline_name(row: Row) -> str:
    """Return the name of a row's baseline, TABLE/ROW where it is of another table; empty without one."""
    found = row.table.baseline(row.name)
    if found is None:
        return ""
    return found[1] if found[0] is row.table else f"{found[0].name}/{found[1]}"
