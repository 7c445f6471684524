"""Tables of the papers: the rows of configs/<paper>/<table>_<row>.yaml beside results/<paper>/<table>.csv.

A row that has not been measured is there all the same, with the paper's numbers. The CSV has one line a row, seed,
settings and metric; metrics of several test sets are called 'MT03/multi_bleu'.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from experiments.recipes.recipe import Recipe, load_recipe
from experiments.report.csv_lines import (
    NOT_MEASURED,
    NOTHING,
    Line,
    TableError,
    decimals,
    distinct,
    groups,
    markdown,
    mean_and_sd,
    mean_change,
    millions,
    natural,
    p_value,
    read_lines,
    seeds_of,
)

COLUMNS = (
    "row", "seed", "metric", "score", "difference", "p_value", "parameters", "steps_per_second", "gpus", "precision",
    "settings", "commit", "hardware",
)  # fmt: skip
KEY = ("row", "seed", "settings", "metric")
FAMILIES = ("bleu_by_length", "locality", "probing")  # a row's `metric` that stands for several
OF_THE_RUN = ("parameters", "steps_per_second")  # columns of every line; the papers report them like a metric
NOT_PAPERS = ("base", "compare", "quickstart")
NAMES = {
    "tokenised_bleu": "BLEU, tokenised",
    "compound_bleu": "BLEU, compounds split",
    "sacrebleu": "sacreBLEU",
    "multi_bleu": "BLEU, several references",
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
    "rouge_avg": "ROUGE, mean of the three",
    "accuracy": "accuracy (%)",
    "perplexity": "perplexity (lower is better)",
    "steps_per_second": "steps/s",
    "bleu_50": "BLEU, more than 50 words",
    "voice": "voice (%)",
    "tense": "tense (%)",
    "tss": "TSS (%)",
    "spc": "SPC (%)",
    "pos": "POS (%)",
    "probing_avg": "mean of the five (%)",
}
HEADER = (
    "row", "metric", "paper", "ours: mean ± sd", "ours - paper", "gain, paper", "gain, ours", "p by seed",
    "seeds", "commit", "hardware",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One row of a paper's table: its recipe, and that of the row that it is tested against, where there is one."""

    recipe: Recipe
    baseline: Recipe | None

    @property
    def name(self) -> str:
        return self.recipe.name

    @property
    def paper(self) -> dict[str, float]:
        return _paper(self.recipe)

    def gain(self, metric: str) -> float | None:
        """What the paper's row gains over its baseline; None where one of the two numbers is missing."""
        of_baseline = {} if self.baseline is None else _paper(self.baseline)
        if metric in self.paper and metric in of_baseline:
            return self.paper[metric] - of_baseline[metric]
        return None


def papers(root: Path) -> list[str]:
    """The papers that have rows."""
    folders = [path for path in sorted((root / "configs").iterdir()) if path.is_dir() and path.name not in NOT_PAPERS]
    return [path.name for path in folders if tables_of(root, path.name)]


def tables_of(root: Path, paper: str) -> list[str]:
    """The tables of a paper that have rows, 'table1' to 'fig2', tables before figures."""
    found = {path.name.partition("_")[0] for path in (root / "configs" / paper).glob("*_*.yaml")}
    return sorted(found, key=lambda table: (not table.startswith("table"), natural(table)))


def rows_of(root: Path, paper: str, table: str) -> list[Row]:
    """The rows of a table: each baseline, and after it the rows that are tested against it, by their names."""
    folder = root / "configs" / paper
    recipes = [load_recipe(path) for path in folder.glob(f"{table}_*.yaml")]
    rows = [Row(recipe, _baseline(folder, recipe)) for recipe in recipes]

    def order(row: Row) -> tuple[object, ...]:
        of = row.name if row.baseline is None else row.baseline.name
        return natural(of), row.baseline is not None, natural(row.name)

    return sorted(rows, key=order)


def _baseline(folder: Path, recipe: Recipe) -> Recipe | None:
    name = recipe.get("baseline")
    if name is None:
        return None
    path = folder / f"{name}.yaml"
    if not path.is_file():
        raise TableError(f"{recipe.path}: baseline: there is no {path}")
    return load_recipe(path)


def _paper(recipe: Recipe) -> dict[str, float]:
    said = {metric: value for metric, value in recipe.get("paper", {}).items() if value is not None}
    for metric, value in said.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TableError(f"{recipe.path}: paper: {metric} must be a number, not {value!r}")
    return {metric: float(value) for metric, value in said.items()}


def load_lines(root: Path, paper: str, table: str, rows: list[Row]) -> list[Line]:
    """The lines of results/<paper>/<table>.csv; none where nothing has been measured. Raises TableError."""
    path = root / "results" / paper / f"{table}.csv"
    if not path.is_file():
        return []
    lines = read_lines(path, COLUMNS, KEY)
    known = {row.name for row in rows}
    for line in lines:
        if line["row"] not in known:
            raise TableError(f"{line.where}: configs/{paper} has no row {line['row']!r}")
    return lines


