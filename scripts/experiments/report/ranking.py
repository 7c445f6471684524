"""The ranking: every mechanism at one scale, on the same data, with the same sizes and updates, by its score."""

from __future__ import annotations

import statistics
from pathlib import Path

from experiments.recipes.tables import find_table
from experiments.report.papers import current_lines, rows_of
from experiments.report.text import groups, markdown, mean_gain, scores_of_seeds

PAPER, TABLE = "comparisons", "mechanisms"


def ranking_table(root: Path, scale: str = "small") -> str:
    """Return the rows of configs/comparisons/mechanisms.yaml that were trained at a scale, the best first."""
    table = find_table(PAPER, TABLE, root / "configs")
    found = groups((line for line in current_lines(root, table) if line["scale"] == scale), "row", "metric")
    measured = {row.label: found.get((row.name, row.metric(scale)), []) for row in rows_of(table)}
    scores = {label: [line.number("score") for line in lines] for label, lines in measured.items() if lines}
    ranked = sorted(scores, key=lambda label: -statistics.mean(scores[label]))
    seeds, cells = scores_of_seeds([scores[label] for label in ranked])
    rows = [[label, score, mean_gain(measured[label])] for label, score in zip(ranked, cells, strict=True)]
    return markdown(("mechanism", f"BLEU ({seeds})", "gain"), rows)
