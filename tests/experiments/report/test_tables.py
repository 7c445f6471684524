"""The tables of the READMEs: made from small CSVs, and compared with tables written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.engine import rows as papers_rows
from experiments.measure import measures
from experiments.recipes import recipe
from experiments.report import comparisons as tables_compare
from experiments.report import csv_lines as tables_csv
from experiments.report import pages as make_tables
from experiments.report import papers as tables_papers
from experiments.report import results as comparisons
from support.paths import ROOT
from support.table_files import BLEU, PLAIN, RECIPE, comparison, csv_of, line, put, rows, two_rows

# --- comparisons


def test_comparison_with_baseline_seeds_signs_and_a_row_to_come(tmp_path: Path) -> None:
    """The baseline first, then as in the recipe; seeds in order; signs; nothing is made up for what has no row."""
    comparison(tmp_path)
    assert make_tables.table(tmp_path, "own", "here") == (
        "| system | parameters | BLEU, seeds 1, 2 | mean ± sd | difference | p, seeds 1, 2"
        " | paper: Cui et al. 2019, IWSLT14 (difference) |\n"
        "|---|---|---|---|---|---|---|\n"
        f"| `{PLAIN}` | 1.91M | 35.00, 34.50 | 34.75 ± 0.35 | | | 34.40 |\n"
        "| `transformer_mma_small`: MMA \\| all | 2.45M | 34.80, 36.00 | 35.40 ± 0.85 | +0.65 | 0.251, <0.001"
        " | 35.41 (+1.01) |\n"
        "| `narrow`: w = 2 | | not measured | | | | |"
    )


def test_seed_that_is_missing_has_a_dash(tmp_path: Path) -> None:
    comparison(tmp_path, BLEU.rpartition("transformer_mma_small,")[0], RECIPE)
    text = make_tables.table(tmp_path, "own", "here")
    assert "| `transformer_mma_small` | 2.45M | —, 36.00 | 36.00 | +1.50 | —, <0.001 |" in text


def test_rows_of_other_settings_are_not_averaged(tmp_path: Path) -> None:
    comparison(tmp_path, BLEU + f"transformer_mma_small,{PLAIN},1,2450000,40.00,5.00,0.0010,bb\n", RECIPE)
    text = make_tables.table(tmp_path, "own", "here")
    assert "| `transformer_mma_small` (settings aa) | 2.45M | 34.80, 36.00 | 35.40 ± 0.85 | +0.65 |" in text
    assert "| `transformer_mma_small` (settings bb) | 2.45M | 40.00, — | 40.00 | +5.00 | 0.001, — |" in text


def test_perplexity_has_no_test_and_one_seed_no_mean(tmp_path: Path) -> None:
    text = f"system,baseline,seed,parameters,perplexity,difference,settings\n{PLAIN},{PLAIN},1,35303424,46.37,,a\n"
    comparison(tmp_path, text + f"narrow,{PLAIN},1,40031232,44.95,-1.42,a\n", RECIPE)
    assert make_tables.table(tmp_path, "own", "here") == (
        "| system | parameters | perplexity (lower is better), seed 1 | difference |\n|---|---|---|---|\n"
        f"| `{PLAIN}` | 35.3M | 46.37 | |\n"
        "| `transformer_mma_small` | | not measured | |\n"
        "| `narrow` | 40.0M | 44.95 | -1.42 |"
    )


def test_accuracy_of_tags_where_there_are_some(tmp_path: Path) -> None:
    tags = ("tag_accuracy", "67.6", "", "", "68.27")
    lines = [f"{line},{tag}" for line, tag in zip(BLEU.splitlines(), tags, strict=True)]
    comparison(tmp_path, "\n".join(lines) + "\n", RECIPE)
    header, _, plain, mma, _ = make_tables.table(tmp_path, "own", "here").split("\n")
    assert header.endswith("| p, seeds 1, 2 | tags right (%), seeds 1, 2 |")
    assert plain.endswith("| | | |") and mma.endswith("| 68.27, 67.60 |")


def test_summary_has_each_comparison_in_a_line(tmp_path: Path) -> None:
    comparison(tmp_path, BLEU + f"narrow,{PLAIN},1,2450000,33.30,-1.70,0.0010,bb\n")
    put(tmp_path, "configs/compare/planned.yaml", RECIPE)  # without results: not there
    assert make_tables.table(tmp_path, "summary", "here") == (
        "| comparison | mean of | seeds | Transformer | lowest | highest |\n|---|---|---|---|---|---|\n"
        "| `own`: Captions, two cores | BLEU | 1, 2 | 34.75 | 33.30 `narrow` | 35.40 `transformer_mma_small` |"
    )


def test_columns_are_those_that_are_written() -> None:
    """What the tables read is what compare.py and the rows' runner write."""
    for measure in measures.MEASURES.values():
        assert tables_compare.HEADLINES[measure.headline] == measure.title
        assert set(tables_compare.COLUMNS) <= set(comparisons.columns_of(measure))
    assert tables_compare.KEY == comparisons.KEY
    assert set(tables_papers.COLUMNS) <= set(papers_rows.COLUMNS) and tables_papers.KEY == papers_rows.KEY


