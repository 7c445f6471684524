"""The tables of the pages: made from small CSVs, and compared with tables written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.modules import ATTENTIONS, FAIRSEQ
from benchmarks.systems import DEFAULT_SYSTEMS, SYSTEMS
from experiments.measure.metrics import metric_name
from experiments.recipes.tables import find_table, tables_of
from experiments.recipes.tables import papers as all_papers
from experiments.report import pages, papers, speed
from support.tables.files import TWO_ROWS, csv_of, line, table_file


def table(root: Path, name: str) -> str:
    return pages.table(root, name, "here")


def cells(text: str) -> list[list[str]]:
    """Return the cells of a Markdown table's rows, without its header, and of the line below it."""
    rows = [row for row in text.split("\n")[2:] if row]
    return [[cell.strip() for cell in row.replace("\\|", "/").strip("|").split("|")] for row in rows]


def test_rows_that_are_not_trained_stand_in_one_line(tmp_path: Path) -> None:
    """Groups whole, other rows by their labels; systems that a paper quotes are no rows."""
    quoted = "quoted:\n  Local: {tokenised_bleu: 28.5, parameters: 89_000_000}\n"
    more = "".join(f"  {name}: {{label: '{label}', architecture: transformer_tiny}}\n" for name, label in
                   (("a", "En-Fr: a"), ("b", "En-Fr: b"), ("c", "En-De: c"), ("d", "En-De: d")))  # fmt: skip
    table_file(tmp_path, TWO_ROWS + more + quoted)
    rows = "Not trained ([rows](../configs/man/table1.yaml)):"
    assert table(tmp_path, "man/table1") == f"{rows} Transformer; DMAN | SAN; En-Fr; En-De."
    csv_of(tmp_path, line("d", 1, "sacrebleu", 36.00, scale="small"))
    assert table(tmp_path, "man/table1") == (
        "| row | captions: sacreBLEU (1 seed) |\n|---|---|\n| d | 36.00 |\n\n"
        f"{rows} Transformer; DMAN | SAN; En-Fr; En-De: c."
    )


def test_both_scales_stand_side_by_side(tmp_path: Path) -> None:
    """Mean, deviation, number of seeds, and gain; of each scale its own data and metric; the paper's at full scale."""
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
        "| row | paper | gain, paper | small scale, captions: sacreBLEU (1 seed) | gain, small"
        " | full scale, BLEU, tokenised (seeds) | gain, full |\n"
        "|---|---|---|---|---|---|---|\n"
        "| Transformer | 34.4 | | — | | 34.20 (1) | |\n"
        "| DMAN \\| SAN | 36.3 | +1.9 | 37.00 | -0.25 | 36.30 (±0.28, 2) | **+1.70** |"
    )


@pytest.mark.parametrize(("second", "p", "text"), [
    ("0.50", "0.0400", "**+0.75**"), ("0.50", "0.0500", "+0.75"), ("0.50", "", "+0.75"), ("-0.50", "0.0010", "+0.25"),
])  # fmt: skip
def test_a_gain_is_bold_where_seeds_agree(tmp_path: Path, second: str, p: str, text: str) -> None:
    table_file(tmp_path)
    gains = (("1.00", "0.0010"), (second, p))
    csv_of(tmp_path, *(line("man", seed, "tokenised_bleu", 36, difference=gain, p=of)
                       for seed, (gain, of) in enumerate(gains)))  # fmt: skip
    assert cells(table(tmp_path, "man/table1"))[0][-1] == text


def test_no_training_is_shown_twice(tmp_path: Path) -> None:
    """A row with the scores of an earlier row's training has none of its own; with another test set it has."""
    big = "  big: {label: big, architecture: transformer_tiny, paper: {tokenised_bleu: 28.4}}\n"
    table_file(tmp_path, TWO_ROWS + big)
    own = [
        line(row, 1, "sacrebleu", 35, scale="small", architecture="transformer_tiny") for row in ("transformer", "big")
    ]
    csv_of(tmp_path, *own, line("man", 1, "sacrebleu", 36, scale="small"))
    assert table(tmp_path, "man/table1").endswith("| 36.00 |\n\nNot trained ([rows](../configs/man/table1.yaml)): big.")
    csv_of(tmp_path, own[0], own[1] | {"score": "35.5"})
    assert cells(table(tmp_path, "man/table1"))[1] == ["big", "-6.0", "35.50"]


