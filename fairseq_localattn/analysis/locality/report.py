"""Report of the locality measure: a table like Table 5 of Fan et al. (2021), a CSV file and a plot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ..command import matplotlib, new_figure, save_csv, wrapped
from .measure import Locality

# A colour for each kind of sublayer, with a shade for each layer, the darkest for the highest.
COLOURS = ("Blues", "Oranges", "Greens", "Purples", "Reds", "Greys")


@dataclass(frozen=True)
class Row:
    """A row of the CSV file. ``share`` is in percent; ``tokens`` includes the end of each sentence."""

    checkpoint: str
    architecture: str
    split: str
    stack: str
    layer: int
    sublayer: str
    kind: str
    window: int
    share: float
    sentences: int
    tokens: int


def rows_of(locality: Locality, checkpoint: str, architecture: str, split: str) -> list[Row]:
    """Return one row for each sublayer and window."""
    return [
        Row(
            checkpoint=checkpoint,
            architecture=architecture,
            split=split,
            stack=sublayer.stack,
            layer=sublayer.layer,
            sublayer=sublayer.name,
            kind=sublayer.kind,
            window=window,
            share=100 * share,
            sentences=locality.sentences,
            tokens=locality.tokens[sublayer.stack],
        )
        for sublayer, shares in locality.shares.items()
        for window, share in zip(locality.windows, shares, strict=True)
    ]


def distinct(values: Iterable[Any]) -> list[Any]:
    """Return each value once, in the order of first occurrence."""
    return list(dict.fromkeys(values))


def labels(rows: Sequence[Row]) -> dict[tuple[str, str], str]:
    """Return (kind, sublayer) → label: the kind in capitals, with the module's name where a kind has several."""
    pairs = distinct((row.kind, row.sublayer) for row in rows)
    kinds = [kind for kind, _ in pairs]
    return {(kind, name): kind.upper() + (f" {name}" if kinds.count(kind) > 1 else "") for kind, name in pairs}


def table(rows: Sequence[Row]) -> str:
    """Return the rows of one checkpoint as text: for each stack a table by window and sublayer, and layer (columns)."""
    first = rows[0]
    lines = [f"{first.checkpoint} ({first.architecture}), {first.split}: {first.sentences:,} sentences"]
    for stack in distinct(row.stack for row in rows):
        part = [row for row in rows if row.stack == stack]
        names = labels(part)
        layers = sorted({row.layer for row in part})
        share = {(row.window, row.kind, row.sublayer, row.layer): f"{row.share:.2f}" for row in part}
        width = max(map(len, names.values()))
        lines.append(f"{stack}, {part[0].tokens:,} tokens: % of attention within w")
        lines.append(f"{'':{width}}     w" + "".join(f"{f'#{layer}':>8}" for layer in layers))
        for window in sorted({row.window for row in part}):
            for pair, name in names.items():
                cells = [share.get((window, *pair, layer), "-") for layer in layers]
                lines.append(f"{name:{width}}{window:6}" + "".join(f"{cell:>8}" for cell in cells))
    return "\n".join([*lines, ""])


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Write all rows, with ``share`` to four decimals, in place of an existing file."""
    values = ({**asdict(row), "share": f"{row.share:.4f}"}.values() for row in rows)
    save_csv(path, [field.name for field in fields(Row)], values)


def draw(rows: Sequence[Row]) -> Any:
    """Return a matplotlib ``Figure`` of the share against w.

    It has a line for each sublayer and layer, and a panel for each checkpoint (columns) and stack (rows).
    """
    figure = new_figure()
    checkpoints, stacks = distinct(row.checkpoint for row in rows), distinct(row.stack for row in rows)
    figure.set_size_inches(4.8 * len(checkpoints), 4.4 * len(stacks))
    grid = figure.subplots(len(stacks), len(checkpoints), sharex=True, sharey=True, squeeze=False)
    grid[0, 0].set_ylim(0, 102)
    kinds = distinct((row.kind, row.sublayer) for row in rows)
    maps = {pair: matplotlib("").colormaps[COLOURS[n % len(COLOURS)]] for n, pair in enumerate(kinds)}
    depth = max(row.layer for row in rows)
    for panels, stack in zip(grid, stacks, strict=True):
        panels[0].set_ylabel(f"{stack}: attention within w, %")
        for axes, checkpoint in zip(panels, checkpoints, strict=True):
            part = [row for row in rows if (row.checkpoint, row.stack) == (checkpoint, stack)]
            names = labels(part)
            for layer, pair in distinct((row.layer, (row.kind, row.sublayer)) for row in part):
                line = [row for row in part if (row.layer, (row.kind, row.sublayer)) == (layer, pair)]
                style = {"color": maps[pair](0.35 + 0.6 * layer / depth), "label": f"{names[pair]} #{layer}"}
                axes.plot([row.window for row in line], [row.share for row in line], marker="o", markersize=3, **style)
            axes.grid(alpha=0.3)
            if part:  # a checkpoint may have no self-attention in one of the stacks
                axes.legend(fontsize="small")
    windows = sorted({row.window for row in rows})
    for axes, checkpoint in zip(grid[0], checkpoints, strict=True):
        first = next(row for row in rows if row.checkpoint == checkpoint)
        axes.set_title(f"{wrapped(checkpoint, 40)}\n{first.architecture}, {first.split}", fontsize="medium")
    for axes in grid[-1]:
        axes.set_xscale("symlog", base=2, linthresh=1)
        axes.set_xticks(windows, [str(window) for window in windows])
        axes.set_xlabel("w: distance from the query, in tokens")
    return figure
