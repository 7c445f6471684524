"""The page of a GPU day, its picture, and the archive of all that is to be kept."""

from __future__ import annotations

import csv
import tarfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.settings import PRECISIONS
from experiments.runs.processes import write_atomic
from fairseq_localattn.analysis.command import new_figure
from fairseq_localattn.files import replaced

from .course import Course
from .goals import goal_of
from .plan import TABLE, report_of

Rows = list[dict[str, str]]
ARCHIVE, PAGE = "gpu_day.tar.gz", "gpu_day.md"
KEPT = ("*.md", "*.png", "contract", "results", "steps")  # of OUT, in the archive
TRAINED = (
    "row",
    "metric",
    "score",
    "difference",
    "p_value",
    "updates",
    "words_per_second",
    "train_minutes",
    "precision",
)


def write(course: Course, device: str, machine: str) -> list[Path]:
    """Write page, picture and archive of what has been measured so far; return their paths."""
    out = course.out
    steps = {precision: read(out, "step", device, precision) for precision in PRECISIONS}
    picture = draw_goals(steps, machine, out / f"goals_{device}.png")
    parts = [f"# A day on one GPU\n\n{machine}", states(course), contract(out, device), goals(steps)]
    parts += [ratios(out, part, device) for part in ("module", "scaling", "generation", "long")]
    parts += [trainings(out)]
    write_atomic(out / PAGE, "\n\n".join(part for part in parts if part) + "\n")
    with replaced(out / ARCHIVE) as unfinished, tarfile.open(unfinished, "w:gz") as archive:
        for path in sorted(path for pattern in KEPT for path in out.glob(pattern)):
            archive.add(path, path.relative_to(out))
    return [out / PAGE, *picture, out / ARCHIVE]


def read(out: Path, part: str, device: str, precision: str) -> Rows:
    """Return the rows of a table of the benchmarks; none where it has not been measured."""
    return read_csv(out / "results" / "benchmarks" / f"{part}_{device}_{precision}.csv")


def read_csv(path: Path) -> Rows:
    """Return the rows of a CSV file; none without one."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a section with a table in Markdown; empty without rows."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    head = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join([f"## {title}", "", *head, *lines]) if lines else ""


def states(course: Course) -> str:
    """Return the section about the steps."""
    return table("Steps", ("step", "state"), [(step.name, course.state(step)) for step in course.steps])


def contract(out: Path, device: str) -> str:
    """Return the section about the contract suite, from the reports of pytest."""
    rows = []
    for precision in ("fp32", "bf16", "fp16"):
        path = report_of(out, device, precision)
        if path.is_file():
            suites = list(ElementTree.parse(path).getroot().iter("testsuite"))
            tests, failed, errors, skipped = (
                sum(int(suite.get(name, "0")) for suite in suites)
                for name in ("tests", "failures", "errors", "skipped")
            )
            rows.append((precision, tests - failed - errors - skipped, failed + errors, skipped))
    return table(f"Contract suite on {device}", ("precision", "passed", "failed", "skipped"), rows)


def goals(steps: Mapping[str, Rows]) -> str:
    """Return the section about the training step: goal and measured efficiency, with the ratio of the times."""
    measured = {precision: {row["system"]: row for row in rows} for precision, rows in steps.items() if rows}
    columns = ["system", "goal"]
    for precision in measured:
        columns += [f"efficiency, {precision}", f"times fairseq's speed, {precision}", f"peak MiB, {precision}"]
    rows = []
    for system in dict.fromkeys(name for found in measured.values() for name in found):
        goal = next(goal_of(found[system]) for found in measured.values() if system in found)
        cells: list[str] = [system, "" if goal is None else f"{goal:.2f}"]
        for found in measured.values():
            row = found.get(system)
            if row is None:
                cells += ["", "", ""]
                continue
            reached = "" if goal is None else " ✓" if float(row["efficiency"]) >= goal else " ✗"
            spread = f"{float(row['ratio_lowest']):.2f} to {float(row['ratio_highest']):.2f}"
            cells += [f"{float(row['efficiency']):.3f}{reached}", f"{float(row['ratio_median']):.3f} ({spread})"]
            cells += [f"{float(row['peak_mib']):.0f}"]
        rows.append(cells)
    return table("Training step", columns, rows)


def ratios(out: Path, part: str, device: str) -> str:
    """Return the sections of a part of the benchmarks: fairseq's own time over each system's, by length."""
    sections = []
    for precision in PRECISIONS:
        rows = read(out, part, device, precision)
        by_length = part != "generation"
        lengths = list(dict.fromkeys(row["tokens"] for row in rows)) if by_length else ["speed"]
        found = {(row["system"], row["tokens"] if by_length else "speed"): row["ratio_median"] for row in rows}
        systems = dict.fromkeys(row["system"] for row in rows)
        cells = [[name, *(_shown(found.get((name, length), "")) for length in lengths)] for name in systems]
        sections.append(table(f"{part}, {precision}: times fairseq's speed", ("system", *lengths), cells))
    return "\n\n".join(section for section in sections if section)


def _shown(number: str) -> str:
    return f"{float(number):.2f}" if number else "–"


def trainings(out: Path) -> str:
    """Return the section about the trainings."""
    paper, name = TABLE
    rows = read_csv(out / "results" / paper / f"{name}.csv")
    return table("Trainings", TRAINED, [[row[column] for column in TRAINED] for row in rows])


def draw_goals(steps: Mapping[str, Rows], title: str, path: Path) -> list[Path]:
    """Draw the efficiency of each system with its goal; return the path, or nothing where no step was measured."""
    measured = {precision: rows for precision, rows in steps.items() if rows}
    if not measured:
        return []
    systems = list(dict.fromkeys(row["system"] for rows in measured.values() for row in rows))
    figure = new_figure(figsize=(max(6, 0.7 * len(systems)), 4))
    axis = figure.subplots()
    width = 0.8 / len(measured)
    for number, (precision, rows) in enumerate(measured.items()):
        places = [systems.index(row["system"]) + (number - (len(measured) - 1) / 2) * width for row in rows]
        axis.bar(places, [float(row["efficiency"]) for row in rows], width, label=precision)
    goals = {row["system"]: goal for rows in measured.values() for row in rows if (goal := goal_of(row)) is not None}
    for number, (system, goal) in enumerate(goals.items()):
        at = systems.index(system)
        axis.hlines(goal, at - 0.45, at + 0.45, color="black", label=None if number else "goal")
    axis.axhline(1, color="grey", linewidth=0.8)
    axis.set_xticks(range(len(systems)), systems, rotation=60, ha="right")
    axis.set_ylabel("efficiency of a training step")
    axis.legend(fontsize=8)
    axis.set_title(title, fontsize=9)
    with replaced(path) as part:
        figure.savefig(part, dpi=120, format="png")
    return [path]
