"""The papers' figures on the pages: pictures of results/figures/ with their captions."""

from __future__ import annotations

from pathlib import Path

from experiments.recipes.catalogue import FOLDER, Figure, figures_of


def pictures(root: Path, figure: Figure) -> list[str]:
    """Return a paragraph with picture and caption for each scale at which the figure has been drawn."""
    found = []
    for path in sorted((root / "results" / FOLDER).glob(f"{figure.paper}_{figure.name}_*.png")):
        scale = path.stem.rpartition("_")[2]
        files = f"{FOLDER}/{path.stem}.csv", f"{figure.paper}/{figure.name}.csv"  # of weights, of scores
        numbers = "".join(f" [Numbers]({name})." for name in files if (root / "results" / name).is_file())
        title = f"Figure {figure.name.removeprefix('fig')}, {scale} scale"
        found.append(f"![{title}]({FOLDER}/{path.name})\n\n*{scale.capitalize()} scale. {figure.caption}*{numbers}")
    return found


def pictures_of_table(root: Path, paper: str, name: str) -> list[str]:
    """Return the paragraphs of a figure of scores, which is a table; none for other tables."""
    return [text for figure in figures_of(paper) if figure.name == name for text in pictures(root, figure)]


def pictures_without_table(root: Path, paper: str) -> dict[str, list[str]]:
    """Return heading → paragraphs of the figures of weights that have been drawn."""
    drawn = {figure: pictures(root, figure) for figure in figures_of(paper) if figure.rows}
    return {
        f"Figure {figure.name.removeprefix('fig')}: {figure.about}": found for figure, found in drawn.items() if found
    }
