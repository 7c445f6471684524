"""The pages with tables: made, checked, and refused in one line; and the repository's own, which must be up to date."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from experiments.report import pages as make_tables
from support.paths import ROOT
from support.table_files import BLEU, PAPER, PLAIN, RECIPE, comparison, csv_of, line, page, put, rows, two_rows


def refusal(root: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """The one line of an error, without the root."""
    assert make_tables.main(list(options), root) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    return captured.err.strip().replace(f"{root}/", "")


def test_pages_are_renewed_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only what stands between the markers changes; a changed number is found, with its line, and mended."""
    comparison(tmp_path)
    two_rows(tmp_path)
    at = page(tmp_path, "own", "man/table1")
    assert make_tables.main(["--check"], tmp_path) == 1
    assert "between" in at.read_text() and "MMA" not in at.read_text()
    capsys.readouterr()
    assert make_tables.main([], tmp_path) == 0
    assert capsys.readouterr().out == "2 of 2 tables renewed: own, man/table1\n"
    made = at.read_text()
    assert made.startswith("# Results\n\n<!-- table own -->\n\n| system |") and made.endswith("table1 -->\n\nthe end")
    assert f"\n\n{make_tables.table(tmp_path, 'man/table1', 'here')}\n\n<!-- end of table man/table1 -->" in made
    assert "between\n<!-- table man/table1 -->" in made
    assert make_tables.main(["--check"], tmp_path) == 0
    capsys.readouterr()
    at.write_text(made.replace("35.40 ± 0.85", "35.41 ± 0.85"))
    assert make_tables.main(["--check"], tmp_path) == 1
    number = made.split("\n").index(next(row for row in made.split("\n") if "35.40" in row)) + 1
    assert f"results/README.md:{number}: table own is not what the results say" in capsys.readouterr().err
    make_tables.main([], tmp_path)
    assert at.read_text() == made