# --- papers


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in text.split("\n")]


def test_rows_that_are_not_measured_have_the_papers_numbers(tmp_path: Path) -> None:
    two_rows(tmp_path)
    assert make_tables.table(tmp_path, "man/table1", "here") == (
        "| row | metric | paper | ours: mean ± sd | gain, paper |\n|---|---|---|---|---|\n"
        "| Transformer | BLEU, tokenised | 34.4 | not measured | |\n"
        "| DMAN | BLEU, tokenised | 36.3 | not measured | +1.9 |"
    )


def test_measured_rows(tmp_path: Path) -> None:
    """Mean, deviation and number of seeds; against the paper and the baseline; another metric below."""
    two_rows(tmp_path)
    csv_of(
        tmp_path,
        line("table1_man", 2, "tokenised_bleu", 36.10, "1.90", "0.0010"),
        line("table1_transformer", 1, "tokenised_bleu", 34.20),
        line("table1_man", 1, "tokenised_bleu", 36.50, "1.50", "0.0200"),
        line("table1_man", 1, "sacrebleu", 35.00, "1.25", "0.0400"),
    )
    run = "a735e07..b123456 | 8 x NVIDIA H100, bf16 |"
    assert make_tables.table(tmp_path, "man/table1", "here") == (
        "| row | metric | paper | ours: mean ± sd | ours - paper | gain, paper | gain, ours | p by seed | seeds"
        " | commit | hardware |\n|---|---|---|---|---|---|---|---|---|---|---|\n"
        f"| Transformer | BLEU, tokenised | 34.4 | 34.20 (n = 1) | -0.20 | | | | 1 | {run}\n"
        "| DMAN | BLEU, tokenised | 36.3 | 36.30 ± 0.28 (n = 2) | +0.00 | +1.9 | +1.70 | 0.020, 0.001 | 1, 2 |"
        f" {run}\n| | sacreBLEU | — | 35.00 (n = 1) | | | +1.25 | 0.040 | 1 | {run}"
    )


def test_several_metrics_and_what_a_run_has(tmp_path: Path) -> None:
    """ROUGE as the paper has it, the compared one first; parameters and speed from the columns of the run."""
    paper = (
        "{rouge1: 40.98, rouge2: 18.29, rougeL: 37.88, rouge_avg: 32.38, parameters: 37.0e+6, steps_per_second: 1.04}"
    )
    rows(tmp_path, table2_man=f"label: DMAN\nmetric: rouge_avg\npaper: {paper}")
    csv_of(
        tmp_path,
        line("table2_man", 1, "rouge1", 41.00),
        line("table2_man", 1, "rouge2", 18.00),
        line("table2_man", 1, "rouge_avg", 32.40),
        line("table2_man", 2, "rouge1", 41.10),
        table="table2",
    )
    found = [row[:5] for row in cells(make_tables.table(tmp_path, "man/table2", "here"))]
    assert found[2:] == [
        ["DMAN", "ROUGE, mean of the three", "32.38", "32.40 (n = 1)", "+0.02"],
        ["", "ROUGE-1", "40.98", "41.05 ± 0.07 (n = 2)", "+0.07"],
        ["", "ROUGE-2", "18.29", "18.00 (n = 1)", "-0.29"],
        ["", "ROUGE-L", "37.88", "not measured", ""],
        ["", "parameters", "37M", "36.8M", "-0.23M"],
        ["", "steps/s", "1.04", "2.50 ± 0.00 (n = 2)", "+1.46"],
    ]


def test_several_test_sets_and_their_mean(tmp_path: Path) -> None:
    numbers = "{MT03/multi_bleu: 43.98, MT04/multi_bleu: 45.60, average/multi_bleu: 44.79}"
    base = "{MT03/multi_bleu: 41.88, MT04/multi_bleu: 44.48, average/multi_bleu: 43.18}"
    rows(
        tmp_path,
        table4_zh="label: MG-SA\nmetric: multi_bleu\nbaseline: table4_base\npaper: " + numbers,
        table4_base="label: base\nmetric: multi_bleu\npaper: " + base,
    )
    csv_of(tmp_path, line("table4_zh", 1, "MT03/multi_bleu", 44, "2.00", "0.0010"), table="table4")
    found = [row[:8] for row in cells(make_tables.table(tmp_path, "man/table4", "here"))]
    assert found[-3:] == [
        ["MG-SA", "MT03: BLEU, several references", "43.98", "44.00 (n = 1)", "+0.02", "+2.10", "+2.00", "0.001"],
        ["", "MT04: BLEU, several references", "45.60", "not measured", "", "+1.12", "", ""],
        ["", "average: BLEU, several references", "44.79", "not measured", "", "+1.61", "", ""],
    ]


