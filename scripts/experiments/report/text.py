"""Groups of lines, numbers as text, and Markdown, for the tables of the pages."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from experiments.measure.csv_files import Line
from experiments.recipes.nodes import natural

NOTHING = "—"  # there is no such number
SIGNIFICANT = 0.05


def groups(lines: Iterable[Line], *columns: str) -> dict[tuple[str, ...], list[Line]]:
    """Return the lines by the values of some columns, in the order of their first line; within each by seed."""
    found: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        found.setdefault(tuple(line[name] for name in columns), []).append(line)
    return {key: sorted(group, key=lambda line: natural(line["seed"])) for key, group in found.items()}


# --- numbers as text


def scores_of_seeds(rows: Sequence[Sequence[Line]]) -> tuple[str, list[str]]:
    """Return '2 seeds' and cells '38.04 (±0.27)'; 'seeds' and '38.04 (±0.27, 2)' where their numbers differ."""
    counts = sorted({len(lines) for lines in rows if lines})
    if len(counts) == 1:
        return f"{counts[0]} seed{'s' if counts[0] > 1 else ''}", list(map(score_of_seeds, rows))
    return "seeds", [score_of_seeds(lines, str(len(lines))) for lines in rows]


def score_of_seeds(lines: Sequence[Line], *more: str) -> str:
    """Return mean and standard deviation of a sample, '38.04 (±0.27)', with more in the brackets; '' for none."""
    if not lines:
        return ""
    spread = [f"±{statistics.stdev(line.number('score') for line in lines):.2f}"] if len(lines) > 1 else []
    inside = ", ".join([*spread, *more])
    return f"{mean_score(lines):.2f}" + (f" ({inside})" if inside else "")


def mean_score(lines: Sequence[Line]) -> float:
    """Return the mean score of the seeds."""
    return statistics.mean(line.number("score") for line in lines)


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
