"""Tables of the papers: the rows of configs/<paper>/<table>.yaml beside results/<paper>/<table>.csv.

A row that has not been measured is there all the same, with the paper's number, and so is one whose training stands
in a row above: no score is shown twice. A table has the metric that is compared. The CSV has all metrics, a line each
for a scale, row, seed and settings; those of several test sets are called 'MT03/multi_bleu'.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.measure.bleu import FEWEST, group_size
from experiments.measure.csv_files import Line, read_lines
from experiments.measure.generated import ScoreError
from experiments.measure.metrics import FAMILIES, metric_name
from experiments.recipes.catalogue import FOLDER, Figure, figures_of
from experiments.recipes.recipe import Recipe
from experiments.recipes.tables import PAPERS, Table, find_table, load_table, tables_of
from experiments.recipes.tables import SCALES as ALL_SCALES
from experiments.report.results import KEY, NEEDED
from experiments.report.text import (
    NOT_MEASURED,
    NOT_TRAINED,
    NOTHING,
    decimals,
    greatest_p,
    groups,
    markdown,
    mean_and_sd,
    mean_change,
    natural,
    scores_of_seeds,
    seeds_of,
)

SCALES = ALL_SCALES[1:]  # those with results
SAME_AS_BASELINE = ("scale", "metric", "seed", "updates", "batch_tokens")  # columns in which a line has to be like it
# The rows of the table in README.md, at small scale: PAPER/TABLE/ROW, with the paper's idea and the model.
SUMMARY = {
    "mma/table2/mma": ("heads that see all, nearby, earlier or later words", "transformer_mma"),
    "csan/table1/1d": ("a window around each word, also over neighbouring heads", "transformer_csan_1d"),
    "man/table1/iwslt14_man_full": ("a learned mask over distances, before the self-attention", "transformer_man"),
    "diffwin/table1/en_de_enc_dec": ("windows whose two ends are learned pointers", "transformer_diffwin"),
    "mgsa/table3/ngram": ("heads that attend to phrases, of n-grams or a tree", "transformer_mgsa"),
}


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


@dataclass(frozen=True)
class Entry:
    """A line of a table: a row, and its lines at each scale, of one training a seed."""

    row: Row
    label: str
    lines: dict[str, list[Line]]

    def at(self, scale: str) -> list[Line]:
        """Return the lines of the metric that is compared at a scale."""
        metric = self.row.metric(scale)
        return [line for line in self.lines[scale] if line["metric"] == metric]


def table_of_paper(root: Path, paper: str, name: str) -> str:
    """Return a table as Markdown: for each row the paper's number and what was measured at each scale."""
    table = find_table(paper, name, root / "configs")
    rows = rows_of(table)
    if any(row.metric("full") in FAMILIES for row in rows):
        return _family_table(rows, current_lines(root, table))
    entries = _entries(rows, load_lines(root, table))
    digits = _decimals(row.paper for row in rows)
    metrics = {metric_name(row.metric("full")) for row in rows}
    columns = [("row", [entry.label for entry in entries])]
    if len(metrics) > 1:
        columns += [("metric", [metric_name(entry.row.metric("full")) for entry in entries])]
    numbers = [_of_paper(entry.row, digits) for entry in entries]
    if any(map(any, numbers)):
        head = f"paper: {metrics.pop()}" if len(metrics) == 1 else "paper"
        columns += [(head, [number or NOTHING for number, _ in numbers])]
        columns += [("gain, paper", [gain for _, gain in numbers])]
    scales = [scale for scale in SCALES if any(entry.at(scale) for entry in entries)]
    for scale in scales:
        columns += _columns(entries, scale, nothing=NOT_TRAINED if scale == scales[0] else NOTHING)
    if not scales:
        columns += [("measured", [_nothing(entry, NOT_TRAINED) for entry in entries])]
    return markdown([head for head, _ in columns], list(zip(*(cells for _, cells in columns), strict=True)))


def entries_of(root: Path, table: Table) -> list[Entry]:
    """Return the lines of a table, without scores of trainings that an earlier row has. Raises ScoreError."""
    return _entries(rows_of(table), load_lines(root, table))


