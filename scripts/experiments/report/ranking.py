"""The ranking: every mechanism at small scale, on the same data, with the same sizes and updates, by its score."""

from __future__ import annotations

import statistics
from pathlib import Path

from experiments.measure.csv_files import Line
from experiments.recipes.tables import find_table
from experiments.report.papers import current_lines, rows_of
from experiments.report.text import NOT_MEASURED, groups, markdown, mean_and_sd, mean_change, millions, p_value

PAPER, TABLE, SCALE = "comparisons", "mechanisms", "small"
HEADER = ("rank", "mechanism", "BLEU", "gain", "p by seed", "parameters")


def ranking_table(root: Path) -> str:
    """Return the rows of configs/comparisons/mechanisms.yaml by their mean score, the best first.

    Rows that have not been measured stand at the end. The gain is the mean difference to the baseline by seed.
    """
    table = find_table(PAPER, TABLE, root / "configs")
    found = groups((line for line in current_lines(root, table) if line["scale"] == SCALE), "row", "metric")
    rows = [row for row in rows_of(table) if SCALE in row.recipes]
    measured = {row.name: found.get((row.name, row.metric(SCALE)), []) for row in rows}
    scored = [row for row in rows if measured[row.name]]
    ranked = sorted(scored, key=lambda row: -statistics.mean(line.number("score") for line in measured[row.name]))
    cells = [[str(rank), row.label, *_cells(measured[row.name])] for rank, row in enumerate(ranked, 1)]
    cells += [["", row.label, NOT_MEASURED, "", "", ""] for row in rows if not measured[row.name]]
    return markdown(HEADER, cells)


def _cells(lines: list[Line]) -> list[str]:
    scores = [line.number("score") for line in lines]
    return [
        f"{mean_and_sd(scores)} (n = {len(scores)})",
        mean_change([line.number("difference") for line in lines if line["difference"]]),
        ", ".join(filter(None, map(p_value, lines))),
        millions(lines[0].number("parameters")),
    ]
