"""The tables of the pages: made from small CSVs, and compared with tables written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.modules import ATTENTIONS, FAIRSEQ
from benchmarks.systems import DEFAULT_SYSTEMS, SYSTEMS
from experiments.measure.csv_files import Line
from experiments.measure.metrics import metric_name
from experiments.recipes.tables import find_table, tables_of
from experiments.recipes.tables import papers as all_papers
from experiments.report import pages, papers, speed
from experiments.report.text import p_value
from support.tables.files import HEAD, TWO_ROWS, csv_of, line, put, table_file


def table(root: Path, name: str) -> str:
    return pages.table(root, name, "here")


def cells(text: str) -> list[list[str]]:
    """Return the cells of a Markdown table's rows, without its header."""
    return [[cell.strip() for cell in row.replace("\\|", "/").strip("|").split("|")] for row in text.split("\n")[2:]]


# --- papers


def test_rows_that_are_not_measured_have_the_papers_numbers(tmp_path: Path) -> None:
    """'not measured' is said once a row."""
    table_file(tmp_path)
    assert table(tmp_path, "man/table1") == (
        "| row | metric | paper | gain, paper | small scale: sacreBLEU | full scale: BLEU, tokenised |\n"
        "|---|---|---|---|---|---|\n"
        "| Transformer | BLEU, tokenised | 34.4 | | not measured | — |\n"
        "| DMAN \\| SAN | BLEU, tokenised | 36.3 | +1.9 | not measured | — |"
    )


def test_both_scales_stand_side_by_side(tmp_path: Path) -> None:
    """Mean, deviation and number of seeds, the gain over the baseline and p by seed; of each scale its own metric."""
    table_file(tmp_path)
    csv_of(
        tmp_path,
        line("man", 2, "tokenised_bleu", 36.10, difference="1.90", p="0.0010"),
        line("transformer", 1, "tokenised_bleu", 34.20),
        line("man", 1, "tokenised_bleu", 36.50, difference="1.50", p="0.0200"),
        line("man", 1, "sacrebleu", 35.00, difference="1.25", p="0.0400"),
        line("man", 1, "sacrebleu", 37.00, difference="-0.25", p="0.2507", scale="small"),
        line("man", 1, "tokenised_bleu", 99, difference="9", p="0.5", scale="small"),
    )
    assert table(tmp_path, "man/table1") == (
        "| row | metric | paper | gain, paper | small scale: sacreBLEU | gain, small | p, small"
        " | full scale: BLEU, tokenised | gain, full | p, full |\n|---|---|---|---|---|---|---|---|---|---|\n"
        "| Transformer | BLEU, tokenised | 34.4 | | — | | | 34.20 (n = 1) | | |\n"
        "| DMAN \\| SAN | BLEU, tokenised | 36.3 | +1.9 | 37.00 (n = 1) | -0.25 | 0.251"
        " | 36.30 ± 0.28 (n = 2) | +1.70 | 0.020, 0.001 |"
    )


def test_a_gain_that_no_line_says_is_that_of_the_scores(tmp_path: Path) -> None:
    """It is taken from the baseline's line of the same scale, metric and seed, and from no other one."""
    table_file(tmp_path)
    csv_of(
        tmp_path,
        line("transformer", 1, "tokenised_bleu", 34.20),
        line("transformer", 2, "tokenised_bleu", 34.30),
        line("transformer", 3, "tokenised_bleu", 30.00, scale="small"),
        line("man", 1, "tokenised_bleu", 36.50, difference="2.31", p="0.0200", baseline="transformer"),
        line("man", 2, "tokenised_bleu", 34.05, baseline="transformer"),
        line("man", 3, "tokenised_bleu", 39.00, baseline="transformer"),
    )
    of_man = cells(table(tmp_path, "man/table1"))[1]
    assert of_man[5:] == ["36.52 ± 2.48 (n = 3)", "+1.03 (+2.31, -0.25)", "0.020"]


