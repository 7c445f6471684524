"""Pictures of scores: by the length of the source, by a setting, by the order of n-grams."""

from __future__ import annotations

import re
import statistics
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.engine.ledger import Ledger
from experiments.measure.bleu import FEWEST, LENGTHS, ORDERS, group_size, length_groups
from experiments.measure.csv_files import Line
from experiments.measure.generated import ScoreError
from experiments.recipes.recipe import Recipe
from fairseq_localattn.analysis.command import new_figure

SETTING = re.compile(r"(?P<panel>1d_window|2d_heads)_(?P<x>\d+)")  # rows of Figure 2 of Yang et al. 2019
PANELS = {"1d_window": ("(a) 1D-CSANs", "Window size"), "2d_heads": ("(b) 2D-CSANs, window 11", "Number of heads")}
HALF_BAR = 0.4  # of all bars of an order together


@dataclass(frozen=True)
class System:
    """A row of the figure's table: its recipe, its label, and the lines of its results."""

    name: str
    recipe: Recipe
    lines: Sequence[Line]

    @property
    def label(self) -> str:
        """The row's label without the sign of an addition."""
        return self.recipe.label.removeprefix("+ ")

    def values(self, metric: str, column: str = "score") -> list[float]:
        """Return the numbers of a metric, one a seed; none where it was not measured."""
        return [float(line[column]) for line in self.lines if line["metric"] == metric and line[column]]


def systems_of(ledger: Ledger) -> list[System]:
    """Return the rows of a plan that have been measured, in order. Raises ScoreError where there are none."""
    found = []
    for row in ledger.plan.rows:
        runs = sorted((run for run in ledger.plan.runs if row.key in run.rows), key=lambda run: run.seed)
        if lines := [line for run in runs for line in ledger.lines(row, run)]:
            found.append(System(row.name, row.stated, lines))
    if not found:
        raise ScoreError(f"{ledger.results(ledger.plan.rows[0]).path}: has no line of these rows at the scale")
    return found


def note(systems: Sequence[System]) -> str:
    """Return what a picture says of its numbers: data, sets, seeds and commits."""
    recipe = systems[0].recipe
    lines = [line for system in systems for line in system.lines]
    seeds, commits = (list(dict.fromkeys(line[name] for line in lines)) for name in ("seed", "commit"))
    sets = "/".join(dict.fromkeys(recipe.corpus.tests.values()))
    said = f"{'seeds' if len(seeds) > 1 else 'seed'} {', '.join(sorted(seeds, key=int))}"
    return f"{recipe.description}; {sets} set; {said}; commit {', '.join(commits)}"


def by_length(figure: Any, systems: Sequence[System]) -> None:
    """Draw BLEU by the length of the source, as Figure 2 of Cui et al. 2019."""
    groups = length_groups(LENGTHS).items()
    names = {name: f"> {above}" if to is None else f"({above}, {to}]" for name, (above, to) in groups}
    lines = [line for system in systems for line in system.lines if line["metric"] in names]
    sizes = {line["metric"]: group_size(line["signature"]) or 0 for line in lines}
    there = [name for name in names if sizes.get(name, 0) >= FEWEST]
    axes = figure.subplots()
    for system in systems:
        _line(axes, {x: found for x, name in enumerate(there) if (found := system.values(name))}, system.label)
    axes.set_xticks(range(len(there)), [f"{names[name]}\n{sizes[name]} sentences" for name in there])
    axes.set(xlabel="Source length, words", ylabel=_bleu(systems[0], there[0] if there else ""))
    axes.legend()


def by_setting(figure: Any, systems: Sequence[System]) -> None:
    """Draw BLEU by window and by number of heads, as Figure 2 of Yang et al. 2019, and the plain Transformer's."""
    metric = systems[0].recipe.metric
    plain = [value for system in systems if SETTING.fullmatch(system.name) is None for value in system.values(metric)]
    found: dict[str, dict[int, list[float]]] = {panel: {} for panel in PANELS}
    for system in systems:
        if match := SETTING.fullmatch(system.name):
            found[match["panel"]][int(match["x"])] = system.values(metric)
    grid = figure.subplots(1, len(PANELS), sharey=True)
    for axes, (panel, (title, xlabel)) in zip(grid, PANELS.items(), strict=True):
        _line(axes, found[panel], title.partition(" ")[2].partition(",")[0])
        if plain:
            axes.axhline(statistics.mean(plain), color="grey", linestyle="--", label="Transformer")
        axes.set_xticks(sorted(found[panel]))
        axes.set(title=title, xlabel=xlabel)
    grid[0].set_ylabel(_bleu(systems[0], metric))
    grid[0].legend()


def by_ngram(figure: Any, systems: Sequence[System]) -> None:
    """Draw the gap to the baseline by order of the n-grams, as Figure 3 of Yang et al. and 2 of Hao et al. 2019."""
    tested = [system for system in systems if any(system.values(f"bleu_ngram_{n}", "difference") for n in ORDERS)]
    if not tested:
        raise ScoreError("no row has a difference to its baseline yet: measure the baseline as well")
    axes, width = figure.subplots(), 2 * HALF_BAR / len(tested)
    for number, system in enumerate(tested):
        gaps = [system.values(f"bleu_ngram_{order}", "difference") for order in ORDERS]
        at = [order - HALF_BAR + (number + 0.5) * width for order in ORDERS]
        axes.bar(at, [statistics.mean(values) for values in gaps], 0.9 * width, label=system.label)
        _dots(axes, dict(zip(at, gaps, strict=True)), color="black")
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xticks(list(ORDERS))
    axes.set(xlabel="N-gram", ylabel="Gap of BLEU")
    axes.legend()


def _bleu(system: System, metric: str) -> str:
    """Return the label of an axis, with how BLEU was counted."""
    signatures = [line["signature"] for line in system.lines if line["metric"] == metric]
    tokeniser = re.search(r"tok:([^|]+)", "".join(signatures[:1]))
    return "BLEU" + (
        f" ({'tokenised' if tokeniser[1] == 'none' else f'sacreBLEU, {tokeniser[1]}'})" if tokeniser else ""
    )


def _line(axes: Any, values: Mapping[int, Sequence[float]], label: str) -> None:
    """Draw the mean over the seeds as a line and each seed as a dot."""
    xs = sorted(values)
    (line,) = axes.plot(xs, [statistics.mean(values[x]) for x in xs], marker="o", label=label)
    _dots(axes, values, color=line.get_color())
    axes.grid(alpha=0.3)


def _dots(axes: Any, values: Mapping[Any, Sequence[float]], color: str) -> None:
    """Draw each seed as a dot where there are several."""
    pairs = [(x, y) for x, ys in values.items() if len(ys) > 1 for y in ys]
    axes.scatter([x for x, _ in pairs], [y for _, y in pairs], s=10, color=color, alpha=0.6, zorder=3)


DRAWINGS: Mapping[str, Callable[[Any, Sequence[System]], None]] = {
    "mma/fig2": by_length,
    "csan/fig2": by_setting,
    "csan/fig3": by_ngram,
    "mgsa/fig2": by_ngram,
}


def draw(key: str, systems: Sequence[System]) -> Any:
    """Return the matplotlib ``Figure`` of a figure of scores, PAPER/NAME. Raises ScoreError."""
    figure = new_figure(figsize=(8.0, 4.4))
    DRAWINGS[key](figure, systems)
    figure.supxlabel(textwrap.fill(note(systems), 120), fontsize="x-small")
    return figure
