"""The claims of the papers, results/claims/<paper>.yaml, each with what results/ has of it: a table, and a CSV of all.

    claims:
      - claim: Mixed heads translate better than the plain Transformer.
        where: Tables 1 and 2
        compare: [table2 mma > transformer]
      - claim: The upper layers look further.
        where: §5.4
        why: no measure of it yet     # in the place of compare: nothing tests it

A comparison names a table of the paper and two rows of it; the first one must be better: in the row's metric, or in the
one after the colon, ``table5 man > transformer: w1_layer1``. With two metrics, ``fig2 mma > transformer: bleu_20_30 >
bleu_0_10``, it must be better by more in the first of them.
"""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass
from pathlib import Path

from experiments.measure.csv_files import Line, csv_text
from experiments.measure.generated import ScoreError
from experiments.measure.metrics import FALLING
from experiments.recipes.nodes import RecipeError, compose
from experiments.recipes.tables import find_table
from experiments.report.papers import SCALES, Entry, newest_entries
from experiments.report.text import SIGNIFICANT, markdown

COMPARISON = re.compile(r"(?P<table>\w+) (?P<better>\w+) > (?P<worse>\w+)(?:: (?P<metrics>(\w+)(?: > (\w+))?))?")
HEADER = ("claim", "in the paper", "[found](README.md#found)", "least difference")
COLUMNS = ("table", "better", "worse", "metric", "scale", "by_seed", "mean", "p_value")  # of claims.csv, for an outcome


@dataclass(frozen=True)
class Outcome:
    """What the seeds say of one comparison: differences by seed in favour of the claim, and p where it was computed."""

    names: tuple[str, ...]  # the first COLUMNS
    scale: str
    differences: list[float]
    p_values: list[float]

    @property
    def mean(self) -> float:
        return statistics.mean(self.differences)

    @property
    def holds(self) -> bool:
        """Whether every seed agrees, significantly where that was tested."""
        return min(self.differences) > 0 and all(p < SIGNIFICANT for p in self.p_values)

    def cells(self) -> list[str]:
        """Return the cells of COLUMNS, empty ones for what has not been measured."""
        mean = f"{self.mean:.2f}" if self.differences else ""
        p = f"{max(self.p_values):.4f}" if self.p_values else ""
        return [*self.names, self.scale, " ".join(f"{each:.2f}" for each in self.differences), mean, p]


@dataclass(frozen=True)
class Claim:
    """A claim, its place in the paper, why nothing tests it, and the outcomes of its comparisons."""

    text: str
    where: str
    why: str
    outcomes: list[Outcome]

    @property
    def measured(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.differences]

    @property
    def found(self) -> str:
        """The verdict; results/README.md says what the words mean."""
        if not self.measured:
            return "not tested"
        if not all(outcome.mean > 0 for outcome in self.measured):
            return "no"
        if not all(outcome.holds for outcome in self.measured):
            return "unclear"
        if len(self.measured) < len(self.outcomes):
            return "in part"
        tested = all(len(outcome.p_values) == len(outcome.differences) for outcome in self.measured)
        return "yes" if tested else "seeds agree"


def claims_table(root: Path, paper: str) -> str:
    """Return the claims of a paper as Markdown, with the least of the mean differences. Raises ScoreError."""
    rows = []
    for claim in read_claims(root, paper):
        least = f"{min(outcome.mean for outcome in claim.measured):+.2f}" if claim.measured else claim.why
        rows.append([claim.text, claim.where.partition(", ")[0], claim.found, least])
    return markdown(HEADER, rows)


def claims_csv(root: Path) -> str:
    """Return all comparisons of all claims. Raises ScoreError."""
    rows = [
        [path.stem, claim.text, claim.where, claim.found, *outcome.cells()]
        for path in sorted((root / "results" / "claims").glob("*.yaml"))
        for claim in read_claims(root, path.stem)
        for outcome in claim.outcomes
    ]
    return csv_text(("paper", "claim", "where", "found", *COLUMNS), rows)


def read_claims(root: Path, paper: str) -> list[Claim]:
    """Return the claims of a paper, with the numbers at the largest scale that has both rows of a comparison.

    Raises ScoreError for a file that is no list of claims.
    """
    path = root / "results" / "claims" / f"{paper}.yaml"
    try:
        found = getattr(compose(path).get("claims"), "value", None)
    except RecipeError as error:
        raise ScoreError(str(error)) from None
    if not isinstance(found, list) or not found:
        raise ScoreError(f"{path}: needs a list 'claims'")
    claims = []
    for number, claim in enumerate(found, 1):
        where = f"{path}: claim {number}"
        if not isinstance(claim, dict) or not {"claim", "where"} < set(claim) <= {"claim", "where", "compare", "why"}:
            raise ScoreError(f"{where}: needs claim, where, and compare or why, and nothing else")
        outcomes = [_outcome(root, paper, text, where) for text in claim.get("compare", [])]
        claims.append(Claim(claim["claim"], claim["where"], claim.get("why", ""), outcomes))
    return claims


def _outcome(root: Path, paper: str, text: str, where: str) -> Outcome:
    """Return the outcome of a comparison; without differences where its rows have no seed in common. ScoreError."""
    found = COMPARISON.fullmatch(text)
    if found is None:
        raise ScoreError(f"{where}: {text!r} is not of the form 'TABLE ROW > ROW[: METRIC[ > METRIC]]'")
    try:
        table = find_table(paper, found["table"], root / "configs")
    except RecipeError as error:
        raise ScoreError(f"{where}: {error}") from None
    names = (found["table"], found["better"], found["worse"], found["metrics"] or "")
    if missing := {*names[1:3]} - set(table.sources):
        raise ScoreError(f"{where}: {table.path} has no row {', '.join(sorted(missing))}")
    entries = {entry.row.name: entry for entry in newest_entries(root, table)}
    better, worse = (entries[name] for name in names[1:3])
    metric, _, less = names[-1].partition(" > ")
    for scale in reversed(SCALES):
        of = metric or better.row.metric(scale)
        differences = _differences(better, worse, measured=(scale, of))
        if less:  # by how much more the row is better in the first metric
            others = _differences(better, worse, measured=(scale, less))
            by_seed = [differences[seed][0] - others[seed][0] for seed in differences if seed in others]
            p_values = []
        else:
            by_seed = [-difference if of in FALLING else difference for difference, _ in differences.values()]
            p_values = [line.number("p_value") for _, line in differences.values() if line and line["p_value"]]
        if by_seed:
            return Outcome(names, scale, by_seed, p_values)
    return Outcome(names, "", [], [])


def _differences(better: Entry, worse: Entry, *, measured: tuple[str, str]) -> dict[str, tuple[float, Line | None]]:
    """Return by seed what the first row is above the second, and the line of the one that is tested against the other.

    The difference is that of this line, where it says one: scores are rounded.
    """
    theirs = {line["seed"]: line for line in worse.at(*measured)}
    found = {}
    for line in better.at(*measured):
        if other := theirs.get(line["seed"]):
            sign, tested = (1, line) if _against(better, worse) else (-1, other if _against(worse, better) else None)
            difference = line.number("score") - other.number("score")
            if tested and tested["difference"]:
                difference = sign * tested.number("difference")
            found[line["seed"]] = (difference, tested)
    return found


def _against(one: Entry, other: Entry) -> bool:
    """Return whether a row's lines have the significance of its difference to the other row."""
    return one.row.baseline is not None and one.row.baseline.name == other.row.name
