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

    def path(self, results: Path, scale: str, kind: str = "png") -> Path:
        """Return the path of the picture, or of the numbers of the weights (kind ``csv``)."""
        return results / FOLDER / f"{self.paper}_{self.name}_{scale}.{kind}"


GAPS = (
    "Gap of BLEU (y) by the order of n-grams (x): BLEU of the n-grams of one length alone, less the baseline's of the"
    " same seed. Bars: the mean over the seeds; dots: the seeds."
)
WEIGHTS = "Rows: the word that attends; columns: the words that it attends to."
FIGURES = (
    Figure(
        "mma",
        "fig2",
        "BLEU (y) by the length of the source in words (x). Of the paper's six groups those with fewer than 10"
        " sentences are left out. Lines: the mean over the seeds; dots: the seeds.",
    ),
    Figure(
        "mma",
        "fig3",
        f"Weights of the encoder's self-attention for one sentence, by layer and kind of head. {WEIGHTS} Deeper blue:"
        " larger weight.",
        about="weights by layer and kind of head",
        rows=("table2/mma",),
        command="head_kinds",
    ),
    Figure(
        "csan",
        "fig2",
        "BLEU on the validation set (y). Left (a): by the window of 1D-CSANs, in words. Right (b): by the heads of"
        " 2D-CSANs with a window of 11. One seed at small scale; lines: the mean over the seeds.",
    ),
    Figure("csan", "fig3", GAPS),
    Figure("mgsa", "fig2", GAPS),
    Figure(
        "mgsa",
        "fig3",
        f"Self-attention of the encoder's second layer, the one above MG-SA, for one sentence, mean over the heads."
        f" {WEIGHTS} Darker: larger weight.",
        about="attention in the layer above MG-SA, mean over the heads",
        rows=("table3/transformer", "table3/ngram"),
        command="heatmap.command",
        options=("--site", "encoder", "--layer", "2"),
    ),
    Figure(
        "diffwin",
        "fig3",
        f"Soft mask and attention of our model, and attention of the Transformer, from the target to the source of one"
        f" sentence, mean over the heads. {WEIGHTS} Darker: larger value.",
        about="soft masks beside the attention to the source",
        rows=("table1/en_de_all", "table1/en_de_transformer"),
        command="heatmap.command",
        options=("--site", "cross"),
    ),
)


def figures_of(paper: str) -> list[Figure]:
    """Return the figures of a paper."""
    return [figure for figure in FIGURES if figure.paper == paper]


def find_figure(paper: str, name: str) -> Figure:
    """Return a figure by its names. Raises RecipeError."""
    key, known = f"{paper}/{name}", [figure.key for figure in FIGURES]
    if key not in known:
        there = ", ".join(each.replace("/", " ") for each in known)
        raise RecipeError(f"{paper} {name}: no such figure; there are {there}{nearest(key, known)}")
    return FIGURES[known.index(key)]
