"""Locality of attention: its share within w positions of the query (Eq. 13, Table 5 of Fan et al., NAACL 2021).

    python -m fairseq_localattn.analysis.locality DATA --path CHECKPOINT [--path CHECKPOINT2] [--gen-subset test]
        [--windows 1,2,4] [--layers 1,3,6] [--stack encoder|decoder|both] [--csv FILE] [--plot FILE]

The measure is in :mod:`.measure`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ...errors import UsageError
from ..attention_weights import STACKS
from ..command import check_files, checkpoint_names, checkpoint_parser, save_figure, show_progress_alone
from ..evaluation import load_trained, read_split
from .measure import measure, select
from .report import Row, draw, rows_of, table, write_csv


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
