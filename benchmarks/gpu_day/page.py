"""The page of a GPU day, its picture, and the archive of all that is to be kept."""

from __future__ import annotations

import tarfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.settings import PRECISIONS
from experiments.measure.csv_files import read_lines
from experiments.report.text import markdown
from fairseq_localattn.analysis.command import new_figure, save_figure
from fairseq_localattn.files import replaced, write_whole

from .course import Step
from .goals import goal_of
from .plan import TABLES, TRAININGS, report_of

Rows = list[dict[str, str]]
ARCHIVE, PAGE = "gpu_day.tar.gz", "gpu_day.md"
KEPT = ("*.md", "*.png", "contract", "results", "steps")  # of OUT, in the archive
TRAINED = "row metric score difference p_value updates words_per_second train_minutes precision".split()


def write(chosen: Iterable[Step], out: Path, device: str, *, machine: str) -> list[Path]:
    """Write page, picture and archive of what has been measured so far; return their paths."""
    steps = {precision: read(out, "step", device, precision) for precision in PRECISIONS}
    picture = draw_goals(steps, machine, out / f"goals_{device}.png")
    parts = [
        f"# A day on one GPU\n\n{machine}",
        table("Steps", ("step", "state"), [(step.name, step.state()) for step in chosen]),
        launches(out),
        *fused(out),
        ratios(out, "optimizer", device),
    ]
    parts += [contract(out, device), goals(steps)]
    parts += [ratios(out, part, device) for part in ("module", "scaling", "generation", "long")]
    parts += [trainings(out)]
    write_whole(out / PAGE, "\n\n".join(part for part in parts if part) + "\n")
    with replaced(out / ARCHIVE) as unfinished, tarfile.open(unfinished, "w:gz") as archive:
        for path in sorted(path for pattern in KEPT for path in out.glob(pattern)):
            archive.add(path, path.relative_to(out))
    return [out / PAGE, *picture, out / ARCHIVE]


def launches(out: Path) -> str:
    """Return the section about counted operations."""
    columns = ("system", "architecture", "operations", "share", "syncs")
    rows = read_csv(out / TABLES / "launches_meta_bf16.csv")
    return table("Operations, as counted", columns, [[_brief(row[name]) for name in columns] for row in rows])


def _brief(text: str) -> str:
    return f"{float(text):.3f}" if "." in text else text


def fused(out: Path) -> list[str]:
    """Return the sections of the tables by this package's optimizer."""
    sections = []
    for path in sorted((out / TABLES).glob("*_*/*.csv")):
        part, _, precision = path.stem.split("_")
        columns = ["system", "ratio", "ms", *(["loss"] if part == "training" else [])]
        rows = []
        for row in read_csv(path):
            median, lowest, highest = (float(row[f"ratio_{x}"]) for x in ("median", "lowest", "highest"))
            ratio = f"{median:.2f} ({lowest:.2f} to {highest:.2f})"
            loss = [f"{float(row['loss']):.2f}"] if part == "training" else []
            rows.append([row["system"], ratio, f"{float(row['time_ms']):.1f}", *loss])
        sections.append(table(f"{path.parent.name}, {part}, {precision}: times fairseq's speed", columns, rows))
    return sections


def read(out: Path, part: str, device: str, precision: str) -> Rows:
    """Return the rows of a table of the benchmarks; none where it has not been measured."""
    return read_csv(out / TABLES / f"{part}_{device}_{precision}.csv")


def read_csv(path: Path) -> Rows:
    """Return the rows of a CSV file; none without one."""
    return [dict(line.values) for line in read_lines(path)] if path.is_file() else []


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a section with a table in Markdown; empty without rows."""
    cells = [list(map(str, row)) for row in rows]
    return f"## {title}\n\n{markdown(columns, cells)}" if cells else ""


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
        by_length = part not in ("generation", "optimizer")
        lengths = list(dict.fromkeys(row["tokens"] for row in rows)) if by_length else ["speed"]
        found = {(row["system"], row["tokens"] if by_length else "speed"): row["ratio_median"] for row in rows}
        systems = dict.fromkeys(row["system"] for row in rows)
        cells = [[name, *(_shown(found.get((name, length), "")) for length in lengths)] for name in systems]
        sections.append(table(f"{part}, {precision}: times fairseq's speed", ("system", *lengths), cells))
    return "\n\n".join(section for section in sections if section)


def _shown(number: str) -> str:
    return f"{float(number):.2f}" if number else "–"


def trainings(out: Path) -> str:
    """Return the sections about the trainings."""
    tables = {each.table[1]: out / "results" / Path(*each.table) for each in TRAININGS.values()}
    return "\n\n".join(
        table(f"Trainings, {name}", TRAINED, [[row[column] for column in TRAINED] for row in rows])
        for name, path in tables.items()
        if (rows := read_csv(path.with_suffix(".csv")))
    )


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
    save_figure(figure, path, dpi=120)
    return [path]
