"""Tables of the papers: the rows of configs/<paper>/<table>.yaml beside results/<paper>/<table>.csv.

Rows without a score are named in one line below their table, and so are those whose training stands in a row above: no
score is shown twice. A table has the metric that is compared. The CSV has all metrics, a line each for a scale, row,
seed and settings; those of several test sets are called 'MT03/multi_bleu'.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path

from experiments.measure.bleu import FEWEST, group_size
from experiments.measure.csv_files import Line, read_lines
from experiments.measure.generated import ScoreError
from experiments.measure.metrics import FAMILIES, metric_name
from experiments.recipes.catalogue import FIGURES, FOLDER, Figure
from experiments.recipes.nodes import natural
from experiments.recipes.recipe import Recipe
from experiments.recipes.tables import PAPERS, Table, find_table, load_table, tables_of
from experiments.recipes.tables import SCALES as ALL_SCALES
from experiments.report.results import COLUMNS, KEY
from experiments.report.text import (
    NOTHING,
    decimals,
    groups,
    markdown,
    mean_gain,
    mean_score,
    score_of_seeds,
    scores_of_seeds,
)

SCALES = ALL_SCALES[1:]  # those with results
SAME_AS_BASELINE = ("scale", "metric", "seed", "updates", "batch_tokens")  # as in its baseline
# Every mechanism on the same data, with the same sizes and updates.
RANKING = "comparisons/mechanisms"
# The rows of the table in README.md, at small scale: PAPER/TABLE/ROW, with the paper's idea and the model.
SUMMARY = {
    "mma/table2/mma": ("heads that see all, nearby, earlier or later words", "transformer_mma"),
    "csan/table1/1d": ("a window around each word", "transformer_csan_1d"),
    "man/table1/iwslt14_man_full": ("a learned mask over distances, before the self-attention", "transformer_man"),
    "diffwin/table1/en_de_enc_dec": (
        "windows whose two ends are learned pointers",
        "transformer_diffwin --diffwin-cross none",
    ),
    "mgsa/table3/ngram": ("heads that attend to phrases, here n-grams", "transformer_mgsa_ngram"),
}


@dataclass(frozen=True)
class Row:
    """One row of a table, by its name."""

    table: Table
    name: str

    def at(self, scale: str) -> Recipe:
        """Return the recipe at a scale; that of the row's first scale where it lacks this one."""
        there = [each for each in SCALES if each in self.table.sources[self.name].scales()]
        return self.table.recipe(self.name, scale if scale in there else there[0])

    @property
    def paper(self) -> Mapping[str, float]:
        return self.at("full").paper

    @property
    def baseline(self) -> Row | None:
        """The row that it is tested against."""
        found = self.table.baseline(self.name)
        return None if found is None else Row(*found)

    def metric(self, scale: str) -> str:
        """Return the metric that is compared at a scale."""
        return self.at(scale).metric

    def data(self, scale: str) -> str:
        """Return what it is trained on at a scale, as its recipe says it."""
        return self.at(scale).description.partition(", ")[0]

    @property
    def number(self) -> float | None:
        """What the paper reports of the row, in the metric that it compares."""
        return self.paper.get(self.metric("full"))

    @property
    def gain(self) -> float | None:
        """What the paper's row gains over its baseline; None where one of the two numbers is missing."""
        of_baseline = None if self.baseline is None else self.baseline.paper.get(self.metric("full"))
        return None if self.number is None or of_baseline is None else self.number - of_baseline


def load_lines(root: Path, table: Table) -> list[Line]:
    """Return the lines of results/<paper>/<table>.csv; none where nothing has been measured. Raises ScoreError.

    A line without ``difference`` has that of the scores, where its baseline is a row of the same table with this seed,
    as many updates and batches of the same size.
    """
    path = root / "results" / table.paper / f"{table.name}.csv"
    if not path.is_file():
        return []
    lines = read_lines(path, COLUMNS, KEY)
    for line in lines:
        if line["row"] not in table.sources:
            raise ScoreError(f"{line.where}: {table.path} has no row {line['row']!r}")
        if line["scale"] not in SCALES:
            raise ScoreError(f"{line.where}: there is no scale {line['scale']!r}")
    scored = groups(lines, "row", *SAME_AS_BASELINE)
    return [_with_difference(line, scored) for line in lines]


