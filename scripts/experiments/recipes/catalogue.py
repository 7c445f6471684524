"""Which figures of the papers there are, what each shows, and where its picture lies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from experiments.recipes.nodes import RecipeError, nearest

FOLDER = "figures"  # of results/


@dataclass(frozen=True)
class Figure:
    """One figure of a paper.

    Args:
        paper, name: such as ``mma``, ``fig2``.
        about: what it shows, for the heading of a figure without a table of its own.
        caption: the axes and what stands on them.
        rows: TABLE/ROW of the trained models whose weights are drawn; none for a figure of scores, which is a table of
            its own, ``configs/<paper>/<name>.yaml``.
        command: module of ``fairseq_localattn.analysis`` that draws the weights, with these ``options``.
    """

    paper: str
    name: str
    caption: str
    about: str = ""
    rows: tuple[str, ...] = ()
    command: str = ""
    options: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """PAPER/NAME."""
        return f"{self.paper}/{self.name}"

    def path(self, results: Path, scale: str) -> Path:
        """Return the path of the picture; that of the numbers of weights ends in .csv instead."""
        return results / FOLDER / f"{self.paper}_{self.name}_{scale}.png"


GAPS = "BLEU of the n-grams of one length alone (x), less the baseline's of the same seed. Bars: means; dots: seeds."
WEIGHTS = "Rows attend to columns"
FIGURES = (
    Figure(
        "mma",
        "fig2",
        "BLEU (y) by the source's words (x), in groups of 10 sentences or more. Lines: means; dots: seeds.",
    ),
    Figure(
        "mma",
        "fig3",
        f"The encoder's self-attention in one sentence. {WEIGHTS}; deeper blue: larger weight.",
        about="weights by layer and kind of head",
        rows=("table2/mma",),
        command="head_kinds",
    ),
    Figure(
        "csan",
        "fig2",
        "(a) 1D-CSANs, window in words; (b) 2D-CSANs with a window of 11. Lines: means over the seeds.",
    ),
    Figure("csan", "fig3", GAPS),
    Figure("mgsa", "fig2", GAPS),
    Figure(
        "mgsa",
        "fig3",
        f"The encoder's second layer in one sentence. {WEIGHTS}; darker: larger weight.",
        about="attention in the layer above MG-SA, mean over the heads",
        rows=("table3/transformer", "table3/ngram"),
        command="heatmap.command",
        options=("--site", "encoder", "--layer", "2"),
    ),
    Figure(
        "diffwin",
        "fig3",
        f"Our model's soft mask and attention, and the Transformer's attention, from the target to the source of one"
        f" sentence. {WEIGHTS}; darker: larger value.",
        about="soft masks beside the attention to the source, mean over the heads",
        rows=("table1/en_de_all", "table1/en_de_transformer"),
        command="heatmap.command",
        options=("--site", "cross"),
    ),
)


def find_figure(paper: str, name: str) -> Figure:
    """Return a figure by its names. Raises RecipeError."""
    key, known = f"{paper}/{name}", [figure.key for figure in FIGURES]
    if key not in known:
        there = ", ".join(each.replace("/", " ") for each in known)
        raise RecipeError(f"{paper} {name}: no such figure; there are {there}{nearest(key, known)}")
    return FIGURES[known.index(key)]
