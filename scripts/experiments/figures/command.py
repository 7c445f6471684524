"""Draw a figure of a paper: of scores, or of the attention weights of trained models.

    scripts/<paper>/<figure>.sh [--scale smoke|small|full] [--out DIR] [--seeds 1,2] …
    python scripts/figure.py PAPER FIGURE …

A figure of scores is a table: its rows are trained, decoded and scored as scripts/table.py does, into
results/<paper>/<figure>.csv. What is finished is skipped, so that with the runs of the tables in --out nothing is
trained. A figure of weights takes the finished trainings in --out, of the first seed, and trains nothing; its numbers
go beside the picture. The picture is results/figures/<paper>_<figure>_<scale>.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments.engine.table import as_status, make_parser, plan_of, run_table
from experiments.figures import scores, weights
from experiments.recipes.catalogue import Figure, find_figure
from experiments.recipes.nodes import RecipeError
from experiments.system.options import OneLineParser
from fairseq_localattn.analysis.command import check_output, check_plot, save_figure


def make_figure_parser() -> OneLineParser:
    """Return the parser: a table's, and what belongs to a picture."""
    parser = make_parser("figure", __doc__)
    parser.add_argument("--sentence", type=int, metavar="N", help="of weights: which sentence of the test set, from 0 "
                        f"(default: the first of {weights.LENGTHS[0]} to {weights.LENGTHS[-1]} words)")  # fmt: skip
    parser.add_argument("--plot", type=Path, metavar="FILE", help="the picture (.png, .pdf, .svg), in another place")
    return parser


def check_picture(path: Path) -> None:
    """Raise UsageError where matplotlib is missing, or the picture cannot be written."""
    check_plot(path)
    check_output(path, "--plot")


def of_weights(figure: Figure, args: argparse.Namespace) -> int:
    """Draw a figure of weights; return the exit status."""
    if args.rows:
        raise RecipeError(f"--rows {args.rows}: {figure.paper} {figure.name} draws {', '.join(figure.rows)}")
    args.scale = args.scale or "full"
    plan, _ = plan_of(args, weights.rows_of(figure, args.scale))
    picture = args.plot or figure.path(plan.choice.results, args.scale)
    if args.dry_run:
        print("".join(f"# the weights of {run.model}\n" for run in plan.runs) + f"# drawn into {picture}")
        return 0
    check_picture(picture)
    numbers = weights.draw(figure, plan, args.sentence, picture)
    print(f"drawn: {picture}, numbers: {numbers}")
    return 0


def of_scores(figure: Figure, args: argparse.Namespace) -> int:
    """Measure the rows of a figure of scores that have not been measured, and draw it; return the exit status."""
    if args.sentence is not None:
        raise RecipeError(f"--sentence {args.sentence} changes nothing: {figure.paper} {figure.name} draws scores")
    if not args.dry_run:  # before hours of training
        check_picture(args.plot) if args.plot else check_plot(Path("picture.png"))
    status, ledger = run_table(args)
    if status or args.dry_run or args.task is not None:
        return status
    picture = args.plot or figure.path(ledger.plan.choice.results, args.scale)
    check_picture(picture)
    save_figure(scores.draw(figure.key, scores.systems_of(ledger)), picture)
    print(f"drawn: {picture}")
    return 0


def main(argv: list[str] | None = None) -> int:
    args = make_figure_parser().parse_args(argv)

    def work() -> int:
        figure = find_figure(args.paper, args.table)
        return of_weights(figure, args) if figure.rows else of_scores(figure, args)

    return as_status("figure", work)
