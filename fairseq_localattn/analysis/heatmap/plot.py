"""Output of the heat maps of one sentence pair: a plot, a short table and a CSV file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from ..command import new_figure, save_csv, wrapped

COLUMNS = (
    "checkpoint", "site", "layer", "sublayer", "head", "what", "query", "key", "query_token", "key_token", "value",
)  # fmt: skip
CELL_INCHES = 0.24  # side of a cell
MAX_INCHES = 16.0  # side of a panel; the cells of longer sentences are smaller
BOTH_ENDS = "values above 1 are drawn as 1;\na mask reaches 2 where both ends of a window meet"


@dataclass(frozen=True)
class Panel:
    """A map of attention weights or of a soft mask.

    Args:
        checkpoint: its name. site: one of SITES.
        layer, sublayer, kind: see :class:`~..attention_weights.Sublayer`, whose ``name`` is ``sublayer``.
        head: a number from 1, or ``mean``.
        what: ``mask`` or ``attention``.
        queries: labels of the T rows. keys: labels of the S columns.
        values: T×S.
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
        """Title such as ``soft mask (AW)``, with the module's name unless it is one of fairseq's layers or the kind."""
        name = "" if self.sublayer in ("self_attn", "encoder_attn", self.kind) else f" {self.sublayer}"
        return f"{'soft mask' if self.what == 'mask' else 'attention'} ({self.kind.upper()}{name})"


def table(panels: Sequence[Panel]) -> str:
    """Return a text table: for each query (row) and panel (column) the key with the highest value, and the value."""
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
    """Yield the rows of the CSV file."""
    for panel in panels:
        place = [panel.checkpoint, panel.site, panel.layer, panel.sublayer, panel.head, panel.what]
        for q, (query, row) in enumerate(zip(panel.queries, panel.values.tolist(), strict=True), start=1):
            for k, (key, value) in enumerate(zip(panel.keys, row, strict=True), start=1):
                yield [*place, q, k, query, key, f"{value:z.6f}"]


def write_csv(panels: Sequence[Panel], path: Path) -> None:
    """Write a row for each value, not clipped, with positions from 1, in place of an existing file."""
    save_csv(path, COLUMNS, _csv_rows(panels))


def _label(panels: Sequence[Panel], beyond: bool) -> str:
    """Return the label of the colour bar; ``beyond``: some values are above 1."""
    if not any(panel.what == "mask" for panel in panels):
        return "attention weight"
    return "soft mask, attention weight" + (f"\n({BOTH_ENDS})" if beyond else "")


def draw(panels: Sequence[Panel], title: str) -> Any:
    """Return a matplotlib ``Figure`` of the panels side by side, on one scale from 0 to 1 (darker = higher)."""
    queries, keys = panels[0].queries, panels[0].keys
    side = min(CELL_INCHES, MAX_INCHES / max(len(queries), len(keys)))
    font = {"fontsize": min(9.0, 72 * side * 0.6), "parse_math": False}  # a token may be $
    figure = new_figure()
    width = max(2.8, side * len(keys) + 0.4)
    figure.set_size_inches(width * len(panels) + 2.0, max(4.4, side * len(queries) + 2.8))
    figure.suptitle(title, fontsize="medium", parse_math=False)
    grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, panel in zip(grid, panels, strict=True):
        image = axes.imshow(panel.values.numpy(), cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(
            f"{wrapped(panel.checkpoint, int(11 * width))}\n{panel.title}", fontsize="small", parse_math=False
        )
        axes.set_xticks(range(len(keys)), keys, rotation=90, **font)
        axes.set_xlabel("key", fontsize="small")
        axes.tick_params(length=0)
    grid[0].set_yticks(range(len(queries)), queries, **font)
    grid[0].set_ylabel("query", fontsize="small")
    beyond = any(bool((panel.values > 1).any()) for panel in panels)
    bar = figure.colorbar(image, ax=list(grid), extend="max" if beyond else "neither", fraction=0.05, pad=0.02)
    bar.set_label(_label(panels, beyond), fontsize="small")
    return figure
