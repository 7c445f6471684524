"""Groups of lines, numbers as text, and Markdown, for the tables of the pages."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Sequence

from experiments.measure.csv_files import Line

NOTHING = "—"  # there is no such number
SIGNIFICANT = 0.05


def groups(lines: Iterable[Line], *columns: str) -> dict[tuple[str, ...], list[Line]]:
    """Return the lines by the values of some columns, in the order of their first line; within each by seed."""
    found: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        found.setdefault(tuple(line[name] for name in columns), []).append(line)
    return {key: sorted(group, key=lambda line: natural(line["seed"])) for key, group in found.items()}


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts names as one reads them: window_3 before window_11."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part]


# --- numbers as text


def scores_of_seeds(scores: Sequence[Sequence[float]]) -> tuple[str, list[str]]:
    """Return '2 seeds' and cells '38.04 (±0.27)'; 'seeds' and '38.04 (±0.27, 2)' where their numbers differ."""
    counts = sorted({len(values) for values in scores if values})
    if len(counts) == 1:
        return f"{counts[0]} seed{'s' if counts[0] > 1 else ''}", [score_of_seeds(values) for values in scores]
    return "seeds", [score_of_seeds(values, str(len(values))) for values in scores]


def score_of_seeds(values: Sequence[float], *more: str) -> str:
    """Return mean and standard deviation of a sample, '38.04 (±0.27)', with more in the brackets; '' for none."""
    inside = ", ".join([*([f"±{statistics.stdev(values):.2f}"] if len(values) > 1 else []), *more])
    return (f"{statistics.mean(values):.2f}" + (f" ({inside})" if inside else "")) if values else ""


def is_settled(lines: Sequence[Line]) -> bool:
    """Return whether the seeds' differences have one sign, each with p < SIGNIFICANT."""
    differences = [line.number("difference") for line in lines]
    significant = all(line["p_value"] and line.number("p_value") < SIGNIFICANT for line in lines)
    return not min(differences) < 0 < max(differences) and significant


def mean_gain(lines: Iterable[Line]) -> str:
    """Return the mean difference of the lines that have one, '+1.22', bold where it is settled; '' for none."""
    lines = [line for line in lines if line["difference"]]
    if not lines:
        return ""
    mean = f"{statistics.mean(line.number('difference') for line in lines):+.2f}"
    return f"**{mean}**" if is_settled(lines) else mean


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
