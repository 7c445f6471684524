"""Soft masks and attention weights of one sentence pair, side by side (Figure 3 of Nguyen et al., ACL 2020).

    python -m fairseq_localattn.analysis.heatmap DATA --path DIFFWIN.pt [--path PLAIN.pt] --sentence N
        [--gen-subset test] [--site cross|encoder|decoder] [--layer L] [--head H|mean] [--plot FILE] [--csv FILE]
    python -m fairseq_localattn.analysis.heatmap DATA --path DIFFWIN.pt --source "text" --target "text" [...]

Rows are queries, columns are keys. The model reads the reference (teacher forcing). A row of the decoder is called by
the target token that is predicted there, the last one being the end of the sentence; its keys in self-attention are the
tokens that it has read, the first one being the end-of-sentence symbol with which fairseq begins.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from fairseq.data import Dictionary
from torch import Tensor, nn

from ..errors import UsageError
from ..mechanisms.windowed import WindowAttention
from ..models.placement import SITES
from ..phrases.dataset import collate_phrases
from .attention_weights import Sublayer, collect_masks, collect_weights, cross_attentions, self_attentions
from .command import check_files, checkpoint_names, show_progress_alone
from .evaluation import Trained, load_trained
from .heatmap_plot import Panel, draw, table, write_csv

Attentions = Mapping[Sublayer, nn.Module]
SITE_NAMES = {
    "encoder": "self-attention of the encoder",
    "decoder": "self-attention of the decoder",
    "cross": "attention to the encoder",
}


@dataclass(frozen=True)
class Pair:
    """A sentence pair: ``source`` S and ``target`` T as numbers of the dictionaries, both with the end of sentence.

    ``phrases``: 1×K×P, their lengths, where the data have them (see phrases/dataset.py).
    """

    source: Tensor
    target: Tensor
    phrases: Tensor | None = None

    @property
    def read(self) -> Tensor:
        """What the decoder reads, T: the end-of-sentence symbol moved to the front."""
        return torch.cat([self.target[-1:], self.target[:-1]])


def encode(text: str, dictionary: Dictionary, flag: str) -> Tensor:
    """The tokens of a text, split at spaces, with the end of sentence.

    Raises UsageError, naming ``flag``, for a text without tokens and for tokens that the dictionary lacks: they would
    all be ``<unk>``. That one may be given as such; the other special symbols may not.
    """
    words = text.split()
    if not words:
        raise UsageError(f"{flag}: the text is empty")
    special = {dictionary.bos(), dictionary.pad(), dictionary.eos()}
    wrong = [word for word in dict.fromkeys(words) if word not in dictionary or dictionary.index(word) in special]
    if wrong:
        raise UsageError(
            f"{flag}: not in the dictionary: {' '.join(wrong)}; give the text in the sub-words of the training data"
            " (the end of sentence is added to it)"
        )
    return torch.tensor([*map(dictionary.index, words), dictionary.eos()])


def read_pair(trained: Trained, args: argparse.Namespace) -> Pair:
    """The pair that the command was asked for. Raises UsageError if there is none, or if the model cannot read it."""
    task = trained.task
    if args.sentence is None:
        source = encode(args.source, task.source_dictionary, "--source")
        pair = Pair(source, encode(args.target, task.target_dictionary, "--target"))
    else:
        split = args.gen_subset or "test"
        task.load_dataset(split)
        dataset = task.dataset(split)
        if not 0 <= args.sentence < len(dataset):
            last = len(dataset) - 1
            raise UsageError(f"--sentence {args.sentence}: {split} has the sentences 0 to {last}, as fairseq counts")
        found = dataset[args.sentence]
        if found["target"] is None:
            raise UsageError(f"--sentence {args.sentence}: {split} has no target side; give --source and --target")
        phrases = None
        if "phrases" in found:
            phrases, _ = collate_phrases([found["phrases"]], no_tag=0)
        pair = Pair(found["source"].long(), found["target"].long(), phrases)
    limits = utils.resolve_max_positions(task.max_positions(), trained.model.max_positions())
    for name, tokens, limit in zip(("source", "target"), (pair.source, pair.target), limits, strict=True):
        if len(tokens) > limit:
            raise UsageError(f"the {name} has {len(tokens)} tokens, and {trained.architecture} reads at most {limit}")
    return pair


def tokens_of(trained: Trained, pair: Pair, site: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What to call the queries and the keys of a site."""
    from_source, from_target = trained.task.source_dictionary, trained.task.target_dictionary
    source = tuple(from_source[n] for n in pair.source.tolist())
    target = tuple(from_target[n] for n in pair.target.tolist())
    read = tuple(from_target[n] for n in pair.read.tolist())
    return {"encoder": (source, source), "decoder": (target, read), "cross": (target, source)}[site]


