"""Tables of the papers: the rows of configs/<paper>/<table>.yaml beside results/<paper>/<table>.csv.

A row that has not been measured is there all the same, with the paper's numbers. The CSV has one line a scale, row,
seed, settings and metric; metrics of several test sets are called 'MT03/multi_bleu'.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.measure.bleu import FEWEST, group_size
from experiments.measure.csv_files import Line, read_lines
from experiments.measure.generated import ScoreError
from experiments.measure.metrics import FAMILIES, OF_TRAINING, metric_name
from experiments.recipes.catalogue import FOLDER, Figure, figures_of
from experiments.recipes.recipe import Recipe
from experiments.recipes.tables import PAPERS, Table, find_table, load_table, tables_of
from experiments.recipes.tables import SCALES as ALL_SCALES
from experiments.report.results import KEY, NEEDED
from experiments.report.text import (
    NOT_MEASURED,
    NOTHING,
    decimals,
    groups,
    markdown,
    mean_and_sd,
    mean_change,
    millions,
    natural,
    p_value,
    seeds_of,
)

SCALES = ALL_SCALES[1:]  # those with results
SAME_AS_BASELINE = ("scale", "metric", "seed", "updates", "batch_tokens")  # columns in which a line has to be like it
HEADER = (
    "row",
    "metric",
    "paper",
    "gain, paper",
    *(c for s in SCALES for c in (f"{s} scale", f"gain, {s}", f"p, {s}")),
)
FIRST = 3  # cell of the first scale, after metric, paper and gain
# The rows of the table in README.md: PAPER/TABLE/ROW, at small scale, or with @SCALE.
SUMMARY = (
    "mma/table2/mma", "csan/table1/1d", "csan/table1/2d", "man/table1/iwslt14_man", "man/table1/iwslt14_man_full",
    "diffwin/table1/en_de_enc_dec", "diffwin/table1/en_de_all", "diffwin/table5/sst_aw", "diffwin/table6/aw",
    "mgsa/table3/ngram", "mgsa/table3/onlstm",
    *(f"comparisons/mechanisms/{row}@sample" for row in ("mma", "csan_2d", "man", "diffwin", "mgsa_ngram")),
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One row of a table: its recipe at each scale that it has, and the row that it is tested against."""

    name: str
    recipes: dict[str, Recipe]
    baseline: Row | None

    def at(self, scale: str) -> Recipe:
        """Return the recipe at a scale; that of the row's first scale where it lacks this one."""
        return self.recipes.get(scale) or next(iter(self.recipes.values()))

    @property
    def label(self) -> str:
        return self.at("").label

    @property
    def paper(self) -> Mapping[str, float]:
        return self.at("full").paper

    def metric(self, scale: str) -> str:
        """Return the metric that is compared at a scale."""
        return self.at(scale).metric

    def gain(self, metric: str) -> float | None:
        """Return what the paper's row gains over its baseline; None where one of the two numbers is missing."""
        of_baseline = {} if self.baseline is None else self.baseline.paper
        if metric in self.paper and metric in of_baseline:
            return self.paper[metric] - of_baseline[metric]
        return None


def rows_of(table: Table) -> list[Row]:
    """Return the rows of a table, in its order."""
    return [_row(table, name) for name in table.sources]


def _row(table: Table, name: str) -> Row:
    scales = [scale for scale in SCALES if scale in table.sources[name].scales()]
    found = table.baseline(name)
    recipes = {scale: table.recipe(name, scale) for scale in scales}
    return Row(name, recipes, None if found is None else _row(*found))


def load_lines(root: Path, table: Table) -> list[Line]:
    """Return the lines of results/<paper>/<table>.csv; none where nothing has been measured. Raises ScoreError.

    A line without ``difference`` has that of the scores, where its baseline is a row of the same table with this seed,
    as many updates and batches of the same size.
    """
    path = root / "results" / table.paper / f"{table.name}.csv"
    if not path.is_file():
        return []
    lines = read_lines(path, NEEDED, KEY)
    for line in lines:
        if line["row"] not in table.sources:
            raise ScoreError(f"{line.where}: {table.path} has no row {line['row']!r}")
        if line["scale"] not in SCALES:
            raise ScoreError(f"{line.where}: there is no scale {line['scale']!r}")
    scored = groups(lines, "row", *SAME_AS_BASELINE)
    return [_with_difference(line, scored) for line in lines]


def current_lines(root: Path, table: Table) -> list[Line]:
    """Return :func:`load_lines`; of a row and scale with lines of several settings the newest, as none are averaged."""
    lines = load_lines(root, table)
    newest = {(line["row"], line["scale"]): line["settings"] for line in sorted(lines, key=lambda line: line["date"])}
    return [line for line in lines if line["settings"] == newest[line["row"], line["scale"]]]


def _with_difference(line: Line, scored: dict[tuple[str, ...], list[Line]]) -> Line:
    others = scored.get((line["baseline"], *(line[column] for column in SAME_AS_BASELINE)), [])
    if line["difference"] or len(others) != 1:
        return line
    return Line(line.where, {**line.values, "difference": f"{line.number('score') - others[0].number('score'):.2f}"})