def test_new_result_must_be_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of results that no page has is an error, and so is none at all for a comparison that a page has."""
    path = comparison(tmp_path)
    page(tmp_path)
    assert refusal(tmp_path, capsys, "--check") == (
        "make_tables: error: results/own.csv: no page has it: put its two markers, table own, into results/README.md"
    )
    rows(tmp_path, table1_x="label: x")
    page(tmp_path, "own")
    assert "configs/man/table1_*.yaml: no page has it: put its two markers, table man/table1" in refusal(
        tmp_path, capsys
    )
    page(tmp_path, "own", "man")
    path.unlink()
    assert "results/own.csv: is not there: run scripts/compare.py configs/compare/own.yaml" in refusal(tmp_path, capsys)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- table owm -->\n<!-- end of table owm -->", ":1: there is no table 'owm'; did you mean 'own'?"),
        ("\n<!-- table own -->\n", ":2: table own has no line '<!-- end of table own -->'"),
        ("<!-- end of table own -->\n", ":1: table own ends here, but does not begin before"),
        ("<!-- table own -->\n<!-- table summary -->\n", ":2: table summary begins before '<!-- end of table own -->'"),
        ("<!-- table own -->\n<!-- end of table x -->\n", ":2: table x ends here, but does not begin before"),
        ("<!--table own-->\n", ":1: not a marker: write '<!-- table NAME -->'"),
    ],
)
def test_wrong_markers(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str) -> None:
    comparison(tmp_path)
    at = put(tmp_path, "results/README.md", text)
    assert f"results/README.md{message}" in refusal(tmp_path, capsys)
    assert at.read_text() == text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("34.80,-0.20", "much,-0.20", "results/own.csv:5: bleu must be a number, not 'much'"),
        ("34.80,-0.20", "nan,-0.20", "results/own.csv:5: bleu must be a number, not 'nan'"),
        ("34.80,-0.20", ",-0.20", "results/own.csv:5: bleu must be a number, not ''"),
        ("0.2507", "x", "results/own.csv:5: p_value must be a number, not 'x'"),
        (
            ",1,2450000,",
            ",2,2450000,",
            "results/own.csv:5: system transformer_mma_small, seed 2, settings aa: is on line 2",
        ),
        (f"{PLAIN},{PLAIN},2", f"plain,{PLAIN},2", "results/own.csv:4: configs/compare/own.yaml has no system 'plain'"),
        (f"mma_small,{PLAIN},1", "mma_small,other,1", "results/own.csv:5: baseline other, where the row before has"),
        (",0.2507,aa", ",0.2507", "results/own.csv:5: 7 columns, where the first line has 8"),
        ("seed,parameters", "sead,parameters", "results/own.csv:1: lacks the column(s) seed"),
        (",bleu,", ",blue,", "results/own.csv:1: has none of the columns bleu, accuracy, perplexity"),
    ],
)
def test_wrong_results(tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str) -> None:
    assert BLEU.count(old) == 1
    comparison(tmp_path, BLEU.replace(old, new))
    at = page(tmp_path, "own")
    before = at.read_text()
    assert message in refusal(tmp_path, capsys)
    assert at.read_text() == before


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  narrow: {label", "  narow: {label", "configs/compare/own.yaml: paper: narow: there is no such system"),
        (
            "score: 34.40",
            "score: many",
            f"configs/compare/own.yaml: paper: {PLAIN}: score must be a number, not 'many'",
        ),
        ("{label: w = 2}", "35.1", "paper: narrow: must be {label: text, score: number}, or one of the two"),
    ],
)
def test_wrong_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str) -> None:
    assert PAPER.count(old) == 1
    comparison(tmp_path, recipe=RECIPE + PAPER.replace(old, new))
    page(tmp_path, "own")
    assert message in refusal(tmp_path, capsys)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([line("table1_dman", 1, "sacrebleu", 3)], "results/man/table1.csv:2: configs/man has no row 'table1_dman'"),
        ([line("table1_man", 1, "sacrebleu", "x")], "results/man/table1.csv:2: score must be a number, not 'x'"),
        (
            [line("table1_man", 1, "sacrebleu", 3)] * 2,
            "results/man/table1.csv:3: row table1_man, seed 1, settings aa, metric sacrebleu: is on line 2 already",
        ),
    ],
)
def test_wrong_lines_of_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: list[str], message: str
) -> None:
    two_rows(tmp_path)
    put(tmp_path, "configs/compare/own.yaml", RECIPE)
    csv_of(tmp_path, *lines)
    page(tmp_path, "man")
    assert message in refusal(tmp_path, capsys)


def test_table_without_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two_rows(tmp_path)
    put(tmp_path, "configs/compare/own.yaml", RECIPE)
    csv_of(tmp_path, line("table2_man", 1, "rouge1", 41), table="table2")
    page(tmp_path, "man")
    assert refusal(tmp_path, capsys) == "make_tables: error: results/man/table2.csv: configs/man has no rows of table2"


def test_baseline_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows(tmp_path, table1_man="label: DMAN\nbaseline: table1_gone\npaper: {tokenised_bleu: high}")
    page(tmp_path, "man/table1")
    assert "man/table1_man.yaml: baseline: there is no configs/man/table1_gone.yaml" in refusal(tmp_path, capsys)
    rows(tmp_path, table1_gone="label: gone")
    assert "paper: tokenised_bleu must be a number, not 'high'" in refusal(tmp_path, capsys)


def test_the_repositorys_pages_are_up_to_date() -> None:
    """README.md and results/*.md say what the CSVs say. To mend it: python results/make_tables.py"""
    command = [sys.executable, str(ROOT / "results" / "make_tables.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    shown = [
        block for path in make_tables.pages(ROOT) for block in make_tables.blocks_of(path, path.read_text().split("\n"))
    ]
    assert {"summary", "multi30k_cpu"} <= {block.name for block in shown}
