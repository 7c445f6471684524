"""Heat maps of soft masks and attention weights of a sentence pair (Figure 3 of Nguyen et al., ACL 2020).

    python -m fairseq_localattn.analysis.heatmap DATA --path DIFFWIN.pt [--path PLAIN.pt] --sentence N
        [--gen-subset test] [--site cross|encoder|decoder] [--layer L] [--head H|mean] [--plot FILE] [--csv FILE]
    python -m fairseq_localattn.analysis.heatmap DATA --path DIFFWIN.pt --source "text" --target "text" [...]
    python -m fairseq_localattn.analysis.heatmap DATA --path A.pt [--path B.pt] --sentence N,N,… --html FILE

Rows are queries, columns are keys. The decoder reads the reference (teacher forcing). Its rows are labelled with the
target token that is predicted there, the last of which is the end of the sentence; the keys of its self-attention are
labelled with its input, the first token of which is fairseq's end-of-sentence symbol.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...grammar.placement import SITES
from ..command import check_files, checkpoint_names, checkpoint_parser, save_figure, show_progress_alone
from ..evaluation import Trained, load_trained
from . import page
from .maps import SITE_NAMES, common_layer, common_site, read_panels, run_model, select, site_attentions
from .pairs import read_pair, tokens_of
from .plot import Panel, draw, table, write_csv


def check_same(labels: Sequence[tuple[str, ...]], first: Sequence[tuple[str, ...]], names: Sequence[str]) -> None:
    """Raise UsageError unless two checkpoints, of these names, read the same words."""
    if list(labels) != list(first):
        raise UsageError(f"{names[1]} reads another pair than {names[0]}: were they trained in the same direction?")


def page_data(models: Sequence[Trained], names: Sequence[str], args: argparse.Namespace) -> dict[str, Any]:
    """Return the data of the page for all sentences of ``args``, at its site or at all.

    Raises UsageError for a pair that a model cannot read, and for more weights than a page holds.
    """
    sites = [args.site] if args.site else list(SITES)
    attentions = [{site: site_attentions(trained.model, site) for site in sites} for trained in models]
    pairs = [[read_pair(trained, each) for trained in models] for each in by_sentence(args)]
    values = 0
    for of_models in pairs:
        for trained, pair, name, found in zip(models, of_models, names, attentions, strict=True):
            words = {site: tokens_of(trained, pair, site) for site in SITES}
            check_same(words["cross"], tokens_of(models[0], of_models[0], "cross"), (names[0], name))
            values += sum(page.count_values(found[site], *map(len, words[site])) for site in sites)
    page.check_size(values, args.html)
    sentences = []
    for each, of_models in zip(by_sentence(args), pairs, strict=True):
        maps = []
        for trained, pair, found in zip(models, of_models, attentions, strict=True):
            everywhere = {at: module for site in sites for at, module in found[site].items()}
            weights, masks = run_model(trained, pair, everywhere)
            for site in sites:  # in the order in which they run
                found[site] = {at: everywhere[at] for at in weights if at in found[site]}
            maps.append({site: page.map_entries(found[site], weights, masks) for site in sites})
        labels = {site: tokens_of(models[0], of_models[0], site) for site in SITES}
        target, source = labels["cross"]
        sentences.append({"label": sentence_of(each), "words": (source, target), "tokens": labels, "maps": maps})
    entries = [
        page.checkpoint_entry(name, trained.architecture, trained.model, found)
        for name, trained, found in zip(names, models, attentions, strict=True)
    ]
    scale = {"hidden": page.HIDDEN, "unit": page.UNIT}
    return {**scale, "sites": sites, "checkpoints": entries, "sentences": sentences}


def by_sentence(args: argparse.Namespace) -> list[argparse.Namespace]:
    """Return the arguments for each sentence alone, whose ``sentence`` is its number, or None for a given text."""
    return [argparse.Namespace(**{**vars(args), "sentence": number}) for number in args.sentence or [None]]


def sentence_of(args: argparse.Namespace) -> str:
    """Return what the sentence pair is called."""
    return "a given pair" if args.sentence is None else f"{args.gen_subset or 'test'}, sentence {args.sentence}"


def title_of(args: argparse.Namespace, layer: int) -> str:
    """Return the title of the table and of the plot."""
    head = "mean over heads" if args.head == "mean" else f"head {args.head}"
    return f"{sentence_of(args)}: {SITE_NAMES[args.site]}, layer {layer}, {head}"


def make_parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    parser = checkpoint_parser(
        "heatmap",
        "Draw the soft masks and the attention weights of trained models for one sentence pair, side by side (Figure 3 "
        "of Nguyen et al. 2020), and print the strongest key of each query.",
    )
    numbers = "of the split, from 0: fairseq-generate's H-N; for --html several, as in 0,4,9"
    parser.add_argument("--sentence", type=numbers_of, metavar="N[,N…]", help=numbers)
    parser.add_argument("--gen-subset", metavar="SPLIT", help="split of --sentence (default: test)")
    parser.add_argument("--source", metavar="TEXT", help="in place of --sentence: sub-words with spaces between")
    parser.add_argument("--target", metavar="TEXT", help="with --source: its translation, which the decoder reads")
    parser.add_argument("--site", choices=SITES, help="which attention (default: where a mechanism is; --html: all)")
    parser.add_argument(
        "--layer", type=int, metavar="L", help="from 1 (default: the highest with a mechanism, or of all)"
    )
    parser.add_argument("--head", default="mean", metavar="H", help="from 1, or mean: the mean of all (default)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the maps (.png, .pdf, .svg)")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write all values as CSV")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page to browse all layers and heads")
    return parser


def numbers_of(text: str) -> list[int]:
    """Return the numbers of sentences in ``0,4,9``, each once."""
    try:
        return list(dict.fromkeys(map(int, text.split(","))))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: give numbers from 0 with commas between, as in 0,4,9") from None


def check_arguments(args: argparse.Namespace) -> None:
    """Raise UsageError for invalid arguments, before a checkpoint is read."""
    typed = [args.source is not None, args.target is not None]
    if any(typed) != all(typed) or any(typed) == (args.sentence is not None):
        raise UsageError("which sentence pair? give --sentence N, or --source and --target")
    if all(typed) and args.gen_subset is not None:
        raise UsageError(f"--gen-subset {args.gen_subset} changes nothing: the pair is that of --source and --target")
    if args.head != "mean" and not (args.head.isdecimal() and int(args.head) > 0):
        raise UsageError(f"--head {args.head}: give mean, or the number of a head, from 1")
    if not pictures(args):
        changed = {"--layer": args.layer, "--head": None if args.head == "mean" else args.head}
        for flag, value in changed.items():
            if value is not None:
                raise UsageError(f"{flag} {value} changes nothing: the page of --html has all layers and heads")
    elif len(args.sentence or ()) > 1:
        raise UsageError("--sentence: table, --plot and --csv show one; give --html alone for several")
    check_files(args.path, {"--csv": args.csv, "--plot": args.plot, "--html": args.html}, args.plot)


def pictures(args: argparse.Namespace) -> bool:
    """Return whether maps of one layer are asked for: all but a page alone."""
    return args.html is None or args.plot is not None or args.csv is not None


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table; on request draw the maps, write a CSV file, and write the page (alone, without the table)."""
    args = make_parser().parse_args(argv)
    show_progress_alone()
    names = checkpoint_names(args.path, args.name)
    check_arguments(args)

    models = [load_trained(path, args.data, args.cpu) for path in args.path]
    if args.html is not None:
        size = page.save_page(page_data(models, names, args), args.html)
        print(f"{args.html}: {size / 1e6:.1f} MB; open it in a browser")
    if not pictures(args):
        return
    (args,) = by_sentence(args)
    args.site = args.site or common_site([trained.model for trained in models])
    layer = common_layer([trained.model for trained in models], args.site) if args.layer is None else args.layer
    panels: list[Panel] = []
    for trained, name in zip(models, names, strict=True):
        pair = read_pair(trained, args)
        attentions = select(trained.model, args.site, layer, args.head, name=name)
        panels += read_panels(trained, pair, attentions, args.site, head=args.head, name=name)
        last, first = panels[-1], panels[0]
        check_same((last.queries, last.keys), (first.queries, first.keys), (names[0], name))
    print(f"{title_of(args, layer)}: the strongest key of each query, the first of equals\n{table(panels)}")
    if args.csv is not None:
        write_csv(panels, args.csv)
    if args.plot is not None:
        save_figure(draw(panels, title_of(args, layer)), args.plot)