def test_one_scale_has_one_column(tmp_path: Path) -> None:
    """A table without the other scale has no column of it."""
    table_file(tmp_path, TWO_ROWS.replace("small: base/small.yaml\n", ""))
    header = table(tmp_path, "man/table1").split("\n")[0]
    assert header == "| row | metric | paper | gain, paper | full scale: BLEU, tokenised |"
    assert [row[-1] for row in cells(table(tmp_path, "man/table1"))] == ["not measured"] * 2
    table_file(tmp_path, TWO_ROWS.replace("extends: base/full.yaml\n", ""))
    assert table(tmp_path, "man/table1").split("\n")[0].endswith("| small scale: sacreBLEU |")


def test_quoted_systems_stand_after_the_rows(tmp_path: Path) -> None:
    """They have the paper's numbers, each under its metric, and are measured at no scale."""
    quoted = "quoted:\n  Local: {tokenised_bleu: 28.5, parameters: 89_000_000}\n"
    table_file(tmp_path, TWO_ROWS + quoted)
    assert cells(table(tmp_path, "man/table1"))[2:] == [
        ["Local", "BLEU, tokenised", "28.5", "", "quoted", "quoted"],
        ["", "parameters", "89M", "", "", ""],
    ]


def test_the_ranking_sorts_by_mean_score(tmp_path: Path) -> None:
    """The ranking is that of the small scale and the newest settings; what has not been measured stands last."""
    rows = TWO_ROWS + "  mma: {label: MMA, architecture: transformer_mma_tiny}\n"
    table_file(tmp_path, rows, "comparisons/mechanisms")
    new = {"scale": "small", "parameters": "1933684", "date": "2026"}
    csv_of(
        tmp_path,
        line("transformer", 1, "sacrebleu", 35.00, scale="small", parameters="1914880"),
        line("man", 1, "sacrebleu", 35.00, difference="0.00", p="0.5", **new),
        line("man", 2, "sacrebleu", 37.00, difference="2.00", p="0.0040", **new),
        line("man", 3, "sacrebleu", 10.00, scale="small", settings="bb", date="2025"),
        line("mma", 1, "sacrebleu", 99.00),
        table="comparisons/mechanisms",
    )
    assert cells(table(tmp_path, "ranking")) == [
        ["1", "DMAN / SAN", "36.00 ± 1.41 (n = 2)", "+1.00", "0.500, 0.004", "1.93M"],
        ["2", "Transformer", "35.00 (n = 1)", "", "", "1.91M"],
        ["", "MMA", "not measured", "", "", ""],
    ]


def test_speeds_stand_beside_the_papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ratios are those of the benchmarks, and a paper's is that of its steps a second; nothing where there is none."""
    monkeypatch.setattr(speed, "SYSTEMS", {"man": ("MAN", "man/table1/man"), "mma": ("MMA", "")})
    steps = TWO_ROWS.replace("_bleu: 34.4", "_bleu: 34.4, steps_per_second: 1.6")
    table_file(tmp_path, steps.replace("_bleu: 36.3", "_bleu: 36.3, steps_per_second: 1.2"))
    put(tmp_path, "results/benchmarks/step_cpu_fp32.csv", "system,ratio_median,efficiency\nman,1.25,1.3\n")
    put(tmp_path, "results/benchmarks/generation_cpu_fp32.csv", "system,ratio_median\nman,0.9\nmma,1.1\n")
    put(tmp_path, "results/benchmarks/step_cpu_bf16.csv", "system,ratio_median\ntransformer_fp32,0.6\nmma,1.2\n")
    wanted = [["MAN", "0.75", "1.25", "1.30", "0.90", "", ""], ["MMA", "", "", "", "1.10", "1.20", "2.00"]]
    assert cells(table(tmp_path, "speed")) == wanted


def test_speeds_of_attentions_by_length(tmp_path: Path) -> None:
    """At 30 and 8,192 tokens; lengths without a number have no column."""
    rows = "man_encoder,30,1.1,\nmma,30,1.254,\nmma,512,0,too large\ndman,8192,2,\n"
    put(tmp_path, "results/benchmarks/module_cpu_fp32.csv", f"system,tokens,ratio_median,note\n{rows}")
    found = cells(table(tmp_path, "attentions"))
    assert found == [["MAN, encoder", "1.10", ""], ["MMA", "1.25", ""], ["DMAN", "", "2.00"]]


