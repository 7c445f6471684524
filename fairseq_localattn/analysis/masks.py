"""What each query may see: the masks of the five mechanisms, drawn for one short sentence.

    python -m fairseq_localattn.analysis.masks --out FILE.png [--tree BRACKETING]

Each mechanism's module is built small, with random weights, and asked by its own steps: ``hidden_keys`` (MMA),
``attend`` (CSAN, static masks of MAN), ``score_bias`` (dynamic masks of MAN), ``soft_mask`` (DiffWin) and the attention
weights (MG-SA). Rows are queries, columns are keys; dark is seen, white is hidden.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..core.attention import LocalAttention
from ..core.call import Call
from ..errors import UsageError
from ..kernels.masks import Frame
from ..mechanisms.convolutional import ConvolutionalAttention
from ..mechanisms.masked import DynamicMaskAttention, StaticMaskAttention
from ..mechanisms.mixed import MixedAttention
from ..mechanisms.phrasal import MultiGranularityAttention
from ..mechanisms.phrase_memory.partition import Partition, ngram_lengths, partition_of
from ..mechanisms.windowed import MultiplicativeWindowAttention
from ..phrases.trees import TreeError, read_tree
from ..phrases.trees import partition as tree_levels
from .command import add_user_dir, check_output, check_plot, new_figure, save_figure, show_progress_alone

TREE = (
    "(S (NP (DT the) (JJ old) (NN man)) (VP (VBD saw) (NP (CD two) (NNS birds))"
    " (PP (IN in) (NP (DT the) (JJ tall) (NN tree)))))"
)
CHANNELS, HEADS = 32, 4
SPREAD = 1.8  # standard deviation of the random words; enough for soft masks that differ visibly between queries
LONGEST = 30  # words that a panel of this size can show


@dataclass(frozen=True)
class Panel:
    """One mask: ``values`` T×S from 0 (hidden) to 1 (seen), row = query, column = key."""

    title: str
    values: Tensor


@dataclass(frozen=True)
class Example:
    """A sentence of T words: ``words``; ``x``, T×1×C, random word vectors; ``partition``: 2-grams, tree levels 1, 2."""

    words: tuple[str, ...]
    x: Tensor
    partition: Partition

    @property
    def frame(self) -> Frame:
        """The full pass of self-attention over the sentence, without padding."""
        return Frame(query_length=len(self.words), key_length=len(self.words))


def make_example(tree: str = TREE, seed: int = 1) -> Example:
    """Return the sentence of a constituency tree with random word vectors and its phrases. Raises TreeError."""
    root = read_tree(tree)
    words = tuple(root.words())
    x = SPREAD * torch.randn(len(words), 1, CHANNELS, generator=torch.Generator().manual_seed(seed))
    padding = torch.zeros(1, len(words), dtype=torch.bool)
    ngrams = ngram_lengths(padding, [2])[0, 0].tolist()
    levels = [[span.words for span in level] for level in tree_levels(root, levels=2)]
    most = max(map(len, (ngrams, *levels)))
    lengths = [[*found, *[0] * (most - len(found))] for found in (ngrams, *levels)]
    return Example(words, x, partition_of(torch.tensor([lengths]), padding))


def seen_keys(module: LocalAttention, example: Example) -> Tensor:
    """Return which keys of which head each query of each head sees: H×T×H×S, boolean, True = seen.

    With equal scores for all keys the output of ``attend`` depends on exactly the values that are seen.
    """
    zeros = torch.zeros(1, HEADS, len(example.words), CHANNELS // HEADS)

    def attended(v: Tensor) -> Tensor:
        out, _ = module.attend(Call(example.frame, example.x, q=zeros, k=zeros, v=v), need_weights=False)
        return out[0, :, :, 0]

    by_value = torch.autograd.functional.jacobian(attended, torch.zeros_like(zeros))  # H×T×1×H×S×D
    return by_value[:, :, 0].ne(0).any(-1)


def mma_panels(example: Example) -> list[Panel]:
    """Return the four kinds of head of mixed attention (Cui et al. 2019), window w = 1."""
    kinds = ("global", "local", "forward", "backward")
    module = MixedAttention(CHANNELS, HEADS, head_kinds=kinds, window=1, self_attention=True)
    hidden = module.hidden_keys(example.frame, example.x.device)
    assert hidden is not None
    return [Panel(kind, (~mask).float()) for kind, mask in zip(kinds, hidden, strict=True)]


def csan_panels(example: Example) -> list[Panel]:
    """Return the 1D window and the three heads of the 2D window (Yang et al. 2019), five positions wide."""
    head = 1
    one, two = (
        seen_keys(ConvolutionalAttention(CHANNELS, HEADS, window=5, head_span=span, self_attention=True), example)
        for span in (1, 3)
    )
    panels = [Panel("1D: own head h", one[head, :, head].float())]
    for other, name in ((head - 1, "h-1"), (head, "h"), (head + 1, "h+1")):
        panels.append(Panel(f"2D: head {name}", two[head, :, other].float()))
    return panels


def man_panels(example: Example) -> list[Panel]:
    """Return static masks of two widths and the dynamic mask of two heads (Fan et al. 2021)."""
    panels = []
    for boundary, name in ((2, "b = 2"), (None, "b = √L/2")):
        module = StaticMaskAttention(CHANNELS, HEADS, boundary=boundary, self_attention=True)
        panels.append(Panel(f"static, {name}", seen_keys(module, example)[0, :, 0].float()))
    dynamic = DynamicMaskAttention(CHANNELS, HEADS, max_distance=len(example.words), self_attention=True)
    call = Call(example.frame, example.x, *dynamic.project(example.x, example.x, example.x))
    mask = dynamic.score_bias(call).exp()[0]
    return [*panels, *(Panel(f"dynamic, head {head + 1}", mask[head]) for head in (0, 1))]


def diffwin_panels(example: Example) -> list[Panel]:
    """Return the soft windows of two heads, with ends at tokens and at segments of three (Nguyen et al. 2020)."""
    panels = []
    for size, name in ((1, "tokens"), (3, "segments of 3")):
        module = MultiplicativeWindowAttention(CHANNELS, HEADS, segment_size=size, self_attention=True)
        _, _, _, extra = module.project(example.x, example.x, example.x)
        mask = module.soft_mask(example.frame, module.pointer_scores(extra))[0].clamp(max=1)
        panels += [Panel(f"{name}, head {head + 1}", mask[head]) for head in (0, 1)]
    return panels


def mgsa_panels(example: Example) -> list[Panel]:
    """Return the weights of words, 2-grams and two levels of the tree, the largest as 1 (Hao et al. 2019)."""
    module = MultiGranularityAttention(
        CHANNELS, HEADS, granularities=(0, 1, 2), composition="max", interaction="none", self_attention=True
    )
    with module.use_partition(example.partition):
        _, weights = module(example.x, example.x, example.x, need_head_weights=True)
    names = ("words", "2-grams", "tree, level 1", "tree, level 2")
    return [Panel(name, mask / mask.max()) for name, mask in zip(names, weights[:, 0], strict=True)]


MECHANISMS: dict[str, Callable[[Example], list[Panel]]] = {
    "MMA: kinds of heads": mma_panels,
    "CSAN: windows": csan_panels,
    "MAN: masks": man_panels,
    "DiffWin: soft windows": diffwin_panels,
    "MG-SA: phrases": mgsa_panels,
}


def all_panels(example: Example, seed: int = 1) -> dict[str, list[Panel]]:
    """Return the four panels of each mechanism, from modules whose weights depend on ``seed`` alone."""
    found = {}
    for name, panels in MECHANISMS.items():
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(seed)
            found[name] = panels(example)
    return found


def draw(groups: dict[str, list[Panel]], words: Sequence[str]) -> Any:
    """Return a matplotlib ``Figure`` with the groups side by side, four panels each. It needs no display."""
    figure = new_figure(figsize=(2.6 * len(groups) + 0.5, 3.5))
    font = {"fontsize": min(6.0, 65 / len(words)), "parse_math": False}  # a word may be $
    for place, (part, (name, panels)) in enumerate(zip(figure.subfigures(1, len(groups)), groups.items(), strict=True)):
        part.suptitle(name, fontsize="large", fontweight="bold")
        grid = part.subplots(2, 2, sharex=True, sharey=True)
        for axes, panel in zip(grid.flat, panels, strict=True):
            axes.imshow(panel.values.numpy(), cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
            axes.set_title(panel.title, fontsize="x-small")
            axes.set_xticks(range(len(words)), words, rotation=90, **font)
            axes.set_yticks(range(len(words)), words if place == 0 else [], **font)
            axes.tick_params(length=0)
    return figure


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_localattn.analysis.masks",
        description="Draw what each query of a short sentence may see, for each of the five mechanisms.",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="picture to write: .png, .pdf or .svg")
    parser.add_argument(
        "--tree", default=TREE, help="constituency tree of another sentence, as '(S (NP ...) (VP ...))'"
    )
    add_user_dir(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Draw the masks and write the picture."""
    args = make_parser().parse_args(argv)
    show_progress_alone()
    check_output(args.out, "--out")
    check_plot(args.out, "--out")
    try:
        example = make_example(args.tree)
    except TreeError as error:
        raise UsageError(f"--tree: {error}") from None
    if len(example.words) > LONGEST:
        raise UsageError(f"--tree: the sentence has {len(example.words)} words; give one of at most {LONGEST}")
    figure = draw(all_panels(example), example.words)
    save_figure(figure, args.out, metadata={"Software": None} if args.out.suffix == ".png" else None)


if __name__ == "__main__":
    main()
