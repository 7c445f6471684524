"""Groups of lines, numbers as text, and Markdown, for the tables of the pages."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Sequence

from experiments.measure.csv_files import Line

NOTHING = "—"  # there is no such number
NOT_MEASURED = "not measured"
NOT_TRAINED = "not trained"


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


def scores_of_seeds(scores: Sequence[Sequence[float]]) -> tuple[str, list[str]]:
    """Return '2 seeds' and cells '38.04 (±0.27)'; 'seeds' and '38.04 (±0.27, 2)' where their numbers differ."""
    counts = sorted({len(values) for values in scores if values})
    same = len(counts) == 1
    cells = []
    for values in scores:
        spread = [f"±{statistics.stdev(values):.2f}"] if len(values) > 1 else []
        more = ", ".join([*spread, *([] if same else [str(len(values))])])
        cells.append("" if not values else f"{statistics.mean(values):.2f}" + (f" ({more})" if more else ""))
    return (f"{counts[0]} seed{'s' if counts[0] > 1 else ''}" if same else "seeds"), cells


def greatest_p(lines: Iterable[Line]) -> str:
    """Return the greatest p of the lines that have one; an empty text for none."""
    tested = [line for line in lines if line["p_value"]]
    return p_value(max(tested, key=lambda line: line.number("p_value"), default=None))


def mean_change(values: Sequence[float]) -> str:
    """Return the mean with its sign, '+1.22', and all values where their signs differ; an empty text for no values."""
    if not values:
        return ""
    by_seed = f" ({', '.join(f'{value:+.2f}' for value in values)})" if min(values) < 0 < max(values) else ""
    return f"{statistics.mean(values):+.2f}{by_seed}"


def p_value(line: Line | None) -> str:
    """Return the column p_value as '0.012', or '<0.001' for less; an empty text where it is empty."""
    if line is None or not line["p_value"]:
        return ""
    value = line.number("p_value")
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
