"""What a query sees in each head of a described attention, drawn for one length.

    python -m fairseq_localattn draw TEXT --out FILE.png [--length N] [--heads H] [--site encoder|decoder]

Each attention of the text is built small, with weights from a fixed seed, and applied to random words with queries and
keys of 0, so that all scores are equal: what differs between keys is the mechanism's. Learned parts have their initial
values. A row of a panel is a query, divided by its largest weight; a column is a key.
"""

from __future__ import annotations

import argparse
import math
import textwrap
from collections.abc import Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..core.attention import LocalAttention
from ..errors import UsageError
from ..grammar.build import Text, complete, mechanisms_of
from ..grammar.parse import Attention, TextError, parse_stack
from ..grammar.words import PHRASES
from ..mechanisms.phrasal import MultiGranularityAttention, parse_granularities
from ..mechanisms.phrase_memory.partition import ngram_lengths, partition_of
from .command import add_user_dir, check_output, check_plot, new_figure, save_figure, show_progress_alone, wrapped
from .masks import LONGEST, SPREAD, Panel

HEAD_DIM, SEED = 16, 1
MOST_PANELS = 64
TITLE = 28  # characters of a panel's title at full size


def attentions_of(text: str, site: str) -> list[Attention]:
    """Return the distinct attentions of a text in their order. Raises UsageError, with the place in the text."""
    reader, found = Text(text), dict[str, Attention]()
    for stretch in parse_stack(text).stretches:
        complete(reader, stretch.sublayers, site, stretch.at)
        for sublayer in stretch.sublayers:
            if isinstance(sublayer.content, Attention):
                found.setdefault(str(sublayer.content), sublayer.content)
    for attention in found.values():
        for mechanism in mechanisms_of(attention):
            if mechanism.word == "tree":
                raise TextError(text, mechanism.at, "trees come with the data: draw ngram, or see analysis.masks")
    return list(found.values())


def seen(module: LocalAttention, length: int, site: str) -> Tensor:
    """Return what each query of a sentence sees with equal scores, H×T×S, the largest of each row as 1."""
    generator = torch.Generator().manual_seed(SEED)
    x = SPREAD * torch.randn(length, 1, module.embed_dim, generator=generator)
    future = torch.ones(length, length, dtype=torch.bool).triu(1) if site == "decoder" else None
    with torch.no_grad():
        for projection in (module.q_proj, module.k_proj):
            for parameter in projection.parameters():
                parameter.zero_()
        _, weights = module.eval()(x, x, x, need_head_weights=True, attn_mask=future)
    assert weights is not None
    return weights[:, 0] / weights[:, 0].amax(dim=-1, keepdim=True)


def panels_of(text: str, *, length: int, heads: int, site: str) -> dict[str, list[Panel]]:
    """Return attention → a panel for each head. Raises UsageError, with the place in the text."""
    found: dict[str, list[Panel]] = {}
    for attention in attentions_of(text, site):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            module = Text(text).attention(
                attention, HEAD_DIM * heads, heads, self_attention=True, causal=site == "decoder"
            )
        masks = _with_ngrams(module, attention, length=length, heads=heads, site=site)
        titles = _titles(attention, heads)
        found[str(attention)] = [Panel(title, mask) for title, mask in zip(titles, masks, strict=True)]
    return found


def _with_ngrams(module: LocalAttention, attention: Attention, *, length: int, heads: int, site: str) -> Tensor:
    """Call :func:`seen`, with the n-grams of the sentence where the attention has heads of phrases."""
    if not isinstance(module, MultiGranularityAttention):
        return seen(module, length, site)
    mechanism = next(each for each in mechanisms_of(attention) if each.word in PHRASES)
    sizes, _ = parse_granularities(str(mechanism.options.get("heads", "word,2,3,4")), heads)
    distinct, padding = sorted(set(sizes)), torch.zeros(1, length, dtype=torch.bool)
    partition = partition_of(ngram_lengths(padding, distinct), padding, longest=max(distinct))
    with module.use_partition(partition):
        return seen(module, length, site)


