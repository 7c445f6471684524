"""Attention weights by layer and kind of head, in one picture (Figure 3 of Cui et al., WNGT 2019).

    python -m fairseq_localattn.analysis.head_kinds DATA --path MMA.pt --sentence N
        [--gen-subset test] [--stack encoder|decoder] [--plot FILE] [--csv FILE]

A panel is the self-attention of a layer (row) for one sentence, the mean over the heads of a kind (column). Rows of a
panel are queries, columns are keys.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from ..errors import UsageError
from .attention_weights import STACKS, self_attentions
from .command import check_files, checkpoint_names, checkpoint_parser, new_figure, save_figure, show_progress_alone
from .evaluation import Trained, load_trained
from .head_names import head_names, phrase_names
from .heatmap.maps import run_model
from .heatmap.pairs import Pair, read_pair, tokens_of
from .heatmap.plot import Panel, table, write_csv

PANEL_INCHES = 2.6


def kinds_of_heads(attention: nn.Module, phrases: Sequence[str] = ()) -> list[str]:
    """Return the names of an attention's heads, without the window of ``local`` where all have the same."""
    names = head_names(attention, phrases)
    windows = {found for name in names for found in re.findall(r"local\(window=\d+\)", name)}
    if len(windows) != 1:
        return names
    (window,) = windows
    return [name.replace(window, "local") for name in names]


def panels_of(trained: Trained, pair: Pair, stack: str, name: str) -> list[Panel]:
    """Return a panel for each self-attention of a stack and kind of head, layers in order; ``head`` is the kind.

    Raises UsageError for a stack without self-attention.
    """
    attentions = self_attentions(trained.model, [stack])
    if not attentions:
        raise UsageError(f"--stack {stack}: {name} has no self-attention there")
    weights, _ = run_model(trained, pair, attentions)
    queries, keys = tokens_of(trained, pair, stack)
    phrases = phrase_names(trained.model) if stack == "encoder" else []
    found = []
    for at, attention in weights.items():
        kinds = kinds_of_heads(attentions[at], phrases)
        for kind in dict.fromkeys(kinds):
            heads = [number for number, each in enumerate(kinds) if each == kind]
            found.append(
                Panel(
                    checkpoint=name,
                    site=stack,
                    layer=at.layer,
                    sublayer=at.name,
                    kind=at.kind,
                    head=kind,
                    what="attention",
                    queries=queries,
                    keys=keys,
                    values=attention[heads].mean(dim=0),
                )
            )
    return found


def draw(panels: Sequence[Panel], title: str) -> Any:
    """Return a matplotlib ``Figure``: layers by kinds of head, on one scale from 0 (darker blue = larger weight)."""
    kinds = list(dict.fromkeys(panel.head for panel in panels))
    rows = list(dict.fromkeys((panel.layer, panel.sublayer) for panel in panels))
    queries, keys = panels[0].queries, panels[0].keys
    figure = new_figure(figsize=(PANEL_INCHES * len(kinds) + 1.6, PANEL_INCHES * len(rows) + 1.4))
    figure.suptitle(title, fontsize="medium", parse_math=False)
    grid = figure.subplots(len(rows), len(kinds), sharex=True, sharey=True, squeeze=False)
    font = {"fontsize": max(3.0, min(8.0, 72 * PANEL_INCHES * 0.7 / max(len(queries), len(keys)))), "parse_math": False}
    most = max(float(panel.values.max()) for panel in panels)
    drawn = {(panel.layer, panel.sublayer, panel.head): panel for panel in panels}
    names = {name for _, name in rows}
    for axes_of_row, (layer, name) in zip(grid, rows, strict=True):
        axes_of_row[0].set_ylabel(f"layer {layer}{f', {name}' if len(names) > 1 else ''}", fontsize="small")
        for axes, kind in zip(axes_of_row, kinds, strict=True):
            axes.tick_params(length=0)
            panel = drawn.get((layer, name, kind))
            if panel is None:  # this layer has no head of that kind
                axes.set(frame_on=False, aspect="equal")
                continue
            image = axes.imshow(panel.values.numpy(), cmap="Blues", vmin=0, vmax=most, interpolation="nearest")
    for axes, kind in zip(grid[0], kinds, strict=True):
        axes.set_title(kind, fontsize="small")
    for axes in grid[-1]:
        axes.set_xticks(range(len(keys)), keys, rotation=90, **font)
    for axes in grid[:, 0]:
        axes.set_yticks(range(len(queries)), queries, **font)
    figure.colorbar(image, ax=list(grid.flat), fraction=0.03, pad=0.02).set_label("attention weight", fontsize="small")
    return figure


def make_parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    parser = checkpoint_parser(
        "head_kinds",
        "Draw the self-attention of a trained model for one sentence by layer and kind of head (Figure 3 of Cui et al. "
        "2019), and print the strongest key of each query.",
    )
    parser.add_argument("--sentence", type=int, required=True, metavar="N", help="from 0: fairseq-generate's H-N")
    parser.add_argument("--gen-subset", default="test", metavar="SPLIT", help="split of the sentence (default: test)")
    parser.add_argument("--stack", choices=STACKS, default="encoder", help="default: encoder, as in the paper")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the weights (.png, .pdf, .svg)")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write all weights as CSV")
    parser.set_defaults(source=None, target=None)  # which read_pair reads
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table; on request draw the weights and write a CSV file."""
    args = make_parser().parse_args(argv)
    show_progress_alone()
    if len(args.path) > 1:
        raise UsageError("--path: one checkpoint makes a picture; give it once")
    (name,) = checkpoint_names(args.path, args.name)
    check_files(args.path, {"--csv": args.csv, "--plot": args.plot}, args.plot)
    trained = load_trained(args.path[0], args.data, args.cpu)
    panels = panels_of(trained, read_pair(trained, args), args.stack, name)
    print(f"{args.gen_subset}, sentence {args.sentence}: the strongest key of each query, the first of equals")
    for layer in dict.fromkeys(panel.layer for panel in panels):
        of_layer = [replace(panel, checkpoint=f"{panel.head} heads") for panel in panels if panel.layer == layer]
        print(f"{args.stack} layer {layer}\n{table(of_layer)}")
    if args.csv is not None:
        write_csv(panels, args.csv)
    if args.plot is not None:
        title = f"{name}: self-attention of the {args.stack}, {args.gen_subset}, sentence {args.sentence}"
        save_figure(draw(panels, title), args.plot)


if __name__ == "__main__":
    main()