def test_the_table_of_speeds_has_every_system() -> None:
    assert set(speed.SYSTEMS) == set(DEFAULT_SYSTEMS["step"]) == set(DEFAULT_SYSTEMS["generation"])
    assert set(DEFAULT_SYSTEMS["long"]) <= set(SYSTEMS)
    assert {*speed.SYSTEMS, *speed.ATTENTIONS} >= set(ATTENTIONS) - {FAIRSEQ}


def test_a_number_has_the_name_of_its_own_metric(tmp_path: Path) -> None:
    """Where the rows of a table are compared by several metrics the header names none, so the cell does."""
    several = "  zh: {label: Zh, architecture: transformer_man_tiny, metric: multi_bleu, small: {metric: multi_bleu}}\n"
    table_file(tmp_path, TWO_ROWS + several)
    csv_of(
        tmp_path,
        line("man", 1, "sacrebleu", 37.00, scale="small"),
        line("man", 1, "tokenised_bleu", 36.00),
        line("zh", 1, "multi_bleu", 42.00, scale="small"),
    )
    found = {row[0]: row[-2:] for row in cells(table(tmp_path, "man/table1"))}
    assert "scale: " not in table(tmp_path, "man/table1")
    assert found["DMAN / SAN"] == ["37.00 (n = 1) (sacreBLEU)", "36.00 (n = 1)"]
    assert found["Zh"] == ["42.00 (n = 1)", "—"]


def test_several_metrics_and_what_a_run_has(tmp_path: Path) -> None:
    """ROUGE as the paper has it, the compared one first; parameters and speed from the columns of the run."""
    paper = (
        "{rouge1: 40.98, rouge2: 18.29, rougeL: 37.88, rouge_avg: 32.38, parameters: 37.0e+6, steps_per_second: 1.04}"
    )
    row = f"  man: {{label: DMAN, architecture: transformer_man_tiny, metric: rouge_avg, paper: {paper}}}\n"
    table_file(tmp_path, f"{HEAD}rows:\n{row}", "man/table2")
    csv_of(
        tmp_path,
        line("man", 1, "rouge1", 41.00),
        line("man", 1, "rouge2", 18.00),
        line("man", 1, "rouge_avg", 32.40),
        line("man", 2, "rouge1", 41.10),
        line("man", 1, "rouge_avg", 30.00, scale="small", parameters="1914880"),
        table="man/table2",
    )
    assert cells(table(tmp_path, "man/table2")) == [
        ["DMAN", "ROUGE, mean of the three", "32.38", "30.00 (n = 1)", "32.40 (n = 1)"],
        ["", "ROUGE-1", "40.98", "", "41.05 ± 0.07 (n = 2)"],
        ["", "ROUGE-2", "18.29", "", "18.00 (n = 1)"],
        ["", "ROUGE-L", "37.88", "", ""],
        ["", "parameters", "37M", "1.91M", "36.8M"],
        ["", "steps/s", "1.04", "2.50 (n = 1)", "2.50 ± 0.00 (n = 2)"],
    ]


def test_several_test_sets_and_their_mean(tmp_path: Path) -> None:
    numbers = "{MT03/multi_bleu: 43.98, MT04/multi_bleu: 45.60, average/multi_bleu: 44.79}"
    base = "{MT03/multi_bleu: 41.88, MT04/multi_bleu: 44.48, average/multi_bleu: 43.18}"
    text = (
        f"{HEAD}baseline: base\nmetric: average/multi_bleu\nrows:\n"
        f"  zh: {{label: MG-SA, architecture: transformer_mgsa_tiny, paper: {numbers}}}\n"
        f"  base: {{label: base, architecture: transformer_tiny, paper: {base}}}\n"
    )
    table_file(tmp_path, text, "man/table4")
    csv_of(tmp_path, line("zh", 1, "MT03/multi_bleu", 44, difference="2.00", p="0.0010"), table="man/table4")
    found = cells(table(tmp_path, "man/table4"))
    # The mean of the test sets is the metric that is compared; it is not there yet.
    assert found[:3] == [
        ["MG-SA", "average: BLEU, several references", "44.79", "+1.61", "—", "—", "", ""],
        ["", "MT03: BLEU, several references", "43.98", "+2.10", "", "44.00 (n = 1)", "+2.00", "0.001"],
        ["", "MT04: BLEU, several references", "45.60", "+1.12", "", "", "", ""],
    ]