def table_of_paper(root: Path, paper: str, name: str) -> str:
    """Return a table as Markdown: for each row and metric the paper's number and what was measured at each scale."""
    table = find_table(paper, name, root / "configs")
    rows = rows_of(table)
    found = groups(load_lines(root, table), "row", "scale", "settings")
    digits = _decimals([*(row.paper for row in rows), *table.quoted.values()])
    digits[""] = max((digits.get(row.metric("full"), 0) for row in rows), default=2)
    metrics = {scale: {row.metric(scale) for row in rows if scale in row.recipes} for scale in SCALES}
    cells: list[list[str]] = []
    for row in rows:
        together = _by_settings(found, row)
        for i, lines in enumerate(together):
            label = row.label + (f" ({_settings(lines, together[0])})" if i else "")
            for j, metric in enumerate(_metrics(row, lines)):
                values = _cells(row, metric, lines, digits.get(metric, 2))
                for scale in SCALES if not metric else ():
                    _name_other(row, scale, values, in_header=_one_metric(metrics[scale]))
                cells.append(["", *values] if j else [label, *_fill_empty(row, lines, values)])
    for label, numbers in table.quoted.items():
        for j, (metric, number) in enumerate(numbers.items()):
            said = ["" if j or not metrics[scale] else "quoted" for scale in SCALES]
            shown = [metric_name(metric), _of_paper(metric, number, digits[metric]), ""]
            cells.append(["" if j else label, *shown, *(cell for each in said for cell in (each, "", ""))])
    header = list(HEADER)
    for scale, named in metrics.items():
        if _one_metric(named):
            header[header.index(f"{scale} scale")] = f"{scale} scale: {metric_name(next(iter(named)))}"
    return markdown(header, cells)


def _one_metric(named: set[str]) -> bool:
    """Return whether the metrics that a table's rows compare at a scale are one, which its header names."""
    return len(named) == 1 and not named & set(FAMILIES)


def _name_other(row: Row, scale: str, cells: list[str], in_header: bool) -> None:
    """Put the metric beside a number that is neither of the full scale's metric nor of one that the header names."""
    at, metric = FIRST + SCALES.index(scale) * 3, row.metric(scale)
    if cells[at] and not in_header and metric != row.metric("full"):
        cells[at] += f" ({metric_name(metric)})"


def _by_settings(found: dict[tuple[str, ...], list[Line]], row: Row) -> list[dict[str, list[Line]]]:
    """Return scale → lines; more than once where a scale has lines of several settings, which are never averaged."""
    own = {
        scale: [lines for (name, of, _), lines in found.items() if (name, of) == (row.name, scale)] for scale in SCALES
    }
    count = max(1, *map(len, own.values()))
    return [{scale: lines[i] if i < len(lines) else [] for scale, lines in own.items()} for i in range(count)]


def _settings(lines: dict[str, list[Line]], first: dict[str, list[Line]]) -> str:
    """Return what tells lines from the first ones: the architecture where it is another one, else the settings."""

    def all_of(column: str, some: dict[str, list[Line]]) -> list[str]:
        return list(dict.fromkeys(line[column] for of in some.values() for line in of))

    names = all_of("architecture", lines)
    if set(names).isdisjoint(all_of("architecture", first)):
        return ", ".join(f"`{name}`" for name in names)
    return f"settings {', '.join(all_of('settings', lines))}"


def _metrics(row: Row, lines: dict[str, list[Line]]) -> list[str]:
    """Return '' for the metrics that are compared, then the paper's others, those beside, and those of a family."""
    if row.metric("full") in FAMILIES:
        measured = [line["metric"] for of in lines.values() for line in of if _shown(line)]
        return list(dict.fromkeys([*row.paper, *sorted(measured, key=natural)])) or [""]
    further = [line["metric"] for of in lines.values() for line in of if line["metric"] == "tag_accuracy"]
    return list(
        dict.fromkeys(["", *(n for n in (*row.paper, *row.at("full").beside) if n != row.metric("full")), *further])
    )


def _shown(line: Line) -> bool:
    """Return whether a line's score is of enough sentences, where it says of how many."""
    size = group_size(line["signature"])
    return size is None or size >= FEWEST


def _decimals(numbers: Iterable[Mapping[str, float]]) -> dict[str, int]:
    """Return with how many decimals the paper reports each metric in this table."""
    values: dict[str, list[float]] = {}
    for of_row in numbers:
        for metric, value in of_row.items():
            values.setdefault(metric, []).append(value / 1e6 if metric == "parameters" else value)
    return {metric: decimals(of) for metric, of in values.items()}


def _of_paper(metric: str, number: float, digits: int) -> str:
    """Return a number of a paper with its decimals; parameters in millions."""
    return f"{number / 1e6:.{digits}f}M" if metric == "parameters" else f"{number:.{digits}f}"