def table_of_paper(root: Path, paper: str, table: str) -> str:
    """The table: a line for each row, its settings, and each metric that the paper reports or that was measured."""
    rows = rows_of(root, paper, table)
    if not rows:
        raise TableError(f"{root / 'configs' / paper}: has no rows of {table}")
    found = groups(load_lines(root, paper, table, rows), "row", "settings")
    digits = _decimals(rows)
    cells: list[list[str]] = []
    for row in rows:
        own = {settings: lines for (name, settings), lines in found.items() if name == row.name}
        for settings, lines in own.items() or [("", [])]:
            # Lines of other settings are of another experiment: they are never averaged with these.
            of = f" (settings {settings})" if len(own) > 1 else ""
            label = row.recipe.get("label", row.name) + of
            for i, metric in enumerate(_metrics(row, lines)):
                cells.append(
                    ["" if i else label, *_cells(row, metric, _of_metric(lines, metric), digits.get(metric, 2))]
                )
    return markdown(HEADER, cells)


def all_tables(root: Path, paper: str) -> str:
    """All tables of a paper, each under its heading."""
    parts = []
    for table in tables_of(root, paper):
        parts.append(f"### {title(table)}\n\n{table_of_paper(root, paper, table)}")
    return "\n\n".join(parts)


def title(table: str) -> str:
    """'Table 1' of 'table1', 'Figure 2' of 'fig2'."""
    kind, number = re.fullmatch(r"([a-z]*)(.*)", table).groups()  # type: ignore[union-attr]
    return f"{'Figure' if kind == 'fig' else kind.capitalize()} {number}".strip()


def _metrics(row: Row, lines: list[Line]) -> list[str]:
    """The metric that is compared, the others of the paper, and what was measured besides."""
    compared = row.recipe.get("metric")
    of_tests = [name for name in row.paper if name.rpartition("/")[2] == compared]
    first = [] if of_tests or compared is None or compared in FAMILIES else [compared]
    return list(dict.fromkeys([*first, *of_tests, *row.paper, *distinct(lines, "metric")])) or [""]


def _of_metric(lines: list[Line], metric: str) -> list[tuple[Line, float]]:
    """The lines of a metric with their scores; for OF_THE_RUN a line a seed, where no line has that metric."""
    own = [(line, line.number("score")) for line in lines if line["metric"] == metric]
    if own or metric not in OF_THE_RUN:
        return own
    first = {line["seed"]: line for line in reversed(lines) if line[metric]}
    return [(line, line.number(metric)) for _, line in sorted(first.items(), key=lambda item: natural(item[0]))]


def _decimals(rows: list[Row]) -> dict[str, int]:
    """With how many decimals the paper reports each metric in this table."""
    values: dict[str, list[float]] = {}
    for row in rows:
        for metric, value in row.paper.items():
            values.setdefault(metric, []).append(value / 1e6 if metric == "parameters" else value)
    return {metric: decimals(of) for metric, of in values.items()}


def _cells(row: Row, metric: str, measured: list[tuple[Line, float]], digits: int) -> list[str]:
    """The cells after the label."""
    scores = [score for _, score in measured]
    lines = [line for line, _ in measured]
    paper, gain = row.paper.get(metric), row.gain(metric)
    if metric == "parameters":
        ours = ", ".join(dict.fromkeys(millions(score, max(digits, 1)) for score in scores))
        reported, gained = (None if n is None else n / 1e6 for n in (paper, gain))
        unit, scores = "M", [score / 1e6 for score in scores]
    else:
        ours = f"{mean_and_sd(scores)} (n = {len(scores)})" if scores else ""
        reported, gained, unit = paper, gain, ""
    changes = [line.number("difference") for line in lines if line["difference"] and metric not in OF_THE_RUN]
    return [
        metric_name(metric),
        NOTHING if reported is None else f"{reported:.{digits}f}{unit}",
        ours or NOT_MEASURED,
        mean_change([score - reported for score in scores]) + unit if scores and reported is not None else "",
        "" if gained is None else f"{gained:+.{digits}f}{unit}",
        mean_change(changes),
        ", ".join(filter(None, (p_value(line) for line in lines if metric not in OF_THE_RUN))),
        ", ".join(seeds_of(lines)),
        ", ".join(dict.fromkeys(_short(commit) for commit in distinct(lines, "commit"))),
        "; ".join(dict.fromkeys(_hardware(line) for line in lines)),
    ]


def metric_name(metric: str) -> str:
    """As one reads it: 'MT03: BLEU, several references', 'BLEU, 11 to 20 words', 'attention within 2, layer 3 (%)'."""
    if near := re.fullmatch(r"w(\d+)_layer(\d+)", metric):
        return f"attention within {near[1]}, layer {near[2]} (%)"
    test, _, name = metric.rpartition("/")
    lengths = re.fullmatch(r"bleu_(\d+)_(\d+)", name)
    said = f"BLEU, {int(lengths[1]) + 1} to {lengths[2]} words" if lengths else NAMES.get(name, name)
    return f"{test}: {said}" if test else said


def _hardware(line: Line) -> str:
    """'8 x NVIDIA H100, bf16'."""
    gpus = f"{line['gpus']} x " if line["gpus"] not in ("", "0", "1") else ""
    return ", ".join(filter(None, (gpus + line["hardware"], line["precision"])))


def _short(commit: str) -> str:
    """Commits by their first seven digits; what else is said of them ('+dirty', 'a..b') stays."""
    return re.sub(r"\b([0-9a-f]{7})[0-9a-f]+", r"\1", commit)
