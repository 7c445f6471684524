"""Soft masks and attention weights of one sentence pair as a heat map, as a short table and as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

from torch import Tensor

from .command import matplotlib

COLUMNS = (
    "checkpoint", "site", "layer", "sublayer", "head", "what", "query", "key", "query_token", "key_token", "value",
)  # fmt: skip
INCHES = 0.24  # the side of a cell
LARGEST = 16.0  # inches of a panel's side; the cells of longer sentences are smaller
BOTH_ENDS = "values above 1 are drawn as 1;\na mask reaches 2 where both ends of a window meet"


@dataclass(frozen=True)
class Panel:
    """One map: ``values`` T×S of ``what`` (mask or attention), for ``queries`` (rows) and ``keys`` (columns).

    ``sublayer``, ``kind``: as in :class:`~.attention_weights.Sublayer`; ``head``: from 1, or mean.
    """

    checkpoint: str
    site: str
    layer: int
    sublayer: str
    kind: str
    head: str
    what: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    values: Tensor

    @property
    def title(self) -> str:
        """``soft mask (AW)``; with the name of the module where fairseq's layers have none of that name."""
        name = "" if self.sublayer in ("self_attn", "encoder_attn", self.kind) else f" {self.sublayer}"
        return f"{'soft mask' if self.what == 'mask' else 'attention'} ({self.kind.upper()}{name})"


def table(panels: Sequence[Panel]) -> str:
    """For each query (row) and panel (column), the key with the highest value, and the value."""
    columns = [["query", *panels[0].queries]]
    for panel in panels:
        values, keys = panel.values.max(dim=1)
        best = zip(keys.tolist(), values.tolist(), strict=True)
        columns.append(
            [f"{panel.checkpoint}: {panel.title}", *(f"{panel.keys[key]} {value:z.2f}" for key, value in best)]
        )
    widths = [max(map(len, column)) for column in columns]
    rows = zip(*columns, strict=True)
    return "\n".join("  ".join(f"{c:{w}}" for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def _csv_rows(panels: Sequence[Panel]) -> Iterator[list[Any]]:
    for panel in panels:
        place = [panel.checkpoint, panel.site, panel.layer, panel.sublayer, panel.head, panel.what]
        for q, (query, row) in enumerate(zip(panel.queries, panel.values.tolist(), strict=True), start=1):
            for k, (key, value) in enumerate(zip(panel.keys, row, strict=True), start=1):
                yield [*place, q, k, query, key, f"{value:z.6f}"]


def write_csv(panels: Sequence[Panel], path: Path) -> None:
    """One row a value, not clipped, with the positions of query and key from 1; a file that is there is replaced."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(_csv_rows(panels))


def _label(panels: Sequence[Panel]) -> str:
    """Of the colour bar: what is drawn, and what the scale leaves out."""
    if not any(panel.what == "mask" for panel in panels):
        return "attention weight"
    return f"soft mask, attention weight\n({BOTH_ENDS})"


def draw(panels: Sequence[Panel], title: str) -> Any:
    """The panels side by side as a matplotlib ``Figure``: darker = higher, one scale from 0 to 1. It needs no display.

    Needs matplotlib; ``command.check_plot`` says so in one line where it is missing.
    """
    queries, keys = panels[0].queries, panels[0].keys
    side = min(INCHES, LARGEST / max(len(queries), len(keys)))
    font = {"fontsize": min(9.0, 72 * side * 0.6), "parse_math": False}  # a token may be $
    figure = matplotlib(".figure").Figure(layout="constrained")
    matplotlib(".backends.backend_agg").FigureCanvasAgg(figure)
    width = max(2.8, side * len(keys) + 0.4)
    figure.set_size_inches(width * len(panels) + 2.0, max(4.4, side * len(queries) + 2.8))
    figure.suptitle(title, fontsize="medium", parse_math=False)
    grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, panel in zip(grid, panels, strict=True):
        image = axes.imshow(panel.values.numpy(), cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(f"{fill(panel.checkpoint, int(11 * width))}\n{panel.title}", fontsize="small", parse_math=False)
        axes.set_xticks(range(len(keys)), keys, rotation=90, **font)
        axes.set_xlabel("key", fontsize="small")
        axes.tick_params(length=0)
    grid[0].set_yticks(range(len(queries)), queries, **font)
    grid[0].set_ylabel("query", fontsize="small")
    beyond = any(bool((panel.values > 1).any()) for panel in panels)
    bar = figure.colorbar(image, ax=list(grid), extend="max" if beyond else "neither", fraction=0.05, pad=0.02)
    bar.set_label(_label(panels), fontsize="small")
    return figure