def _with_difference(line: Line, scored: dict[tuple[str, ...], list[Line]]) -> Line:
    others = scored.get((line["baseline"], *(line[column] for column in SAME_AS_BASELINE)), [])
    if line["difference"] or len(others) != 1:
        return line
    return Line(line.where, {**line.values, "difference": f"{line.number('score') - others[0].number('score'):.2f}"})


@dataclass(frozen=True)
class Entry:
    """A line of a table: a row, and its results with one group of settings at each scale, ordered by seed."""

    row: Row
    label: str
    lines: Sequence[Line]

    @property
    def group(self) -> str:
        """What stands before the label's colon, such as the paper's data: 'En-De' of 'En-De: Transformer'."""
        return self.label.rpartition(": ")[0]

    def at(self, scale: str, metric: str = "") -> list[Line]:
        """Return the lines of a metric at a scale, by default of the one that is compared."""
        wanted = (scale, metric or self.row.metric(scale))
        return [line for line in self.lines if (line["scale"], line["metric"]) == wanted]

    def measured(self, scale: str) -> str:
        """Return the data and the metric at a scale; an empty text where there is no score."""
        parts = self.row.data(scale), metric_name(self.row.metric(scale))
        return ": ".join(filter(None, parts)) if self.at(scale) else ""


def table_of_paper(root: Path, paper: str, name: str) -> str:
    """Return a table as Markdown: for each row that was trained score and gain at each scale, and the paper's gain.

    The paper's score stands beside those of the full scale, as others are of other data. What differs between rows,
    their group or their data, has a line above them; what does not stands in the header.
    """
    table = find_table(paper, name, root / "configs")
    entries = entries_of(root, table)
    if any(entry.row.metric("full") in FAMILIES for entry in entries):
        return _family_table(root, table)
    trained = [entry for entry in entries if any(map(entry.at, SCALES))]
    scales = [scale for scale in SCALES if any(entry.at(scale) for entry in trained)]
    digits = decimals(entry.row.number for entry in entries if entry.row.number is not None)
    parts = [_markdown(_columns(trained, scales, digits))] if trained else []
    return "\n\n".join([*parts, *not_trained(table, entries, trained)])


@dataclass(frozen=True)
class Column:
    """A column: its header, a cell for each row, and each row's heading, shown above the row where it changes."""

    head: str
    cells: list[str]
    above: Sequence[str] = ()


def _columns(entries: Sequence[Entry], scales: Sequence[str], digits: int) -> list[Column]:
    group, differing = _same([entry.group for entry in entries])
    columns = [Column("row", [entry.label.removeprefix(f"{entry.group}: ") for entry in entries], differing)]
    if "full" in scales:
        columns += [Column("paper", [_text(entry.row.number, f".{digits}f") for entry in entries])]
    gains = [_text(entry.row.gain, f"+.{digits}f") for entry in entries]
    columns += [Column(f"gain, paper ({group})" if group else "gain, paper", gains)]
    for scale in scales:
        measured, differing = _same([entry.measured(scale) for entry in entries])
        lines = [entry.at(scale) for entry in entries]
        seeds, scores = scores_of_seeds(lines)
        name = f"{scale} scale, {measured}" if measured and len(scales) > 1 else measured or f"{scale} scale"
        columns += [Column(f"{name} ({seeds})", [score or NOTHING for score in scores], differing)]
        columns += [Column("gain" if len(scales) == 1 else f"gain, {scale}", list(map(mean_gain, lines)))]
    return columns


