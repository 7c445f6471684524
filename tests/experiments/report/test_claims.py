"""The papers' claims: verdicts by what has been measured, and files with slips."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from experiments.measure.generated import ScoreError
from experiments.report.claims import claims_csv, claims_table
from support.paths import ROOT
from support.tables.files import TWO_ROWS, csv_of, line, put, table_file

CLAIM = "claims: [{claim: Masks help., where: Table 1, %s}]"
COMPARE = "compare: [table1 man > transformer]"


def found(root: Path, text: str) -> str:
    """Return verdict, differences by seed, their mean and p of the first comparison in claims.csv."""
    put(root, "results/claims/man.yaml", CLAIM % text)
    line = next(csv.DictReader(claims_csv(root).splitlines()))
    assert f"| Masks help. | Table 1 | {line['found']} |" in claims_table(root, "man")
    return ", ".join(line[name] for name in ("found", "by_seed", "mean", "p_value") if line[name])


def measure(root: Path, scores: dict[int, tuple[float, str]], metric: str = "sacrebleu") -> None:
    """Write the baseline with 35.0 and the other row with these scores and p-values by seed."""
    table_file(root)
    lines = [line("transformer", seed, metric, 35.0, scale="small") for seed in scores]
    for seed, (score, p) in scores.items():
        lines += [line("man", seed, metric, score, difference=f"{score - 35:.2f}", p=p, scale="small")]
    csv_of(root, *lines)


@pytest.mark.parametrize(("compared", "scores", "said"), [
    ("man > transformer", {1: (36.0, "0.0010"), 2: (35.5, "0.0400")}, "yes, 1.00 0.50, 0.75, 0.0400"),
    ("man > transformer", {1: (36.0, "0.0010"), 2: (34.9, "0.0010")}, "unclear, 1.00 -0.10, 0.45, 0.0010"),
    ("man > transformer", {1: (36.0, "0.0010"), 2: (35.5, "0.0600")}, "unclear, 1.00 0.50, 0.75, 0.0600"),
    ("man > transformer", {1: (34.0, "0.0010"), 2: (35.5, "0.0010")}, "no, -1.00 0.50, -0.25, 0.0010"),
    ("man > transformer", {}, "not tested"),
    ("transformer > man", {1: (34.0, "0.0010")}, "yes, 1.00, 1.00, 0.0010"),
    ("man > transformer: perplexity", {1: (32.0, "0.0010")}, "yes, 3.00, 3.00, 0.0010"),
])  # fmt: skip
def test_verdicts(tmp_path: Path, compared: str, scores: dict[int, tuple[float, str]], said: str) -> None:
    """Significance is that of the row against its baseline, also where the baseline is to be better."""
    measure(tmp_path, scores, compared.partition(": ")[2] or "sacrebleu")
    assert found(tmp_path, f"compare: ['table1 {compared}']") == said


def test_the_page_has_the_least_difference(tmp_path: Path) -> None:
    """The least difference of the measured comparisons, or why there is none; the CSV has the paper's sections."""
    measure(tmp_path, {1: (36.0, "0.0010")})
    table_file(tmp_path, name="man/table2")
    part = "table1 man > transformer, table2 man > transformer"
    both = f"[table1 transformer > man, {part}]"
    head = "| claim | in the paper | [found](README.md#found) | least difference |\n|---|---|---|---|\n"
    claims = [f"{{claim: a, where: 'Table 1, §3', compare: {both}}}", "{claim: b, where: §4, why: no measure}"]
    claims += [f"{{claim: c, where: §5, compare: [{part}]}}"]
    put(tmp_path, "results/claims/man.yaml", f"claims: [{', '.join(claims)}]")
    lines = ["| a | Table 1 | no | -1.00 |", "| b | §4 | not tested | no measure |", "| c | §5 | in part | +1.00 |"]
    assert claims_table(tmp_path, "man") == head + "\n".join(lines)
    assert claims_csv(tmp_path).splitlines()[:4] == [
        "paper,claim,where,found,table,better,worse,metric,scale,by_seed,mean,p_value",
        'man,a,"Table 1, §3",no,table1,transformer,man,,small,-1.00,-1.00,0.0010',
        'man,a,"Table 1, §3",no,table1,man,transformer,,small,1.00,1.00,0.0010',
        'man,a,"Table 1, §3",no,table2,man,transformer,,,,,',
    ]


def test_the_difference_is_that_of_the_line(tmp_path: Path) -> None:
    """The scores are rounded, and the difference was not made of them."""
    table_file(tmp_path)
    plain = line("transformer", 1, "sacrebleu", 35.0, scale="small")
    csv_of(tmp_path, plain, line("man", 1, "sacrebleu", 36.0, difference="0.99", p="0.0100", scale="small"))
    assert found(tmp_path, COMPARE) == "yes, 0.99, 0.99, 0.0100"


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
    more = "compare: ['table1 man > transformer: bleu_10_20 > bleu_0_10']"
    assert found(tmp_path, more) == "unclear, 2.00 -1.00, 0.50"
    assert found(tmp_path, "compare: ['table1 man > transformer: bleu_10_20']") == "seeds agree, 3.00 0.50, 1.75"


def test_between_two_rows_without_a_baseline_the_seeds_decide(tmp_path: Path) -> None:
    measure(tmp_path, {1: (34.0, "0.0010")})
    table_file(tmp_path, TWO_ROWS.replace("baseline: transformer", "baseline: null"))
    assert found(tmp_path, "compare: [table1 transformer > man]") == "seeds agree, 1.00, 1.00"


def test_the_verdicts_are_explained() -> None:
    text = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
    words = ("yes", "seeds agree", "unclear", "no", "in part", "not tested")
    assert all(f"\n| {verdict} | " in text.partition("## Found")[2] for verdict in words)


def test_a_comparison_is_that_of_the_largest_scale_with_both_rows(tmp_path: Path) -> None:
    """And that of the newest settings."""
    table_file(tmp_path)
    scores = {("transformer", "small"): 35, ("man", "small"): 36, ("transformer", "full"): 34, ("man", "full"): 37}
    metric = {"small": "sacrebleu", "full": "tokenised_bleu"}
    new = (line(row, 1, metric[scale], of, scale=scale, date="2026") for (row, scale), of in scores.items())
    csv_of(tmp_path, *new, line("man", 1, "tokenised_bleu", 99, settings="bb", date="2025"))
    assert found(tmp_path, COMPARE) == "seeds agree, 3.00, 3.00"


@pytest.mark.parametrize(("text", "message"), [
    ("compare: [table1 man better]", "claim 1: 'table1 man better' is not of the form 'TABLE ROW > ROW[: METRIC[ >"),
    ("compare: [table1 men > transformer]", "table1.yaml has no row men"),
    ("reason: none", "claim 1: needs claim, where, and compare or why, and nothing else"),
])  # fmt: skip
def test_slips_are_errors_of_one_line(tmp_path: Path, text: str, message: str) -> None:
    measure(tmp_path, {1: (36.0, "0.0010")})
    with pytest.raises(ScoreError) as raised:
        found(tmp_path, text)
    assert message in str(raised.value) and "\n" not in str(raised.value)