def test_rows_of_other_settings_stand_apart(tmp_path: Path) -> None:
    """Several settings of one row are never averaged."""
    table_file(tmp_path)
    scores = ((36, "aa"), (30, "bb"))
    csv_of(tmp_path, *(line("man", 1, "tokenised_bleu", score, settings=name) for score, name in scores))
    found = cells(table(tmp_path, "man/table1"))
    assert [row[0] for row in found] == ["Transformer", "DMAN / SAN", "DMAN / SAN (settings bb)"]
    assert [row[-1] for row in found] == ["—", "36.00 (n = 1)", "30.00 (n = 1)"]
    sizes = ((36, "aa", "transformer_man_small"), (30, "bb", "transformer_man_medium"))
    lines = (line("man", 1, "tokenised_bleu", score, settings=name, architecture=arch) for score, name, arch in sizes)
    csv_of(tmp_path, *lines)
    assert cells(table(tmp_path, "man/table1"))[2][0] == "DMAN / SAN (`transformer_man_medium`)"


@pytest.mark.parametrize(("updates", "gain"), [("6000", ["+2.00"]), ("10000", [])])
def test_gains_are_over_baselines_that_were_trained_alike(tmp_path: Path, updates: str, gain: list[str]) -> None:
    table_file(tmp_path)
    plain = line("transformer", 1, "tokenised_bleu", 34, updates=updates)
    csv_of(tmp_path, plain, line("man", 1, "tokenised_bleu", 36, baseline="transformer", updates="6000"))
    found = cells(table(tmp_path, "man/table1"))[1]
    assert found[found.index("36.00 (n = 1)") + 1 :] == gain


def test_metrics_of_a_family(tmp_path: Path) -> None:
    """BLEU by length, locality and probing: what the paper has, then what was measured, in the order of numbers."""
    paper = "{bleu_10_20: 30, bleu_50: 20.5}"
    text = f"{HEAD}metric: bleu_by_length\nrows:\n  zz: {{label: zz, architecture: transformer_tiny, paper: {paper}}}\n"
    table_file(tmp_path, text, "man/fig2")
    found = cells(table(tmp_path, "man/fig2"))
    assert found == [
        ["zz", "BLEU, 11 to 20 words", "30", "not measured", "—"],
        ["", "BLEU, more than 50 words", "20.5", "", ""],
    ]
    sizes = {20: 10, 0: 300, 10: 200, 30: 9}  # sentences: a group of nine is not shown
    lines = [
        line("zz", 1, f"bleu_{a}_{a + 10}", 30 + a, scale="small", signature=f"tok:none|sentences:{size}")
        for a, size in sizes.items()
    ]
    csv_of(tmp_path, *lines, table="man/fig2")
    found = cells(table(tmp_path, "man/fig2"))
    assert [row[1:4] for row in found] == [
        ["BLEU, 11 to 20 words", "30", "40.00 (n = 1)"],
        ["BLEU, more than 50 words", "20.5", ""],
        ["BLEU, 1 to 10 words", "—", "30.00 (n = 1)"],
        ["BLEU, 21 to 30 words", "—", "50.00 (n = 1)"],
    ]


def test_order_of_tables_and_rows(tmp_path: Path) -> None:
    """Tables by their numbers, figures after them, others last; rows as in the file."""
    for name in ("table10", "table2", "fig2", "others"):
        table_file(tmp_path, TWO_ROWS, f"man/{name}")
    text = table(tmp_path, "man")
    assert [part.partition("\n")[0] for part in text.split("### ")[1:]] == [
        "Table 2: translation", "Table 10: translation", "Figure 2: translation", "Others: translation",
    ]  # fmt: skip
    assert [row[0] for row in cells(text.rpartition("\n\n")[2])] == ["Transformer", "DMAN / SAN"]


