"""Locality of attention: its share within w positions of the query (Eq. 13, Table 5 of Fan et al., NAACL 2021).

    python -m fairseq_localattn.analysis.locality DATA --path CHECKPOINT [--path CHECKPOINT2] [--gen-subset test]
        [--windows 1,2,4] [--layers 1,3,6] [--stack encoder|decoder|both] [--csv FILE] [--plot FILE]

``attn_s[w] = 1/|D| Σ_X 1/T Σ_j Σ_{|k-j| ≤ w} s[j,k]``, where s is a sublayer's attention averaged over heads, D the
split, and T the number of tokens of a sentence X: sub-words and the end-of-sentence symbol, which is the first token of
the decoder's input. All sentences have the same weight, whatever their length.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import UsageError
from ...models.placement import parse_layers
from ..attention_weights import STACKS, Sublayer, collect_weights, self_attentions
from ..command import check_files, checkpoint_names, checkpoint_parser, save_figure, show_progress_alone
from ..evaluation import Split, Trained, load_trained, padding_masks, read_split, to_device, with_progress
from .report import Row, draw, table, write_csv


def share_within(weights: Tensor, padding: Tensor | None, windows: Sequence[int]) -> Tensor:
    """Return the share of each sentence's attention within w positions of the query, B×W in fp64.

    The share is ``1/T Σ_j Σ_{|k-j| ≤ w} s[j,k]``; its mean over the sentences of a data set is Eq. 13. It is NaN for a
    sentence that is only padding.

    Args:
        weights: B×T×T, averaged over heads; the weight of key k (last dimension) for query j.
        padding: B×T, True = padding, on any side; None = no padding. Padded keys are left out.
        windows: the W values of w, each 0 or more.

    Raises ValueError for weights that are not square and for a negative window.
    """
    if weights.dim() != 3 or weights.size(1) != weights.size(2):
        raise ValueError(f"weights of self-attention are B×T×T, not {'×'.join(map(str, weights.shape))}")
    if any(window < 0 for window in windows):
        raise ValueError(f"a window is 0 or more positions to either side, not {min(windows)}")
    batch, length, _ = weights.shape
    if padding is None:
        padding = torch.zeros(batch, length, dtype=torch.bool, device=weights.device)
    weights = weights.double().masked_fill(padding[:, :, None] | padding[:, None, :], 0)
    # One cumulative sum over the keys serves all windows: the sum up to the last key minus that before the first.
    before = F.pad(weights.cumsum(dim=2), (1, 0))
    query = torch.arange(length, device=weights.device)[:, None]
    window = torch.tensor([min(w, length) for w in windows], dtype=torch.long, device=weights.device)
    first, end = (query - window).clamp(min=0), (query + window + 1).clamp(max=length)  # T×W
    inside = before.gather(2, end.expand(batch, -1, -1)) - before.gather(2, first.expand(batch, -1, -1))
    return inside.sum(dim=1) / (~padding).sum(dim=1, keepdim=True)


@dataclass(frozen=True)
class Locality:
    """Result of :func:`measure`.

    Args:
        windows: the values of w.
        shares: the share of each sublayer for each window, from 0 to 1.
        sentences: number of sentences of the split.
        tokens: number of tokens of each stack's input.
    """

    windows: tuple[int, ...]
    shares: dict[Sublayer, list[float]]
    sentences: int
    tokens: dict[str, int]


def measure(
    trained: Trained,
    split: Split,
    attentions: Mapping[Sublayer, nn.Module],
    windows: Sequence[int],
    *,
    label: str = "",
) -> Locality:
    """Return Eq. 13 for these self-attentions of the model over a whole split. ``label`` is shown with the progress.

    Raises RuntimeError if a sentence of the split was not among the batches, or came twice.
    """
    model, zero = trained.model, torch.zeros((), device=trained.device)
    totals: dict[Sublayer, Tensor] = {}  # in the order in which the sublayers run
    tokens = {stack: zero.long() for stack in STACKS}
    seen: list[int] = []
    progress = with_progress(split, label)
    with collect_weights(attentions) as weights, torch.inference_mode():
        for batch in progress:
            seen += batch["id"].tolist()
            sample = to_device(batch, trained.device)
            model(**sample["net_input"], features_only=True)
            padding = padding_masks(model, sample["net_input"])
            for sublayer, attention in weights.items():
                shares = share_within(attention, padding[sublayer.stack], windows)
                totals[sublayer] = totals.get(sublayer, zero) + shares.sum(dim=0)
            for stack, mask in padding.items():
                tokens[stack] = tokens[stack] + (~mask).sum()
            progress.log({"sentences": len(seen)})
    if not len(seen) == len(set(seen)) == split.sentences:
        raise RuntimeError(f"{len(seen)} sentences were read, {len(set(seen))} different, of {split.sentences}")
    means = {sublayer: (total / split.sentences).tolist() for sublayer, total in totals.items()}
    return Locality(tuple(windows), means, split.sentences, {stack: int(count) for stack, count in tokens.items()})


def select(trained: Trained, stacks: Sequence[str], layers: str) -> dict[Sublayer, nn.Module]:
    """Return the self-attentions in ``layers`` (such as ``1,3,6``, ``1-3`` or ``all``) of each stack.

    Raises UsageError for a layer beyond a stack, and for layers without self-attention.
    """
    depth = {stack: len(getattr(trained.model, stack).layers) for stack in stacks}
    chosen = {stack: parse_layers(layers, "--layers", range(depth[stack]), depth[stack]) for stack in stacks}
    found = self_attentions(trained.model, stacks)
    found = {sublayer: module for sublayer, module in found.items() if sublayer.layer - 1 in chosen[sublayer.stack]}
    if not found:
        raise UsageError(f"--layers {layers}: {trained.architecture} has no self-attention there ({', '.join(stacks)})")
    return found


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


def parse_windows(text: str) -> tuple[int, ...]:
    """Return the numbers of ``1,2,4`` in ascending order, each once. Raises UsageError for other texts."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() for word in words):
        raise UsageError(f"--windows {text}: give whole numbers from 0, as in 1,2,4")
    return tuple(sorted({int(word) for word in words}))