def _entries(rows: Sequence[Row], lines: Sequence[Line]) -> list[Entry]:
    """Return the lines of a table, without scores of trainings that an earlier row has.

    A row has several where a scale has lines of several settings, which are never averaged.
    """
    found = groups(lines, "row", "scale", "settings")
    entries, seen = [], set[tuple[str, ...]]()
    for row in rows:
        own = {
            scale: [of for (name, at, _), of in found.items() if (name, at) == (row.name, scale)] for scale in SCALES
        }
        together = [
            {scale: of[i] if i < len(of) else [] for scale, of in own.items()}
            for i in range(max(1, *map(len, own.values())))
        ]
        for i, by_scale in enumerate(together):
            label = row.label + (f" ({_settings(by_scale, together[0])})" if i else "")
            new = {scale: [line for line in of if _measured(line) not in seen] for scale, of in by_scale.items()}
            entries.append(Entry(row, label, new))
        seen |= {_measured(line) for by_scale in together for of in by_scale.values() for line in of}
    return entries


def _measured(line: Line) -> tuple[str, ...]:
    """Return what tells a score from those of other trainings and test sets."""
    return tuple(line[name] for name in ("scale", "architecture", "settings", "seed", "metric", "score"))


def _settings(lines: dict[str, list[Line]], first: dict[str, list[Line]]) -> str:
    """Return what tells lines from the first ones: the architecture where it is another one, else the settings."""

    def all_of(column: str, some: dict[str, list[Line]]) -> list[str]:
        return list(dict.fromkeys(line[column] for of in some.values() for line in of))

    names = all_of("architecture", lines)
    if set(names).isdisjoint(all_of("architecture", first)):
        return ", ".join(f"`{name}`" for name in names)
    return f"settings {', '.join(all_of('settings', lines))}"


def _columns(entries: Sequence[Entry], scale: str, nothing: str) -> list[tuple[str, list[str]]]:
    """Return header and cells of the columns of a scale: the data where they differ, the score, the gain and p."""
    data = {_data(entry.row, scale) for entry in entries if entry.at(scale)} - {""}
    metrics = {metric_name(entry.row.metric(scale)) for entry in entries if entry.at(scale)}
    head = f"{scale} scale" + (f", {next(iter(data))}" if len(data) == 1 else "")
    if len(metrics) == 1:
        head += f": {next(iter(metrics))}"
    of_entries = [entry.at(scale) for entry in entries]
    seeds, scores = scores_of_seeds([[line.number("score") for line in lines] for lines in of_entries])
    several, cells, gains = [], [], []
    for entry, lines, score in zip(entries, of_entries, scores, strict=True):
        named = f" {metric_name(entry.row.metric(scale))}" if score and len(metrics) > 1 else ""
        cells.append(f"{score}{named}" if score else _nothing(entry, nothing))
        several.append(_data(entry.row, scale) if score and len(data) > 1 else "")
        gains.append(mean_change([line.number("difference") for line in lines if line["difference"]]))
    tests = list(map(greatest_p, of_entries))
    columns = {"data": several, f"{head} ({seeds})": cells, "gain": gains, "p ≤": tests}
    return [(name if name.startswith(scale) else f"{name}, {scale}", of) for name, of in columns.items()]


def _data(row: Row, scale: str) -> str:
    """Return what a row is trained on at a scale, as its recipe says it."""
    return row.at(scale).description.partition(", ")[0]


def _nothing(entry: Entry, nothing: str) -> str:
    """Return what stands in the place of a score: a baseline without a model is not measured."""
    if any(entry.lines.values()):
        return NOTHING
    return NOT_MEASURED if nothing == NOT_TRAINED and not entry.row.at("").architecture else nothing


def _family_table(rows: Sequence[Row], lines: Sequence[Line]) -> str:
    """Return a table of rows with several metrics each, such as probing tasks: those that are fewer as columns."""
    scales = [scale for scale in SCALES if any(line["scale"] == scale for line in lines)]
    found = groups(lines, "row", "scale", "metric")
    measured = [line["metric"] for line in lines if _shown(line)]
    named = [metric for row in rows for metric in row.paper]
    metrics = list(dict.fromkeys([*named, *sorted(measured, key=natural)]))
    digits = _decimals(row.paper for row in rows)
    parts = []
    for scale in scales or [""]:
        cells = {
            (row.name, metric): _score(found.get((row.name, scale, metric), []))
            + (f" ({row.paper[metric]:.{digits[metric]}f})" if metric in row.paper else "")
            for row in rows
            for metric in metrics
        }
        legend = f"{scale} scale, {_data(rows[0], scale)} (the paper)" if scale else f"{NOT_TRAINED} (the paper)"
        labels, names = [row.label for row in rows], [metric_name(metric) for metric in metrics]
        if len(metrics) > len(rows):
            body = [[name, *(cells[row.name, of] for row in rows)] for name, of in zip(names, metrics, strict=True)]
            parts.append(markdown([legend, *labels], body))
        else:
            body = [[row.label, *(cells[row.name, metric] for metric in metrics)] for row in rows]
            parts.append(markdown([legend, *names], body))
    return "\n\n".join(parts)