def _same(values: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the one value that is not empty, and (); where values differ, '' and all of them."""
    found = set(values) - {""}
    return ("", values) if len(found) > 1 else ("".join(found), ())


def _markdown(columns: Sequence[Column]) -> str:
    rows, last = [], [""] * len(columns)
    for i in range(len(columns[0].cells)):
        above = [column.above[i] if column.above else "" for column in columns]
        if above != last:
            rows.append([f"**{above[0]}**" if above[0] else "", *above[1:]])
        rows.append([column.cells[i] for column in columns])
        last = above
    return markdown([column.head for column in columns], rows)


def not_trained(table: Table, entries: Sequence[Entry], trained: Sequence[Entry]) -> list[str]:
    """Return the line that names the rows without a score, whole groups by their name; none where all have one."""
    shown = {entry.group for entry in trained} | {""}
    labels = [entry.label if entry.group in shown else entry.group for entry in entries if entry not in trained]
    rows = f"[rows](../configs/{table.paper}/{table.name}.yaml)"
    return [f"Not trained ({rows}): {'; '.join(dict.fromkeys(labels))}."] if labels else []


def entries_of(root: Path, table: Table) -> list[Entry]:
    """Return the lines of a table, without scores of trainings that an earlier row has.

    A row has several where a scale has lines of several settings, which are never averaged. Raises ScoreError.
    """
    found = groups(load_lines(root, table), "row", "scale", "settings")
    entries, seen = [], set[tuple[str, ...]]()
    for row in (Row(table, name) for name in table.sources):
        own = [[of for (name, at, _), of in found.items() if (name, at) == (row.name, scale)] for scale in SCALES]
        label, first, shown = row.at("").label, list[Line](), seen.copy()
        for of_scales in list(zip_longest(*own, fillvalue=[])) or [()]:
            lines = list(chain.from_iterable(of_scales))
            new = [line for line in lines if _measured(line) not in shown]
            entries.append(Entry(row, f"{label} ({_others(lines, first)})" if first else label, new))
            first = first or lines
            seen |= set(map(_measured, lines))
    return entries


def newest_entries(root: Path, table: Table) -> list[Entry]:
    """Return all rows of a table, each with the lines of its newest settings at a scale. Raises ScoreError."""
    lines = load_lines(root, table)
    newest = {(line["row"], line["scale"]): line["settings"] for line in sorted(lines, key=lambda line: line["date"])}
    current = [line for line in lines if line["settings"] == newest[line["row"], line["scale"]]]
    found = groups(current, "row")
    rows = [Row(table, name) for name in table.sources]
    return [Entry(row, row.at("").label, found.get((row.name,), ())) for row in rows]


def _measured(line: Line) -> tuple[str, ...]:
    """Return what tells a score from those of other trainings and test sets."""
    return tuple(line[name] for name in ("scale", "architecture", "settings", "seed", "metric", "score"))


def _others(lines: Sequence[Line], first: Sequence[Line]) -> str:
    """Return what tells lines from the first ones: the architecture where it is another one, else the settings."""
    known = {line["architecture"] for line in first}
    return ", ".join(
        dict.fromkeys(
            f"settings {line['settings']}" if line["architecture"] in known else f"`{line['architecture']}`"
            for line in lines
        )
    )


def _family_table(root: Path, table: Table) -> str:
    """Return a table of rows with several metrics each, such as probing tasks: those that are fewer as columns."""
    entries = [replace(entry, lines=list(filter(_is_shown, entry.lines))) for entry in newest_entries(root, table)]
    trained = [entry for entry in entries if entry.lines]
    named = [metric for entry in entries for metric in entry.row.paper]
    digits = decimals(value for entry in entries for value in entry.row.paper.values())
    parts = []
    for scale in SCALES:
        lines = [line for entry in trained for line in entry.lines if line["scale"] == scale]
        metrics = sorted({line["metric"] for line in lines}, key=natural)
        if set(metrics) <= set(named):
            metrics.sort(key=named.index)
        rows = [["", *map(metric_name, metrics)]]
        for entry in trained:
            numbers = [_text(entry.row.paper.get(metric), f".{digits}f") for metric in metrics]
            cells = [f"{mean_score(of):.2f}" if (of := entry.at(scale, metric)) else NOTHING for metric in metrics]
            rows.append([entry.label, *(f"{a} ({b})" if b else a for a, b in zip(cells, numbers, strict=True))])
        if len(metrics) > len(trained):
            rows = list(map(list, zip(*rows, strict=True)))
        legend = f"{scale} scale, {entries[0].row.data(scale)} (the paper)"
        parts += [markdown([legend, *rows[0][1:]], rows[1:])] if metrics else []
    return "\n\n".join([*parts, *not_trained(table, entries, trained)])


def _is_shown(line: Line) -> bool:
    """Return whether a line's score is of enough sentences, where it says of how many."""
    size = group_size(line["signature"])
    return size is None or size >= FEWEST


def _text(number: float | None, form: str) -> str:
    return "" if number is None else f"{number:{form}}"


def title(table: str) -> str:
    """Return 'Table 1' for 'table1', 'Figure 2' for 'fig2', 'Others' for 'others'."""
    kind = table.rstrip("0123456789")
    word = "Figure" if kind == "fig" else kind.replace("_", " ").capitalize()
    return f"{word} {table.removeprefix(kind)}".strip()


def pictures(root: Path, figure: Figure) -> list[str]:
    """Return a paragraph with picture and caption for each scale at which the figure has been drawn."""
    found = []
    for path in sorted((root / "results" / FOLDER).glob(f"{figure.paper}_{figure.name}_*.png")):
        scale = path.stem.rpartition("_")[2]
        files = f"{FOLDER}/{path.stem}.csv", f"{figure.paper}/{figure.name}.csv"  # of weights, of scores
        numbers = "".join(f" [Numbers]({name})." for name in files if (root / "results" / name).is_file())
        picture = f"![{title(figure.name)}, {scale} scale]({FOLDER}/{path.name})"
        found.append(f"{picture}\n\n*{scale.capitalize()} scale. {figure.caption}*{numbers}")
    return found


def all_tables(root: Path, paper: str) -> str:
    """Return all tables and figures of a paper, each under its heading; a figure that is drawn stands for its table."""
    parts, tables = [], tables_of(paper, root / "configs")
    figures = {figure.name: figure for figure in FIGURES if figure.paper == paper}
    for name in dict.fromkeys([*tables, *figures]):
        drawn = pictures(root, figures[name]) if name in figures else []
        if name in tables:
            about = load_table(root / "configs" / paper / f"{name}.yaml").title.partition(": ")[2]
            about = re.split(r"\.$|\. (?=[A-Z])", about)[0]
            drawn = drawn or [table_of_paper(root, paper, name)]
        else:
            about = figures[name].about
        if drawn:
            parts.append("\n\n".join([f"### {title(name)}" + (f": {about}" if about else ""), *drawn]))
    return "\n\n".join(parts)


def summary_table(root: Path) -> str:
    """Return the rows of SUMMARY that have been measured: idea, model, the paper's gain and ours."""
    cells = []
    for key, (idea, model) in SUMMARY.items():
        paper, name, row_name = key.split("/")
        path = root / "configs" / paper / f"{name}.yaml"
        if not path.is_file():
            continue
        entry = next(each for each in newest_entries(root, load_table(path)) if each.row.name == row_name)
        row, lines = entry.row, entry.at("small")
        if not lines:
            continue
        cells.append(
            [
                f"[{PAPERS.get(paper, paper)}](docs/papers/{paper}.md)",
                idea,
                f"`{model}`",
                _text(row.gain, f"+.{min(decimals(row.paper.values()), 2)}f"),
                mean_gain(lines),
                score_of_seeds(lines),
                str(len(lines)),
                f"[{paper}](results/{paper}.md)",
            ]
        )
    if not cells:
        raise ScoreError(f"{root / 'results'}: nothing of the summary has been measured")
    heading = ["paper", "idea", "architecture", "gain, paper", "gain, here", "BLEU, here", "seeds", "results"]
    return markdown(heading, cells)


def ranking_table(root: Path, scale: str = "small") -> str:
    """Return the rows of RANKING that were trained at a scale, the best first."""
    entries = newest_entries(root, load_table(root / "configs" / f"{RANKING}.yaml"))
    measured = {entry.label: lines for entry in entries if (lines := entry.at(scale))}
    ranked = sorted(measured, key=lambda label: -mean_score(measured[label]))
    seeds, cells = scores_of_seeds([measured[label] for label in ranked])
    rows = [[label, score, mean_gain(measured[label])] for label, score in zip(ranked, cells, strict=True)]
    return markdown(("mechanism", f"BLEU ({seeds})", "gain"), rows)
