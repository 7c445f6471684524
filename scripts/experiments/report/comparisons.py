"""Tables of comparisons: results/<recipe>.csv beside what configs/compare/<recipe>.yaml says of the paper.

The recipe's key `paper` says what the paper calls a system, and the score that it reports; `label` what that score is:

    label: Nguyen et al. 2020, WMT14 En-De
    paper:
      transformer_localattn_small: {score: 27.46}
      diffwin_cross: {label: "Cr(AW,Seg)", score: 28.13}
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.recipes.recipe import Recipe, load_recipe
from experiments.report.csv_lines import (
    NOT_MEASURED,
    Line,
    TableError,
    by_seed,
    decimals,
    groups,
    markdown,
    mean_and_sd,
    mean_change,
    millions,
    p_value,
    read_lines,
    seeds_of,
)

COLUMNS = ("system", "baseline", "seed", "parameters", "difference", "settings")
KEY = ("system", "seed", "settings")  # as in results.py
# The column that is compared, and its heading: as in measures.py, which wants torch.
HEADLINES = {"bleu": "BLEU", "accuracy": "accuracy", "perplexity": "perplexity"}
UNITS = {"accuracy": "accuracy (%)", "perplexity": "perplexity (lower is better)"}


@dataclass(frozen=True)
class Comparison:
    """A recipe and its rows; `headline` is the column that is compared."""

    recipe: Recipe
    lines: list[Line]
    headline: str

    @property
    def baseline(self) -> str:
        return self.lines[0]["baseline"]

    def systems(self) -> list[str]:
        """The baseline, then the others as the recipe has them."""
        return list(dict.fromkeys((self.baseline, *systems_of(self.recipe))))

    def scores(self) -> dict[tuple[str, ...], list[float]]:
        """The scores by (system, settings)."""
        found = groups(self.lines, "system", "settings")
        return {key: [line.number(self.headline) for line in lines] for key, lines in found.items()}


def recipe_path(root: Path, name: str) -> Path:
    """The recipe of a comparison; it need not be there."""
    return root / "configs" / "compare" / f"{name}.yaml"


def systems_of(recipe: Recipe) -> list[str]:
    """What a recipe names: architectures, and systems."""
    return [*recipe.get("architectures", []), *recipe.get("systems", {})]


def load_comparison(root: Path, name: str) -> Comparison:
    """Recipe and rows, checked against one another. Raises TableError, or RecipeError."""
    recipe, path = load_recipe(recipe_path(root, name)), root / "results" / f"{name}.csv"
    if not path.is_file():
        raise TableError(
            f"{path}: is not there: run scripts/compare.py {recipe.path}, or take the table's markers away"
        )
    lines = read_lines(path, COLUMNS, KEY)
    if not lines:
        raise TableError(f"{path}: has no rows")
    headline = next((column for column in HEADLINES if column in lines[0].values), None)
    if headline is None:
        raise TableError(f"{path}:1: has none of the columns {', '.join(HEADLINES)}")
    known = {*systems_of(recipe), lines[0]["baseline"]}
    for line in lines:
        if line["baseline"] != lines[0]["baseline"]:
            raise TableError(f"{line.where}: baseline {line['baseline']}, where the row before has another")
        if line["system"] not in known:
            raise TableError(f"{line.where}: {recipe.path} has no system {line['system']!r}")
    _check_paper(recipe, known)
    return Comparison(recipe, lines, headline)


def _check_paper(recipe: Recipe, known: set[str]) -> None:
    for system, said in recipe.get("paper", {}).items():
        where = f"{recipe.path}: paper: {system}"
        if system not in known:
            raise TableError(f"{where}: there is no such system")
        if not isinstance(said, dict) or not set(said) <= {"label", "score"}:
            raise TableError(f"{where}: must be {{label: text, score: number}}, or one of the two")
        score = said.get("score", 0)
        if isinstance(score, bool) or not isinstance(score, (int, float)):
            raise TableError(f"{where}: score must be a number, not {score!r}")


def comparison_table(root: Path, name: str) -> str:
    """The table of a comparison: scores by seed, their mean, the difference to the baseline, the paper's score."""
    work = load_comparison(root, name)
    seeds = seeds_of(work.lines)
    said = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)}"
    title = UNITS.get(work.headline, HEADLINES[work.headline])
    header = [
        "system", "parameters", f"{title}, {said}", "mean ± sd" if len(seeds) > 1 else "", "difference", f"p, {said}",
        f"tags right (%), {said}", f"paper: {work.recipe.get('label', 'score')} (difference)",
    ]  # fmt: skip
    measured = groups(work.lines, "system", "settings")
    rows = []
    for system in work.systems():
        found = {settings: lines for (name, settings), lines in measured.items() if name == system}
        for settings, lines in found.items() or [("", [])]:
            # Rows of other settings are of another experiment: they are never averaged with these.
            of = f" (settings {settings})" if len(found) > 1 else ""
            rows.append([_name(work, system) + of, *_measured(work, lines, seeds), _paper(work, system)])
    return markdown(header, rows)