def site_attentions(model: nn.Module, site: str) -> dict[Sublayer, nn.Module]:
    return cross_attentions(model) if site == "cross" else self_attentions(model, [site])


def window_layers(attentions: Attentions) -> list[int]:
    """The layers of which an attention has windows, in order."""
    return sorted({at.layer for at, module in attentions.items() if isinstance(module, WindowAttention)})


def common_layer(models: Sequence[nn.Module], site: str) -> int:
    """The highest layer that has windows in every model that has windows at the site; without any, the highest of all.

    Raises UsageError if there is no such layer.
    """
    everywhere = [site_attentions(model, site) for model in models]
    layers = [set(found) for found in map(window_layers, everywhere) if found]
    common = set.intersection(*(layers or [{at.layer for at in found} for found in everywhere]))
    if not common:
        raise UsageError(f"--site {site}: no layer will do for all checkpoints; give --layer, or one --path at a time")
    return max(common)


def select(model: nn.Module, site: str, layer: int, head: str, name: str) -> dict[Sublayer, nn.Module]:
    """The attentions of a layer. ``head``: from 1, or mean; ``name``: of the checkpoint, for the errors.

    Raises UsageError for a layer beyond the stack, a layer without such attention, a layer without windows in a model
    that has windows, and a head that is not there.
    """
    stack = "encoder" if site == "encoder" else "decoder"
    depth = len(getattr(model, stack).layers)
    if not 1 <= layer <= depth:
        raise UsageError(f"--layer {layer}: the {stack} of {name} has the layers 1 to {depth}")
    found = {at: module for at, module in site_attentions(model, site).items() if at.layer == layer}
    if not found:
        raise UsageError(f"--site {site}: {name} has no {SITE_NAMES[site]} in layer {layer}")
    windows = {place: window_layers(site_attentions(model, place)) for place in SITES}
    if any(windows.values()) and layer not in windows[site]:
        places = "; ".join(f"--site {at} --layer {', '.join(map(str, ls))}" for at, ls in windows.items() if ls)
        raise UsageError(f"--site {site} --layer {layer}: {name} has no window there, but at {places}")
    for module in found.values():
        heads: Any = module.num_heads
        if head != "mean" and int(head) > heads:
            raise UsageError(f"--head {head}: {name} has the heads 1 to {heads} there")
    return found


def read_panels(
    trained: Trained, pair: Pair, attentions: Attentions, site: str, head: str, name: str
) -> Iterator[Panel]:
    """The maps of these attentions for one pair: of each its soft mask, if it has windows, and its weights."""
    model, device = trained.model, trained.device
    inputs = {
        "src_tokens": pair.source[None].to(device),
        "src_lengths": torch.tensor([len(pair.source)], device=device),
        "prev_output_tokens": pair.read[None].to(device),
    }
    if pair.phrases is not None:
        inputs["src_phrases"] = pair.phrases.to(device)
    with collect_weights(attentions, by_head=True) as weights, collect_masks(attentions) as masks:
        with torch.inference_mode():
            model(**inputs, features_only=True)
    queries, keys = tokens_of(trained, pair, site)
    for at, attention in weights.items():
        for what, values in (("mask", masks.get(at)), ("attention", attention)):
            if values is not None:
                heads = values[0].float().cpu()  # H×T×S
                values = heads.mean(dim=0) if head == "mean" else heads[int(head) - 1]
                yield Panel(name, site, at.layer, at.name, at.kind, head, what, queries, keys, values)


