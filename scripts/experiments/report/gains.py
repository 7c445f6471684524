"""Pictures of gains: each row of a paper beside what the paper reports, and all mechanisms on each of the data sets.

A picture says in its metadata which numbers it shows, so that it is drawn again where these have changed.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.stats import t as student

from experiments.measure.metrics import FALLING, FAMILIES
from experiments.recipes.catalogue import FOLDER
from experiments.recipes.tables import load_table, tables_of
from experiments.report.papers import RANKING, SCALES, Row, entries_of, newest_entries, title
from experiments.report.text import is_settled


@dataclass(frozen=True)
class Data:
    """A part of a picture: the rows of ``tables`` on the same data, against the row called ``BASELINE``."""

    title: str
    scale: str
    tables: tuple[str, ...]


# Pictures of all mechanisms: the best row first, with intervals.
RANKINGS = {
    "ranking": (
        Data("IWSLT14 De-En (a third), twenty words a sentence, d = 256", "sample", ("comparisons/iwslt14",)),
        Data("Multi30k De-En, eleven words a sentence, d = 128", "small", (RANKING, "comparisons/hybrids")),
    )
}
BASELINE = "transformer"
# Pictures of one table, the best row first.
RANKED = {
    "hybrids_valid": "comparisons/hybrids_valid",
    "settings": "comparisons/settings",
}
SCALE = SCALES[0]
METADATA = "Description"
ROW_HEIGHT, MARGIN, WIDTH = 0.24, 1.4, 8.0  # inches
FURTHEST = 4.0  # a mean beyond it stands at the edge, with its number


@dataclass(frozen=True)
class Gain:
    """A row's mean gain over its baseline, the ends of its bar, whether it is clear, and the paper's gain."""

    label: str
    mean: float
    low: float
    high: float
    clear: bool
    paper: float | None = None


def picture(root: Path, name: str) -> Path:
    """Return the path of a picture: of a paper, of a table, or of all mechanisms."""
    return root / "results" / FOLDER / f"gains_{name}.png"


def tables_shown(root: Path, name: str) -> list[str]:
    """Return the tables that a picture is of, PAPER/TABLE."""
    if name in RANKINGS:
        return [table for data in RANKINGS[name] for table in data.tables]
    if name in RANKED:
        return [RANKED[name]]
    return [f"{name}/{table}" for table in tables_of(name, root / "configs")]


def panels_of(root: Path, name: str) -> dict[str, list[Gain]]:
    """Return the gains that a picture shows, by the title of the part in which it shows them. Raises ScoreError."""
    if name in RANKINGS:
        return {data.title: gains for data in RANKINGS[name] if (gains := ranking_of(root, data))}
    return {"": gains_of(root, name)}


def gains_of(root: Path, name: str) -> list[Gain]:
    """Return the gains in BLEU or accuracy at small scale, in the order of the tables, or of the gains where RANKED.

    The bar reaches from the lowest to the greatest seed; clear are gains of seeds that agree, each with p < .05. A
    training has one gain a baseline, that of the first table. Raises ScoreError.
    """
    found: dict[tuple[object, ...], Gain] = {}
    for key in tables_shown(root, name):
        table = key.partition("/")[2]
        if table.startswith("fig"):
            continue
        for entry in entries_of(root, load_table(root / "configs" / f"{key}.yaml")):
            metric = entry.row.metric(SCALE)
            lines = [line for line in entry.at(SCALE) if line["difference"]]
            if not lines or metric in (*FALLING, *FAMILIES):
                continue
            by_seed = tuple(line.number("difference") for line in lines)
            label = entry.label.removeprefix("+ ")
            shown = Gain(
                label if name in RANKED else f"{title(table)}: {label}",
                mean=statistics.mean(by_seed),
                low=min(by_seed),
                high=max(by_seed),
                clear=is_settled(lines),
                paper=entry.row.gain,
            )
            found.setdefault((lines[0]["architecture"], lines[0]["settings"], by_seed), shown)
    gains = list(found.values())
    return sorted(gains, key=lambda gain: -gain.mean) if name in RANKED else gains


def ranking_of(root: Path, data: Data) -> list[Gain]:
    """Return the mean gains over the baseline with 95 % intervals, the best first; clear are those without 0.

    The interval is Student's for a difference of two means: seeds scatter alike in all rows, by the standard deviation
    within rows. It says what other seeds might give, not other sentences. A training is taken from the table with most
    of its seeds. Without a score of the baseline there are none. Raises ScoreError.
    """
    rows: dict[tuple[str, str], tuple[Row, list[float]]] = {}
    for table in data.tables:
        for entry in newest_entries(root, load_table(root / "configs" / f"{table}.yaml")):
            if lines := entry.at(data.scale):
                key, scores = (lines[0]["architecture"], lines[0]["settings"]), [line.number("score") for line in lines]
                if key not in rows or len(scores) > len(rows[key][1]):
                    rows[key] = entry.row, scores
    baseline = next((scores for row, scores in rows.values() if row.name == BASELINE), None)
    if baseline is None:
        return []
    freedom = sum(len(scores) - 1 for _, scores in rows.values())
    squares = sum((score - statistics.mean(scores)) ** 2 for _, scores in rows.values() for score in scores)
    spread = float(student.ppf(0.975, freedom)) * math.sqrt(squares / freedom)
    found = []
    for row, scores in rows.values():
        if row.name != BASELINE:
            mean = statistics.mean(scores) - statistics.mean(baseline)
            reach = spread * math.sqrt(1 / len(scores) + 1 / len(baseline))
            label = row.at("").label
            found.append(Gain(label, mean, low=mean - reach, high=mean + reach, clear=abs(mean) > reach))
    return sorted(found, key=lambda gain: -gain.mean)


def digest(panels: Mapping[str, Sequence[Gain]]) -> str:
    """Return what a picture says of its numbers."""
    return hashlib.sha256(repr(panels).encode()).hexdigest()[:16]


def is_drawn(root: Path, name: str) -> bool:
    """Return whether the picture is there and shows the present numbers."""
    path = picture(root, name)
    return path.is_file() and digest(panels_of(root, name)).encode() in path.read_bytes()[:4096]


def draw(root: Path, name: str) -> None:
    """Draw the picture. Raises ScoreError, and UsageError where matplotlib is missing."""
    from fairseq_localattn.analysis.command import new_figure, save_figure  # here, as the import takes seconds

    panels = panels_of(root, name)
    rows = [len(gains) for gains in panels.values()]
    figure = new_figure(figsize=(WIDTH, MARGIN + ROW_HEIGHT * (sum(rows) + 2 * len(rows) - 2)))
    grid = figure.subplots(len(rows), sharex=True, squeeze=False, height_ratios=rows)[:, 0]
    for axes, (heading, gains) in zip(grid, panels.items(), strict=True):
        for y, gain in enumerate(gains):
            _draw_row(axes, y, gain)
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set_yticks(range(len(gains)), [gain.label for gain in gains], fontsize="small")
        axes.set_ylim(len(gains) - 0.4, -0.6)
        axes.set_title(heading, fontsize="medium")
        axes.grid(axis="x", alpha=0.3)
    left, right = axes.get_xlim()
    axes.set_xlim(max(left, -FURTHEST), min(right, FURTHEST))
    if name in RANKINGS:
        axes.set_xlabel("Gain over the Transformer, points of BLEU")
        bar, clear = "95 % interval over seeds", "mean; interval without 0"
    else:
        axes.set_xlabel("Gain over the row's baseline, points of BLEU or accuracy")
        bar, clear = "lowest to greatest seed", "mean; all seeds agree, p < .05"
    for marker, face, said in (("o", "C0", clear), ("o", "white", "mean, other"), ("x", "C3", "the paper's gain")):
        if marker == "o" or any(gain.paper is not None for gains in panels.values() for gain in gains):
            axes.scatter([], [], marker=marker, c=[face], edgecolors=None if marker == "x" else "C0", label=said)
    axes.plot([], [], color="C0", label=bar)
    figure.legend(loc="outside upper center", ncols=4, fontsize="small", frameon=False)
    save_figure(figure, picture(root, name), metadata={METADATA: digest(panels)})


def _draw_row(axes: Any, y: int, gain: Gain) -> None:
    """Draw the bar, the mean, and the paper's gain."""
    if abs(gain.mean) > FURTHEST:
        side = "right" if gain.mean > 0 else "left"
        said = f"{'→' if gain.mean > 0 else '←'} {gain.mean:+.2f}, beyond the axis"
        axes.text(FURTHEST if gain.mean > 0 else -FURTHEST, y, f" {said} ", ha=side, va="center", fontsize="small")
    axes.plot([gain.low, gain.high], [y, y], color="C0", linewidth=2, alpha=0.5)
    axes.scatter([gain.mean], [y], s=28, c=["C0" if gain.clear else "white"], edgecolors="C0", zorder=3)
    if gain.paper is not None:
        axes.scatter([gain.paper], [y], s=28, c=["C3"], marker="x", zorder=2)