def _cells(row: Row, metric: str, lines: dict[str, list[Line]], digits: int) -> list[str]:
    """Return the cells after the label; ``metric`` is '' for the metric that is compared at each scale."""
    of = {scale: metric or row.metric(scale) for scale in SCALES}
    measured = {scale: _of_metric(lines[scale], of[scale]) for scale in SCALES}
    of_paper = row.at("full").beside.get(of["full"], of["full"])
    paper, gain = row.paper.get(of_paper), row.gain(of_paper)
    found: list[str] = []
    for scale in SCALES:
        scores = [score for _, score in measured[scale]]
        if metric == "parameters":
            ours = ", ".join(dict.fromkeys(millions(score) for score in scores))
        else:
            ours = f"{mean_and_sd(scores)} (n = {len(scores)})" if scores else ""
        own = [line for line, _ in measured[scale]] if metric not in OF_TRAINING else []
        changes = [line.number("difference") for line in own if line["difference"]]
        found += [ours, mean_change(changes), ", ".join(filter(None, map(p_value, own)))]
    return [
        metric_name(of["full"]),
        NOTHING if paper is None else _of_paper(metric, paper, digits),
        "" if gain is None else f"{'' if gain < 0 else '+'}{_of_paper(metric, gain, digits)}",
        *found,
    ]


def _fill_empty(row: Row, lines: dict[str, list[Line]], cells: list[str]) -> list[str]:
    """Return a row's first cells with words at the scales that have no number: 'not measured' where none has one."""
    found, nothing = list(cells), NOTHING if any(lines.values()) else NOT_MEASURED
    for scale in row.recipes:
        at = FIRST + SCALES.index(scale) * 3
        found[at], nothing = found[at] or nothing, NOTHING
    return found


def _of_metric(lines: list[Line], metric: str) -> list[tuple[Line, float]]:
    """Return the lines of a metric with their scores; for OF_TRAINING a line a seed, where no line has that metric."""
    own = [(line, line.number("score")) for line in lines if line["metric"] == metric]
    if own or metric not in OF_TRAINING:
        return own
    first = {line["seed"]: line for line in reversed(lines) if line[metric]}
    return [(line, line.number(metric)) for _, line in sorted(first.items(), key=lambda item: natural(item[0]))]


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
        numbers = f" [Numbers]({FOLDER}/{path.stem}.csv)." if path.with_suffix(".csv").is_file() else ""
        title = f"Figure {figure.name.removeprefix('fig')}, {scale} scale"
        found.append(f"![{title}]({FOLDER}/{path.name})\n\n*{scale.capitalize()} scale. {figure.caption}*{numbers}")
    return found


def all_tables(root: Path, paper: str) -> str:
    """Return all tables and figures of a paper, each under its heading, with the pictures that have been drawn."""
    parts = []
    for name in tables_of(paper, root / "configs"):
        about = load_table(root / "configs" / paper / f"{name}.yaml").title.partition(": ")[2]
        heading = title(name) + (f": {about.rstrip('.')}" if about else "")
        drawn = [text for figure in figures_of(paper) if figure.name == name for text in pictures(root, figure)]
        parts.append("\n\n".join([f"### {heading}", table_of_paper(root, paper, name), *drawn]))
    for figure in figures_of(paper):
        if figure.rows and (drawn := pictures(root, figure)):
            parts.append("\n\n".join([f"### {title(figure.name)}: {figure.about}", *drawn]))
    return "\n\n".join(parts)


def summary_table(root: Path) -> str:
    """Return the rows of SUMMARY that have been measured: baseline and system at one scale, and the paper's gain."""
    cells = []
    for key in SUMMARY:
        named, _, scale = key.partition("@")
        (paper, name, row_name), scale = named.split("/"), scale or "small"
        path = root / "configs" / paper / f"{name}.yaml"
        if not path.is_file():
            continue
        table = load_table(path)
        row = _row(table, row_name)
        found = groups(current_lines(root, table), "row", "scale")
        measured = _of_metric(found.get((row_name, scale), []), row.metric(scale))
        if not measured:
            continue
        lines = [line for line, _ in measured]
        baseline = row.baseline.name if row.baseline else ""
        of_baseline = _of_metric(found.get((baseline, scale), []), lines[0]["metric"])
        plain = [score for line, score in of_baseline if line["seed"] in seeds_of(lines)]
        gain, digits = row.gain(row.metric("full")), decimals(row.paper.values())
        cells.append(
            [
                f"[{PAPERS.get(paper, paper)}](results/{paper}.md): {row.label.rpartition(': ')[2]}",
                row.recipes[scale].description.partition(",")[0],
                metric_name(row.metric(scale)),
                f"{statistics.mean(plain):.2f}" if plain else "",
                mean_and_sd([score for _, score in measured]),
                mean_change([line.number("difference") for line in lines if line["difference"]]),
                ", ".join(filter(None, map(p_value, lines))),
                ", ".join(seeds_of(lines)),
                "" if gain is None else f"{gain:+.{min(digits, 2)}f}",
            ]
        )
    if not cells:
        raise ScoreError(f"{root / 'results'}: nothing of the summary has been measured")
    heading = ["system", "data", "metric", "Transformer", "system's", "gain", "p by seed", "seeds", "paper's gain"]
    return markdown(heading, cells)