def make_parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    parser = checkpoint_parser(
        "locality",
        "Print how much of a model's self-attention lies within w positions of the query, in percent (Eq. 13 and "
        "Table 5 of Fan et al. 2021), by sublayer and layer.",
    )
    parser.add_argument("--gen-subset", default="test", metavar="SPLIT", help="split to measure (default: test)")
    parser.add_argument("--windows", default="0,1,2,4,8,16,32", metavar="W,W", help="w (default: %(default)s)")
    parser.add_argument(
        "--stack", choices=[*STACKS, "both"], default="encoder", help="default: encoder, as in the paper"
    )
    parser.add_argument(
        "--layers", default="all", metavar="L,L", help="layers from 1, as in 1,3,6 or 1-3 (default: all)"
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the table as CSV as well")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the share against w (.png, .pdf, .svg)")
    parser.add_argument("--max-tokens", type=int, default=4000, metavar="N", help="of a batch (default: %(default)s)")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table of each checkpoint; on request write a CSV file and a plot."""
    args = make_parser().parse_args(argv)
    show_progress_alone()
    # Arguments are checked before the work begins.
    windows = parse_windows(args.windows)
    names = checkpoint_names(args.path, args.name)
    check_files(args.path, {"--csv": args.csv, "--plot": args.plot}, args.plot)

    rows: list[Row] = []
    for path, name in zip(args.path, names, strict=True):
        trained = load_trained(path, args.data, args.cpu)
        attentions = select(trained, STACKS if args.stack == "both" else [args.stack], args.layers)
        split = read_split(trained, args.gen_subset, args.max_tokens)
        locality = measure(trained, split, attentions, windows, label=name)
        measured = rows_of(locality, name, trained.architecture, split.name)
        print(table(measured), flush=True)
        if split.too_long:
            print(f"{split.too_long} sentences are not counted: they are longer than the model's positions\n")
        rows += measured
    if args.csv is not None:
        write_csv(rows, args.csv)
    if args.plot is not None:
        save_figure(draw(rows), args.plot)