def title_of(args: argparse.Namespace, layer: int) -> str:
    sentence = "a given pair" if args.sentence is None else f"{args.gen_subset or 'test'}, sentence {args.sentence}"
    head = "mean over heads" if args.head == "mean" else f"head {args.head}"
    return f"{sentence}: {SITE_NAMES[args.site]}, layer {layer}, {head}"


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_localattn.analysis.heatmap",
        description="Draw the soft masks and the attention weights of trained models for one sentence pair, side by "
        "side (Figure 3 of Nguyen et al. 2020), and print the strongest key of each query.",
    )
    parser.add_argument("data", metavar="DATA", help="folder that fairseq-preprocess wrote")
    parser.add_argument("--path", action="append", required=True, metavar="CHECKPOINT", help="may be repeated")
    parser.add_argument("--name", action="append", default=[], help="what to call each checkpoint, in the same order")
    parser.add_argument("--sentence", type=int, metavar="N", help="of the split, from 0: fairseq-generate's H-N")
    parser.add_argument("--gen-subset", metavar="SPLIT", help="split of --sentence (default: test)")
    parser.add_argument("--source", metavar="TEXT", help="in place of --sentence: sub-words with spaces between")
    parser.add_argument("--target", metavar="TEXT", help="with --source: its translation, which the decoder reads")
    parser.add_argument("--site", choices=SITES, default="cross", help="which attention (default: cross)")
    parser.add_argument("--layer", type=int, metavar="L", help="from 1 (default: the highest with windows, or of all)")
    parser.add_argument("--head", default="mean", metavar="H", help="from 1, or mean: the mean of all (default)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the maps (.png, .pdf, .svg)")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write all values as CSV")
    parser.add_argument("--cpu", action="store_true", help="do not use the GPU")
    return parser


def check_arguments(args: argparse.Namespace) -> None:
    """Raise UsageError for what can be seen to be wrong before a checkpoint is read."""
    typed = [args.source is not None, args.target is not None]
    if any(typed) != all(typed) or any(typed) == (args.sentence is not None):
        raise UsageError("which sentence pair? give --sentence N, or --source and --target")
    if all(typed) and args.gen_subset is not None:
        raise UsageError(f"--gen-subset {args.gen_subset} changes nothing: the pair is that of --source and --target")
    if args.head != "mean" and not (args.head.isdecimal() and int(args.head) > 0):
        raise UsageError(f"--head {args.head}: give mean, or the number of a head, from 1")
    check_files(args.path, {"--csv": args.csv, "--plot": args.plot}, args.plot)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table; draw the maps and write CSV where asked for."""
    args = make_parser().parse_args(argv)
    show_progress_alone()
    names = checkpoint_names(args.path, args.name)
    check_arguments(args)

    models = [load_trained(path, args.data, args.cpu) for path in args.path]
    layer = common_layer([trained.model for trained in models], args.site) if args.layer is None else args.layer
    panels: list[Panel] = []
    for trained, name in zip(models, names, strict=True):
        pair = read_pair(trained, args)
        attentions = select(trained.model, args.site, layer, args.head, name)
        panels += read_panels(trained, pair, attentions, args.site, args.head, name)
        if (panels[-1].queries, panels[-1].keys) != (panels[0].queries, panels[0].keys):
            raise UsageError(f"{name} reads another pair than {names[0]}: were they trained in the same direction?")
    print(f"{title_of(args, layer)}: the strongest key of each query, the first of equals\n{table(panels)}")
    if args.csv is not None:
        write_csv(panels, args.csv)
    if args.plot is not None:
        draw(panels, title_of(args, layer)).savefig(args.plot, dpi=150)


if __name__ == "__main__":
    main()