def _titles(attention: Attention, heads: int) -> list[str]:
    """Return the mechanisms of each head."""
    groups = attention.groups
    counts = [group.heads or heads // len(groups) for group in groups]
    names = [
        " & ".join(map(str, group.mechanisms))
        for group, count in zip(groups, counts, strict=True)
        for _ in range(count)
    ]
    return [f"head {number}: {name}" for number, name in enumerate(names, start=1)]


def draw(groups: dict[str, list[Panel]], site: str) -> Any:
    """Return a matplotlib ``Figure``: a row of panels for each attention. It needs no display."""
    columns = max(map(len, groups.values()))
    titles = {name: wrapped(name, 22 * columns) for name in groups}
    rows = sum(map(str.count, titles.values(), repeat("\n")))  # further lines of titles
    figure = new_figure(figsize=(2.0 * columns + 0.4, 2.7 * len(groups) + 0.2 * rows + 0.5))
    caption = f"What each query (row) of {'a causal decoder' if site == 'decoder' else 'an encoder'} sees with equal "
    caption += f"scores; the row's largest is 1. Learned parts: initial values (seed {SEED})."
    figure.supxlabel(textwrap.fill(caption, 28 * columns), fontsize="x-small")
    parts = figure.subfigures(len(groups), 1, squeeze=False)[:, 0]
    for part, (name, panels) in zip(parts, groups.items(), strict=True):
        part.suptitle(f"{titles[name]}\n", fontsize="medium", parse_math=False)
        for axes, panel in zip(part.subplots(1, columns, squeeze=False)[0], panels, strict=False):
            axes.imshow(panel.values.numpy(), cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
            title = wrapped(panel.title, TITLE)
            longest = max(map(len, title.splitlines()))
            axes.set_title(title, fontsize=min(7.0, 7.0 * TITLE / longest), parse_math=False)
            axes.set_xticks([])
            axes.set_yticks([])
    for part, panels in zip(parts, groups.values(), strict=True):
        for axes in part.axes[len(panels) :]:
            axes.set_visible(False)
    return figure


def main(argv: Sequence[str] | None = None) -> None:
    """Draw the masks of a text and write the picture."""
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_localattn draw",
        description="Draw what each query sees in each head of a text, such as '2*local(window=2) + 2*global'.",
    )
    parser.add_argument("text", metavar="TEXT", help="attention, sublayers or layers, as for --localattn-encoder")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="picture to write: .png, .pdf or .svg")
    parser.add_argument("--length", type=int, default=12, help=f"words of the sentence, at most {LONGEST}")
    parser.add_argument("--heads", type=int, help="heads of each attention; default: those of its groups, or 4")
    parser.add_argument("--site", choices=("encoder", "decoder"), default="encoder", help="decoder: causal")
    add_user_dir(parser)
    args = parser.parse_args(argv)
    show_progress_alone()
    check_output(args.out, "--out")
    check_plot(args.out, "--out")
    if not 1 <= args.length <= LONGEST:
        raise UsageError(f"--length {args.length}: give a number of words from 1 to {LONGEST}")
    attentions = attentions_of(args.text, args.site)
    counted = [sum(group.heads or 0 for group in each.groups) for each in attentions]
    heads = args.heads if args.heads is not None else max(counted) or math.lcm(4, *(len(a.groups) for a in attentions))
    if not 1 <= heads <= MOST_PANELS // len(attentions):
        raise UsageError(f"--heads {heads}: at most {MOST_PANELS} panels are drawn, of {len(attentions)} attentions")
    figure = draw(panels_of(args.text, length=args.length, heads=heads, site=args.site), args.site)
    save_figure(figure, args.out, dpi=110, metadata={"Software": None} if args.out.suffix == ".png" else None)


if __name__ == "__main__":
    main()