def test_every_metric_of_the_rows_has_a_name() -> None:
    """All numbers that the repository's tables take from the papers are named as one reads them."""
    tables = [find_table(paper, name) for paper in all_papers() for name in tables_of(paper)]
    found = {
        metric_name(metric)
        for each in tables
        for row in papers.rows_of(each)
        for metric in (*row.paper, *(row.metric(scale) for scale in row.recipes))
    }
    assert [name for name in sorted(found) if "_" in name] == []
    assert {"BLEU, tokenised", "average: BLEU, several references", "attention within 2, layer 3 (%)"} <= found


# --- the summary


def test_summary_has_each_main_row_in_a_line(tmp_path: Path) -> None:
    """Rows at small scale beside their baselines, with the paper's gain; rows that are not measured are not there."""
    text = TWO_ROWS.replace("transformer:", "iwslt14_transformer:").replace("  man:", "  iwslt14_man:")
    text = text.replace("baseline: transformer", "baseline: iwslt14_transformer")
    full = '  iwslt14_man_full: {same_as: iwslt14_man, label: "both stacks"}\n'
    table_file(tmp_path, text + full)
    csv_of(
        tmp_path,
        line("iwslt14_transformer", 1, "sacrebleu", 35.00, scale="small"),
        line("iwslt14_transformer", 2, "sacrebleu", 34.50, scale="small"),
        line("iwslt14_transformer", 3, "sacrebleu", 90.00, scale="small"),  # the row has no such seed
        line("iwslt14_man", 2, "sacrebleu", 36.00, difference="1.50", p="0.0001", scale="small", date="2026"),
        line("iwslt14_man", 1, "sacrebleu", 34.80, difference="-0.20", p="0.2507", scale="small", date="2026"),
        line("iwslt14_man", 3, "sacrebleu", 99, difference="9", p="0.0001", scale="small", settings="bb", date="2025"),
        line("iwslt14_man_full", 1, "tokenised_bleu", 36.00, difference="1.50", p="0.0001"),
    )
    assert table(tmp_path, "summary") == (
        "| system | data | metric | Transformer | system's | gain | p by seed | seeds | paper's gain |\n"
        "|---|---|---|---|---|---|---|---|---|\n"
        "| [MAN](results/man.md): DMAN \\| SAN | captions | sacreBLEU | 34.75 | 35.40 ± 0.85"
        " | +0.65 (-0.20, +1.50) | 0.251, <0.001 | 1, 2 | +1.9 |"
    )


def test_rows_of_the_summary_are_there() -> None:
    for key in papers.SUMMARY:
        named, _, scale = key.partition("@")
        paper, name, row = named.split("/")
        assert row in find_table(paper, name).rows(scale or "small"), key


# --- measures on trained models


def test_locality(tmp_path: Path) -> None:
    """Within two positions in the encoder; seeds beside one another."""
    lines = [f"{name},encoder,{layer},{kind},{kind},2,{layer}0.16"
             for name in ("D.seed1", "D.seed2") for layer in (1, 2) for kind in ("san", "dman")]  # fmt: skip
    others = ["D.seed1,decoder,1,san,san,2,99.0", "D.seed1,encoder,1,san,san,4,99.0"]
    header = "checkpoint,stack,layer,sublayer,kind,window,share"
    put(tmp_path, "results/locality/own.csv", "\n".join((header, *others, *lines, "")))
    assert table(tmp_path, "locality/own") == (
        "| checkpoint | sublayer | layer 1 | layer 2 |\n|---|---|---|---|\n"
        "| `D.seed1` | DMAN | 10.2 | 20.2 |\n| `D.seed2` | DMAN | 10.2 | 20.2 |\n"
        "| `D.seed1` | SAN | 10.2 | 20.2 |\n| `D.seed2` | SAN | 10.2 | 20.2 |"
    )


# --- numbers as text


@pytest.mark.parametrize(("value", "text"), [(0.0004, "<0.001"), (0.0005, "0.001"), (0.04996, "0.050"), (1, "1.000")])
def test_p_values(value: float, text: str) -> None:
    assert p_value(Line("here", {"p_value": str(value)})) == text