def _name(work: Comparison, system: str) -> str:
    label = work.recipe.get("paper", {}).get(system, {}).get("label")
    return f"`{system}`: {label}" if label else f"`{system}`"


def _measured(work: Comparison, lines: list[Line], seeds: list[str]) -> list[str]:
    if not lines:
        return ["", NOT_MEASURED, "", "", "", ""]
    scores = [line.number(work.headline) for line in lines]
    changes = [line.number("difference") for line in lines if line["difference"]]
    tags = {line.where: f"{tag:.2f}" for line in lines if (tag := line.number_or_none("tag_accuracy")) is not None}
    return [
        ", ".join(dict.fromkeys(millions(line.number("parameters")) for line in lines)),
        by_seed(lines, seeds, {line.where: f"{line.number(work.headline):.2f}" for line in lines}),
        mean_and_sd(scores) if len(seeds) > 1 else "",
        mean_change(changes),
        by_seed(lines, seeds, {line.where: p_value(line) for line in lines}),
        by_seed(lines, seeds, tags),
    ]


def _paper(work: Comparison, system: str) -> str:
    """'28.13 (+0.67)': the paper's score, and its difference to that of the baseline."""
    scores = _paper_scores(work.recipe.get("paper", {}))
    if system not in scores:
        return ""
    digits = decimals(scores.values())
    score, baseline = scores[system], scores.get(work.baseline)
    change = f" ({score - baseline:+.{digits}f})" if system != work.baseline and baseline is not None else ""
    return f"{score:.{digits}f}{change}"


def _paper_scores(paper: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    return {system: float(said["score"]) for system, said in paper.items() if "score" in said}


def summary_table(root: Path) -> str:
    """One line a comparison that has rows: the baseline's mean, and the systems with the lowest and highest."""
    rows = []
    for path in sorted((root / "results").glob("*.csv")):
        work = load_comparison(root, path.stem)
        title = UNITS.get(work.headline, HEADLINES[work.headline])
        means = sorted((statistics.mean(values), system) for (system, _), values in work.scores().items())
        plain = ", ".join(f"{mean:.2f}" for mean, system in means if system == work.baseline)
        others = [f"{mean:.2f} `{system}`" for mean, system in means if system != work.baseline]
        seeds = ", ".join(seeds_of(work.lines))
        lowest, highest = (others[0], others[-1]) if others else ("", "")
        described = work.recipe.get("description", "")
        rows.append([f"`{path.stem}`: {described}", title, seeds, plain, lowest, highest if len(others) > 1 else ""])
    if not rows:
        raise TableError(f"{root / 'results'}: has no comparison")
    heading = ["comparison", "mean of", "seeds", "Transformer", "lowest", "highest"]
    return markdown(heading, rows)


def measured_comparisons(root: Path) -> list[str]:
    """The names of the comparisons that have rows."""
    return [path.stem for path in sorted((root / "results").glob("*.csv"))]
