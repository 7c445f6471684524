"""The papers' claims: verdicts by what has been measured, and files with slips."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.measure.generated import ScoreError
from experiments.report.claims import claims_table
from support.paths import ROOT
from support.tables.files import TWO_ROWS, csv_of, line, put, table_file

CLAIM = "claims: [{claim: Masks help., where: Table 1, %s}]"
COMPARE = "compare: [table1 man > transformer]"


def row_of(root: Path, text: str) -> list[str]:
    """Return the cells of the first claim's row."""
    put(root, "results/claims/man.yaml", CLAIM % text)
    return claims_table(root, "man").splitlines()[2].strip("| ").split(" | ")


def measure(root: Path, scores: dict[int, tuple[float, str]], metric: str = "sacrebleu") -> None:
    """Write the baseline with 35.0 and the other row with these scores and p-values by seed."""
    table_file(root)
    lines = [line("transformer", seed, metric, 35.0, scale="small") for seed in scores]
    lines += [
        line("man", seed, metric, score, difference=f"{score - 35:.2f}", p=p, scale="small")
        for seed, (score, p) in scores.items()
    ]
    csv_of(root, *lines)


@pytest.mark.parametrize(("scores", "verdict", "number"), [
    ({1: (36.0, "0.0010"), 2: (35.5, "0.0400")}, "yes", "+0.75, p ≤ 0.040"),
    ({1: (36.0, "0.0010"), 2: (34.9, "0.0010")}, "unclear", "+0.45 (+1.00, -0.10), p ≤ 0.001"),
    ({1: (34.0, "0.0010"), 2: (35.5, "0.0010")}, "no", "-0.25 (-1.00, +0.50), p ≤ 0.001"),
    ({}, "not tested", "not measured yet"),
])  # fmt: skip
def test_verdicts(tmp_path: Path, scores: dict[int, tuple[float, str]], verdict: str, number: str) -> None:
    measure(tmp_path, scores)
    beginning = "man − transformer " if scores else ""
    assert row_of(tmp_path, COMPARE) == ["Masks help.", "Table 1", verdict, beginning + number]


def test_the_difference_is_that_of_the_line(tmp_path: Path) -> None:
    """The scores are rounded, and the difference was not made of them."""
    table_file(tmp_path)
    plain = line("transformer", 1, "sacrebleu", 35.0, scale="small")
    csv_of(tmp_path, plain, line("man", 1, "sacrebleu", 36.0, difference="0.99", p="0.0100", scale="small"))
    assert row_of(tmp_path, COMPARE)[3] == "man − transformer +0.99, p ≤ 0.010"


def test_a_gain_may_be_larger_by_one_metric_than_by_another(tmp_path: Path) -> None:
    """By seed: longer sentences gain more with the first seed, as much less with the other."""
    table_file(tmp_path)
    plain, first, second = (30, 20), (31, 23), (31.5, 20.5)
    scores = {("transformer", 1): plain, ("transformer", 2): plain, ("man", 1): first, ("man", 2): second}
    metrics = ("bleu_0_10", "bleu_10_20")
    lines = [
        line(row, seed, metric, score, scale="small")
        for (row, seed), of in scores.items()
        for metric, score in zip(metrics, of, strict=True)
    ]
    csv_of(tmp_path, *lines)
    text = "compare: ['table1 man > transformer: bleu_10_20 > bleu_0_10']"
    numbers = "man − transformer, bleu_10_20 − bleu_0_10 +0.50 (+2.00, -1.00)"
    assert row_of(tmp_path, text)[2:] == ["unclear", numbers]


def test_a_claim_may_name_its_metric(tmp_path: Path) -> None:
    table_file(tmp_path)
    csv_of(tmp_path, *(line(row, 1, "w1", score, scale="small") for row, score in (("transformer", 23), ("man", 38))))
    found = row_of(tmp_path, "compare: ['table1 man > transformer: w1']")[2:]
    assert found == ["seeds agree", "man − transformer, w1 +15.00"]


def test_significance_is_that_of_the_row_against_its_baseline(tmp_path: Path) -> None:
    """Also where the claim is that the baseline is better; between two other rows the seeds alone decide."""
    measure(tmp_path, {1: (34.0, "0.0010")})
    assert row_of(tmp_path, "compare: [table1 transformer > man]")[2:] == [
        "yes",
        "transformer − man +1.00, p ≤ 0.001",
    ]
    table_file(tmp_path, TWO_ROWS.replace("baseline: transformer", "baseline: null"))
    assert row_of(tmp_path, "compare: [table1 transformer > man]")[2:] == [
        "seeds agree",
        "transformer − man +1.00",
    ]


def test_the_verdicts_are_explained() -> None:
    text = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
    words = ("yes", "seeds agree", "unclear", "no", "in part", "not tested")
    assert all(f"\n| {verdict} | " in text.partition("## Found")[2] for verdict in words)


def test_the_scale_is_named_but_for_the_small_one(tmp_path: Path) -> None:
    """A comparison is that of the largest scale with both rows."""
    table_file(tmp_path)
    scores = {("transformer", "small"): 35, ("man", "small"): 36, ("transformer", "full"): 34, ("man", "full"): 37}
    metric = {"small": "sacrebleu", "full": "tokenised_bleu"}
    csv_of(tmp_path, *(line(row, 1, metric[scale], of, scale=scale) for (row, scale), of in scores.items()))
    assert row_of(tmp_path, COMPARE)[3] == "man − transformer +3.00, full scale"


def test_a_claim_is_found_in_part_where_rows_are_missing(tmp_path: Path) -> None:
    measure(tmp_path, {1: (36.0, "0.0010")})
    table_file(tmp_path, name="man/table2")
    both = "compare: [table1 man > transformer, table2 man > transformer]"
    assert row_of(tmp_path, both)[2] == "in part"


@pytest.mark.parametrize(("text", "message"), [
    ("compare: [table1 man better]", "claim 1: 'table1 man better' is not of the form 'TABLE ROW > ROW[: METRIC[ >"),
    ("compare: [table1 men > transformer]", "table1.yaml has no row men"),
    ("reason: none", "claim 1: needs claim, where, and compare or why, and nothing else"),
])  # fmt: skip
def test_slips_are_errors_of_one_line(tmp_path: Path, text: str, message: str) -> None:
    measure(tmp_path, {1: (36.0, "0.0010")})
    with pytest.raises(ScoreError) as raised:
        row_of(tmp_path, text)
    assert message in str(raised.value) and "\n" not in str(raised.value)


def test_every_paper_has_its_claims() -> None:
    found = {path.stem for path in (ROOT / "results" / "claims").glob("*.yaml")}
    assert found == {"mma", "csan", "man", "diffwin", "mgsa"}