def _score(lines: Sequence[Line]) -> str:
    shown = [line.number("score") for line in lines if _shown(line)]
    return f"{statistics.mean(shown):.2f}" if shown else NOTHING


def _shown(line: Line) -> bool:
    """Return whether a line's score is of enough sentences, where it says of how many."""
    size = group_size(line["signature"])
    return size is None or size >= FEWEST


def _decimals(numbers: Iterable[Mapping[str, float]]) -> dict[str, int]:
    """Return with how many decimals the paper reports each metric in this table."""
    values: dict[str, list[float]] = {}
    for of_row in numbers:
        for metric, value in of_row.items():
            values.setdefault(metric, []).append(value)
    return {metric: decimals(of) for metric, of in values.items()}


def _of_paper(row: Row, digits: Mapping[str, int]) -> tuple[str, str]:
    """Return the paper's number and gain with its decimals; empty texts where it has none."""
    metric = row.metric("full")
    number, gain = row.paper.get(metric), row.gain(metric)
    places = digits.get(metric, 2)
    return ("" if number is None else f"{number:.{places}f}"), ("" if gain is None else f"{gain:+.{places}f}")


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
        title = f"Figure {figure.name.removeprefix('fig')}, {scale} scale"
        found.append(f"![{title}]({FOLDER}/{path.name})\n\n*{scale.capitalize()} scale. {figure.caption}*{numbers}")
    return found


def all_tables(root: Path, paper: str) -> str:
    """Return all tables and figures of a paper, each under its heading; a figure that is drawn stands for its table."""
    parts = []
    for name in tables_of(paper, root / "configs"):
        about = load_table(root / "configs" / paper / f"{name}.yaml").title.partition(": ")[2]
        heading = title(name) + (f": {about.rstrip('.')}" if about else "")
        drawn = [text for figure in figures_of(paper) if figure.name == name for text in pictures(root, figure)]
        parts.append("\n\n".join([f"### {heading}", *(drawn or [table_of_paper(root, paper, name)])]))
    for figure in figures_of(paper):
        if figure.rows and (drawn := pictures(root, figure)):
            parts.append("\n\n".join([f"### {title(figure.name)}: {figure.about}", *drawn]))
    return "\n\n".join(parts)


def summary_table(root: Path) -> str:
    """Return the rows of SUMMARY that have been measured: idea, model, the paper's gain and ours."""
    cells = []
    for key, (idea, model) in SUMMARY.items():
        paper, name, row_name = key.split("/")
        path = root / "configs" / paper / f"{name}.yaml"
        if not path.is_file():
            continue
        table = load_table(path)
        row, found = _row(table, row_name), groups(current_lines(root, table), "row", "scale")
        lines = Entry(row, "", {"small": found.get((row_name, "small"), [])}).at("small")
        if not lines:
            continue
        gain = row.gain(row.metric("full"))
        cells.append(
            [
                f"[{PAPERS.get(paper, paper)}](docs/papers/{paper}.md)",
                idea,
                f"`{model}`",
                "" if gain is None else f"{gain:+.{min(decimals(row.paper.values()), 2)}f}",
                mean_change([line.number("difference") for line in lines if line["difference"]]),
                mean_and_sd([line.number("score") for line in lines]),
                str(len(seeds_of(lines))),
                f"[{paper}](results/{paper}.md)",
            ]
        )
    if not cells:
        raise ScoreError(f"{root / 'results'}: nothing of the summary has been measured")
    heading = ["paper", "idea", "architecture", "gain, paper", "gain, here", "BLEU, here", "seeds", "results"]
    return markdown(heading, cells)