def test_a_gain_that_no_line_says_is_that_of_the_scores(tmp_path: Path) -> None:
    """It is taken from the baseline's line of the same scale, metric, seed and updates, and from no other one."""
    table_file(tmp_path)
    csv_of(
        tmp_path,
        line("transformer", 1, "tokenised_bleu", 34.20),
        line("transformer", 2, "tokenised_bleu", 34.30),
        line("transformer", 4, "tokenised_bleu", 34.30),
        line("transformer", 3, "sacrebleu", 30.00, scale="small"),
        line("transformer", 5, "tokenised_bleu", 34.00, updates="10000"),
        line("man", 1, "tokenised_bleu", 36.50, difference="2.31", p="0.0200", baseline="transformer"),
        line("man", 2, "tokenised_bleu", 34.05, baseline="transformer"),
        line("man", 3, "tokenised_bleu", 39.00, baseline="transformer"),
        line("man", 5, "tokenised_bleu", 39.00, baseline="transformer", updates="6000"),
    )
    of_man = cells(table(tmp_path, "man/table1"))[1]
    assert of_man[3:] == ["—", "37.14 (±2.37)", "+1.03"]


def test_the_table_of_speeds_has_every_system() -> None:
    assert set(speed.SYSTEMS) == set(DEFAULT_SYSTEMS["step"]) == set(DEFAULT_SYSTEMS["generation"])
    assert set(DEFAULT_SYSTEMS["long"]) <= set(SYSTEMS)
    assert {*speed.SYSTEMS, *speed.ATTENTIONS} >= set(ATTENTIONS) - {FAIRSEQ}


def test_rows_of_other_settings_stand_apart(tmp_path: Path) -> None:
    table_file(tmp_path)
    scores = ((36, "aa"), (30, "bb"))
    csv_of(tmp_path, *(line("man", 1, "tokenised_bleu", score, settings=name) for score, name in scores))
    found = cells(table(tmp_path, "man/table1"))
    assert found[:2] == [["DMAN / SAN", "36.3", "+1.9", "36.00"], ["DMAN / SAN (settings bb)", "36.3", "+1.9", "30.00"]]
    sizes = ((36, "aa", "transformer_man_small"), (30, "bb", "transformer_man_medium"))
    lines = (line("man", 1, "tokenised_bleu", score, settings=name, architecture=arch) for score, name, arch in sizes)
    csv_of(tmp_path, *lines)
    assert cells(table(tmp_path, "man/table1"))[1][0] == "DMAN / SAN (`transformer_man_medium`)"


def test_bleu_of_few_sentences_is_not_shown(tmp_path: Path) -> None:
    table_file(tmp_path, TWO_ROWS.replace("baseline:", "metric: bleu_by_length\nbaseline:"))
    signatures = {"bleu_0_10": "tok:none|sentences:10", "bleu_10_20": "tok:none|sentences:9"}
    csv_of(tmp_path, *(line("man", 1, metric, 30, signature=of) for metric, of in signatures.items()))
    header = "| full scale,  (the paper) | BLEU, 1 to 10 words |"
    assert table(tmp_path, "man/table1").startswith(header)


def test_what_was_not_measured_or_drawn_is_not_there(tmp_path: Path) -> None:
    table_file(tmp_path, TWO_ROWS.replace("  man:", "  iwslt14_man_full:"))
    table_file(tmp_path, TWO_ROWS.replace("  man:", "  mma:"), "mma/table2")
    csv_of(tmp_path, line("iwslt14_man_full", 1, "sacrebleu", 36, scale="small"))
    assert [row[0] for row in cells(table(tmp_path, "summary"))] == ["[MAN](docs/papers/man.md)"]
    assert "### Figure" not in table(tmp_path, "mma")


def test_every_metric_of_the_rows_has_a_name() -> None:
    """All numbers that the repository's tables take from the papers are named as one reads them."""
    tables = [find_table(paper, name) for paper in all_papers() for name in tables_of(paper)]
    found = {
        metric_name(metric)
        for each in tables
        for row in (papers.Row(each, name) for name in each.sources)
        for metric in (*row.paper, *map(row.metric, papers.SCALES))
    }
    assert [name for name in sorted(found) if "_" in name] == []
    assert {"BLEU, tokenised", "average: BLEU, several references", "attention within 2, layer 3 (%)"} <= found
