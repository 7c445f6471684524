"""The ranking: every mechanism at one scale, on the same data, with the same sizes and updates, by its score."""

from __future__ import annotations

from pathlib import Path

from experiments.recipes.tables import find_table
from experiments.report.papers import newest_entries
from experiments.report.text import markdown, mean_gain, mean_score, scores_of_seeds

PAPER, TABLE = "comparisons", "mechanisms"


def ranking_table(root: Path, scale: str = "small") -> str:
    """Return the rows of configs/comparisons/mechanisms.yaml that were trained at a scale, the best first."""
    table = find_table(PAPER, TABLE, root / "configs")
    measured = {entry.label: lines for entry in newest_entries(root, table) if (lines := entry.at(scale))}
    ranked = sorted(measured, key=lambda label: -mean_score(measured[label]))
    seeds, cells = scores_of_seeds([measured[label] for label in ranked])
    rows = [[label, score, mean_gain(measured[label])] for label, score in zip(ranked, cells, strict=True)]
    return markdown(("mechanism", f"BLEU ({seeds})", "gain"), rows)
