"""Pictures of gains: each row of a paper beside what the paper reports, and all mechanisms by their gain.

A picture says in its metadata which numbers it shows, so that it is drawn again where these have changed.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.measure.metrics import FALLING, FAMILIES
from experiments.recipes.catalogue import FOLDER
from experiments.recipes.tables import load_table, tables_of
from experiments.report.papers import RANKING, SCALES, entries_of, title
from experiments.report.text import is_settled

# Pictures of one table, the best row first.
RANKED = {
    "ranking": RANKING,
    "hybrids_valid": "comparisons/hybrids_valid",
    "settings": "comparisons/settings",
}
SCALE = SCALES[0]
METADATA = "Description"
ROW_HEIGHT, MARGIN, WIDTH = 0.24, 1.4, 8.0  # inches
FURTHEST = 4.0  # a mean beyond it stands at the edge, with its number


@dataclass(frozen=True)
class Gain:
    """A row's differences to its baseline by seed, whether they agree and each has p < .05, and the paper's gain."""

    label: str
    by_seed: tuple[float, ...]
    clear: bool
    paper: float | None

    @property
    def mean(self) -> float:
        return statistics.mean(self.by_seed)


def picture(root: Path, name: str) -> Path:
    """Return the path of a picture: of a paper, or of the ranking."""
    return root / "results" / FOLDER / f"gains_{name}.png"


def tables_shown(root: Path, name: str) -> list[str]:
    """Return the tables that a picture is of, PAPER/TABLE."""
    if name in RANKED:
        return [RANKED[name]]
    return [f"{name}/{table}" for table in tables_of(name, root / "configs")]


def gains_of(root: Path, name: str) -> list[Gain]:
    """Return the gains in BLEU or accuracy at small scale, in the order of the tables, or of the gains where RANKED.

    A training has one gain a baseline, that of the first table. Raises ScoreError.
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
            differences = tuple(line.number("difference") for line in lines)
            label = entry.label.removeprefix("+ ")
            shown = Gain(
                label if name in RANKED else f"{title(table)}: {label}",
                by_seed=differences,
                clear=is_settled(lines),
                paper=entry.row.gain,
            )
            found.setdefault((lines[0]["architecture"], lines[0]["settings"], differences), shown)
    gains = list(found.values())
    return sorted(gains, key=lambda gain: -gain.mean) if name in RANKED else gains


def digest(gains: Sequence[Gain]) -> str:
    """Return what a picture says of its numbers."""
    return hashlib.sha256(repr(gains).encode()).hexdigest()[:16]


def is_drawn(root: Path, name: str) -> bool:
    """Return whether the picture is there and shows the present numbers."""
    path = picture(root, name)
    return path.is_file() and digest(gains_of(root, name)).encode() in path.read_bytes()[:4096]


def draw(root: Path, name: str) -> None:
    """Draw the picture. Raises ScoreError, and UsageError where matplotlib is missing."""
    from fairseq_localattn.analysis.command import new_figure, save_figure  # here, as the import takes seconds

    gains = gains_of(root, name)
    figure = new_figure(figsize=(WIDTH, MARGIN + ROW_HEIGHT * len(gains)))
    axes = figure.subplots()
    for y, gain in enumerate(gains):
        _draw_row(axes, y, gain)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(gains)), [gain.label for gain in gains], fontsize="small")
    axes.set_ylim(len(gains) - 0.4, -0.6)
    axes.set_xlim(max(axes.get_xlim()[0], -FURTHEST), min(axes.get_xlim()[1], FURTHEST))
    axes.set_xlabel("Gain over the row's baseline, points of BLEU or accuracy")
    axes.grid(axis="x", alpha=0.3)
    for marker, face, said in (("o", "C0", "mean; all seeds agree, p < .05"), ("o", "white", "mean, other"),
                               ("x", "C3", "the paper's gain")):  # fmt: skip
        if marker == "o" or any(gain.paper is not None for gain in gains):
            axes.scatter([], [], marker=marker, c=[face], edgecolors=None if marker == "x" else "C0", label=said)
    axes.plot([], [], color="C0", label="lowest to greatest seed")
    figure.legend(loc="outside upper center", ncols=4, fontsize="small", frameon=False)
    save_figure(figure, picture(root, name), metadata={METADATA: digest(gains)})


def _draw_row(axes: Any, y: int, gain: Gain) -> None:
    """Draw the seeds' range, their mean, and the paper's gain."""
    if abs(gain.mean) > FURTHEST:
        side = "right" if gain.mean > 0 else "left"
        said = f"{'→' if gain.mean > 0 else '←'} {gain.mean:+.2f}, beyond the axis"
        axes.text(FURTHEST if gain.mean > 0 else -FURTHEST, y, f" {said} ", ha=side, va="center", fontsize="small")
    axes.plot([min(gain.by_seed), max(gain.by_seed)], [y, y], color="C0", linewidth=2, alpha=0.5)
    axes.scatter([gain.mean], [y], s=28, c=["C0" if gain.clear else "white"], edgecolors="C0", zorder=3)
    if gain.paper is not None:
        axes.scatter([gain.paper], [y], s=28, c=["C3"], marker="x", zorder=2)
