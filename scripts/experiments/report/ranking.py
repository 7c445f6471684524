"""The ranking: every mechanism at one scale, on the same data, with the same sizes and updates, by its score."""

from __future__ import annotations

import statistics
from pathlib import Path

from experiments.measure.csv_files import Line
from experiments.recipes.tables import find_table
from experiments.report.papers import current_lines, rows_of
from experiments.report.text import NOT_TRAINED, greatest_p, groups, markdown, mean_change, millions, scores_of_seeds

PAPER, TABLE = "comparisons", "mechanisms"


def ranking_table(root: Path, scale: str = "small") -> str:
    """Return the rows of configs/comparisons/mechanisms.yaml by their mean score, the best first.

    At small scale rows that have not been trained stand at the end. The gain is the mean difference by seed.
    """
    table = find_table(PAPER, TABLE, root / "configs")
    found = groups((line for line in current_lines(root, table) if line["scale"] == scale), "row", "metric")
    rows = [row for row in rows_of(table) if scale in row.recipes]
    measured = {row.name: found.get((row.name, row.metric(scale)), []) for row in rows}
    scored = [row for row in rows if measured[row.name]]
    ranked = sorted(scored, key=lambda row: -statistics.mean(line.number("score") for line in measured[row.name]))
    seeds, scores = scores_of_seeds([[line.number("score") for line in measured[row.name]] for row in ranked])
    cells = [[row.label, score, *_cells(measured[row.name])] for row, score in zip(ranked, scores, strict=True)]
    absent = [row for row in rows if not measured[row.name]] if scale == "small" else []
    cells += [[row.label, NOT_TRAINED, "", "", ""] for row in absent]
    return markdown(("mechanism", f"BLEU ({seeds})", "gain", "p ≤", "parameters"), cells)


def _cells(lines: list[Line]) -> list[str]:
    gain = mean_change([line.number("difference") for line in lines if line["difference"]])
    return [gain, greatest_p(lines), millions(lines[0].number("parameters"))]