def test_rows_of_other_settings_stand_apart(tmp_path: Path) -> None:
    two_rows(tmp_path)
    measured = (
        line("table1_man", 1, "tokenised_bleu", score, settings=name) for score, name in ((36, "aa"), (30, "bb"))
    )
    csv_of(tmp_path, *measured)
    found = cells(make_tables.table(tmp_path, "man/table1", "here"))
    assert [row[0] for row in found[3:]] == ["DMAN (settings aa)", "DMAN (settings bb)"]
    assert [row[3] for row in found[3:]] == ["36.00 (n = 1)", "30.00 (n = 1)"]


def test_order_of_rows_and_tables(tmp_path: Path) -> None:
    """A baseline before what is tested against it, names by their numbers; figures after tables; every table there."""
    small = "label: {0}\nmetric: bleu_by_length\nbaseline: {1}"
    rows(tmp_path, fig2_zz="label: zz\nmetric: bleu_by_length\npaper: {bleu_10_20: 30, bleu_50: 20.5, bleu_0_10: null}")
    rows(tmp_path, **{f"fig2_w{n}": small.format(f"w{n}", "fig2_zz") for n in (11, 3)})
    rows(
        tmp_path, table10_x="label: x", table2_x="label: x", fig2_aa="label: aa", fig2_ab=small.format("ab", "fig2_aa")
    )
    text = make_tables.table(tmp_path, "man", "here")
    assert [part.partition("\n")[0] for part in text.split("### ")[1:]] == ["Table 2", "Table 10", "Figure 2"]
    found = cells(text.rpartition("\n\n")[2])[2:]
    assert [row[0] for row in found] == ["aa", "ab", "zz", "", "w3", "w11"]
    assert found[2][1:3] == ["BLEU, 11 to 20 words", "30"] and found[3][1:3] == ["BLEU, more than 50 words", "20.5"]


def test_every_metric_of_the_rows_has_a_name() -> None:
    """All numbers that the repository's recipes take from the papers are named as one reads them."""
    root = ROOT / "configs"
    found = {
        tables_papers.metric_name(metric)
        for paper in tables_papers.papers(ROOT)
        for path in (root / paper).glob("*_*.yaml")
        for metric in recipe.load_recipe(path).get("paper", {})
    }
    assert [name for name in sorted(found) if "_" in name] == []
    assert {"BLEU, tokenised", "average: BLEU, several references", "attention within 2, layer 3 (%)"} <= found


# --- measures on trained models


def test_probing(tmp_path: Path) -> None:
    lines = ("base,voice,1,65.74,50.00", "base,pos,1,73.93,12.28", "ngram,voice,1,63.89,50.00")
    put(tmp_path, "results/probing/own.csv", "\n".join(("name,task,seed,accuracy,majority", *lines)))
    put(tmp_path, "configs/compare/own.yaml", RECIPE)
    assert make_tables.table(tmp_path, "probing/own", "here") == (
        "| encoder | voice | POS |\n|---|---|---|\n| `base` | 65.74 | 73.93 |\n| `ngram` | 63.89 | |\n"
        "| most frequent class | 50.00 | 12.28 |"
    )


def test_locality(tmp_path: Path) -> None:
    """Within two positions in the encoder; seeds beside one another."""
    lines = [f"{name},encoder,{layer},{kind},{kind},2,{layer}0.16"
             for name in ("D.seed1", "D.seed2") for layer in (1, 2) for kind in ("san", "dman")]  # fmt: skip
    others = ["D.seed1,decoder,1,san,san,2,99.0", "D.seed1,encoder,1,san,san,4,99.0"]
    header = "checkpoint,stack,layer,sublayer,kind,window,share"
    put(tmp_path, "results/locality/own.csv", "\n".join((header, *others, *lines)))
    put(tmp_path, "configs/compare/own.yaml", RECIPE)
    assert make_tables.table(tmp_path, "locality/own", "here") == (
        "| checkpoint | sublayer | layer 1 | layer 2 |\n|---|---|---|---|\n"
        "| `D.seed1` | DMAN | 10.2 | 20.2 |\n| `D.seed2` | DMAN | 10.2 | 20.2 |\n"
        "| `D.seed1` | SAN | 10.2 | 20.2 |\n| `D.seed2` | SAN | 10.2 | 20.2 |"
    )


@pytest.mark.parametrize(("value", "text"), [(0.0004, "<0.001"), (0.0005, "0.001"), (0.04996, "0.050"), (1, "1.000")])
def test_p_values(value: float, text: str) -> None:
    assert tables_csv.p_value(tables_csv.Line("here", {"p_value": str(value)})) == text
