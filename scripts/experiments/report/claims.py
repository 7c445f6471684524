"""The claims of the papers, each with what results/ has of it: results/claims/<paper>.yaml.

    claims:
      - claim: Mixed heads translate better than the plain Transformer.
        where: Tables 1 and 2
        compare: [table2 mma > transformer]
      - claim: The upper layers look further.
        where: §5.4
        why: no measure of it yet     # in the place of compare: nothing tests it

A comparison names a table of the paper and two rows of it; the first one must be better: in the row's metric, or in one
that stands behind, ``table5 man > transformer: w1_layer1``. With two metrics, ``fig2 mma > transformer: bleu_20_30 >
bleu_0_10``, it must be better by more in the first of them.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.measure.csv_files import Line
from experiments.measure.generated import ScoreError
from experiments.measure.metrics import FALLING
from experiments.recipes.nodes import RecipeError, compose
from experiments.recipes.tables import find_table
from experiments.report.papers import SCALES, Row, current_lines, rows_of
from experiments.report.text import greatest_p, groups, markdown, mean_change

COMPARISON = re.compile(r"(?P<table>\w+) (?P<better>\w+) > (?P<worse>\w+)(: (?P<metric>\w+)( > (?P<less>\w+))?)?")
SIGNIFICANT = 0.05
Lines = Mapping[tuple[str, ...], list[Line]]  # by row, scale and metric
HEADER = ("claim", "in the paper", "found", "mean difference")


@dataclass(frozen=True)
class Outcome:
    """What the seeds say of one comparison: differences by seed in favour of the claim, and p where it was computed."""

    name: str
    scale: str
    differences: list[float]
    tested: list[Line]

    @property
    def holds(self) -> bool:
        """Whether every seed agrees, significantly where that was tested."""
        significant = all(line.number("p_value") < SIGNIFICANT for line in self.tested)
        return all(difference > 0 for difference in self.differences) and significant

    def __str__(self) -> str:
        found = f"{self.name} {mean_change(self.differences)}"
        more = [] if self.scale == SCALES[0] else [f"{self.scale} scale"]
        more += [f"p ≤ {greatest_p(self.tested)}"] if self.tested else []
        return f"{found}, {', '.join(more)}" if more else found


def claims_table(root: Path, paper: str) -> str:
    """Return the claims of a paper as Markdown, with the numbers at the largest scale that has both rows.

    results/README.md says what the words of the column "found" mean. Raises ScoreError for a file that is no such list.
    """
    path = root / "results" / "claims" / f"{paper}.yaml"
    try:
        claims = getattr(compose(path).get("claims"), "value", None)
    except RecipeError as error:
        raise ScoreError(str(error)) from None
    if not isinstance(claims, list) or not claims:
        raise ScoreError(f"{path}: needs a list 'claims'")
    rows = []
    for number, claim in enumerate(claims, 1):
        where = f"{path}: claim {number}"
        if not isinstance(claim, dict) or not {"claim", "where"} < set(claim) <= {"claim", "where", "compare", "why"}:
            raise ScoreError(f"{where}: needs claim, where, and compare or why, and nothing else")
        texts = claim.get("compare", [])
        outcomes = [_outcome(root, paper, text, where) for text in texts]
        measured = [outcome for outcome in outcomes if outcome]
        numbers = "; ".join(map(str, measured)) or claim.get("why", "not measured yet")
        rows.append([claim["claim"], claim["where"], _verdict(measured, len(outcomes)), numbers])
    return markdown(HEADER, rows)


def _verdict(measured: list[Outcome], wanted: int) -> str:
    if not measured:
        return "not tested"
    if not all(statistics.mean(outcome.differences) > 0 for outcome in measured):
        return "no"
    if not all(outcome.holds for outcome in measured):
        return "unclear"
    if len(measured) < wanted:
        return "in part"
    return "yes" if all(len(outcome.tested) == len(outcome.differences) for outcome in measured) else "seeds agree"


def _outcome(root: Path, paper: str, text: str, where: str) -> Outcome | None:
    """Return the outcome of a comparison, None where its rows have no seed in common. Raises ScoreError."""
    found = COMPARISON.fullmatch(text)
    if found is None:
        raise ScoreError(f"{where}: {text!r} is not of the form 'TABLE ROW > ROW[: METRIC[ > METRIC]]'")
    try:
        table = find_table(paper, found["table"], root / "configs")
    except RecipeError as error:
        raise ScoreError(f"{where}: {error}") from None
    rows = {row.name: row for row in rows_of(table)}
    if missing := {found["better"], found["worse"]} - set(rows):
        raise ScoreError(f"{where}: {table.path} has no row {', '.join(sorted(missing))}")
    lines = groups(current_lines(root, table), "row", "scale", "metric")
    better, worse = rows[found["better"]], rows[found["worse"]]
    return _measured(lines, better, worse, metrics=(found["metric"], found["less"]))


def _measured(lines: Lines, better: Row, worse: Row, *, metrics: tuple[str | None, str | None]) -> Outcome | None:
    """Return by how much a row is better in the first metric (None: its own), with a second one by how much more."""
    asked, less = metrics
    for scale in reversed(SCALES):
        metric = asked or better.metric(scale)
        ours, theirs, *second = (
            {line["seed"]: line for line in lines.get((row.name, scale, of), [])}
            for of in ((metric, less) if less else (metric,))
            for row in (better, worse)
        )
        seeds = [seed for seed in ours if seed in theirs and all(seed in of_seed for of_seed in second)]
        if not seeds:
            continue
        name, differences = f"{better.name} − {worse.name}" + (f", {asked}" if asked else ""), []
        for seed in seeds:
            differences.append(_difference(ours[seed], theirs[seed], better, worse))
            differences[-1] *= -1 if metric in FALLING and not less else 1
            if less:
                differences[-1] -= _difference(second[0][seed], second[1][seed], better, worse)
        if less:
            return Outcome(f"{name} − {less}", scale, differences=differences, tested=[])
        of_test = ours if _against(better, worse) else theirs if _against(worse, better) else {}
        tested = [of_test[seed] for seed in seeds if seed in of_test and of_test[seed]["p_value"]]
        return Outcome(name, scale, differences=differences, tested=tested)
    return None


def _difference(ours: Line, theirs: Line, better: Row, worse: Row) -> float:
    """Return what the first line is above the second, from one of them where it says so: scores are rounded."""
    if _against(better, worse) and ours["difference"]:
        return ours.number("difference")
    if _against(worse, better) and theirs["difference"]:
        return -theirs.number("difference")
    return ours.number("score") - theirs.number("score")


def _against(better: Row, worse: Row) -> bool:
    """Return whether the significance in a row's lines is that of the difference to the other row."""
    return better.baseline is not None and better.baseline.name == worse.name
