"""The pages with tables: made, checked, and refused in one line; and the repository's own, which must be up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.report import gains, pages
from support.paths import ROOT
from support.tables.files import TWO_ROWS, csv_of, line, page, put, table_file

NOT_A_PAIR = "not one of two markers of a table: write '<!-- table NAME -->' and '<!-- end of table NAME -->'"


def refusal(root: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """Return the one line of an error, without the root."""
    assert pages.main(list(options), root) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    return captured.err.strip().replace(f"{root}/", "")


def measured(root: Path) -> Path:
    """Write a table of two rows with results; return the CSV."""
    table_file(root)
    return csv_of(
        root,
        line("transformer", 1, "sacrebleu", 35.00, scale="small"),
        line("man", 1, "sacrebleu", 36.00, difference="1.00", p="0.2507", scale="small"),
        line("man", 2, "sacrebleu", 34.80, difference="-0.20", p="0.0010", scale="small"),
    )


def test_pages_are_renewed_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only what stands between the markers changes; a changed number is found, with its line, and mended."""
    measured(tmp_path)
    table_file(tmp_path, TWO_ROWS, "man/table2")
    at = page(tmp_path, "man/table1", "man/table2")
    assert pages.main(["--check"], tmp_path) == 1
    assert "between" in at.read_text() and "DMAN" not in at.read_text()
    capsys.readouterr()
    assert pages.main([], tmp_path) == 0
    assert capsys.readouterr().out == "2 of 2 tables renewed: man/table1, man/table2\n"
    made = at.read_text()
    assert made.startswith("# Results\n\n<!-- table man/table1 -->\n\n| row |")
    assert made.endswith("table2 -->\n\nthe end")
    assert f"\n\n{pages.table(tmp_path, 'man/table1', 'here')}\n\n<!-- end of table man/table1 -->" in made
    assert "between\n<!-- table man/table2 -->" in made
    assert pages.main(["--check"], tmp_path) == 0
    capsys.readouterr()
    assert pages.main([], tmp_path) == 0 and capsys.readouterr().out == "0 of 2 tables renewed\n"
    at.write_text(made.replace("35.40 (±0.85, 2)", "35.41 (±0.85, 2)"))
    assert pages.main(["--check"], tmp_path) == 1
    number = next(n for n, row in enumerate(made.split("\n"), start=1) if "35.40" in row)
    assert f"results/README.md:{number}: table man/table1 is not what the results say" in capsys.readouterr().err
    pages.main([], tmp_path)
    assert at.read_text() == made


def test_every_table_must_be_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One of a paper that no page has is an error, and so are results of no table; quick starts need no page."""
    measured(tmp_path)
    table_file(tmp_path, TWO_ROWS, "quickstart/toy")
    page(tmp_path)
    needs = "no page has it: put its two markers, table"
    found = refusal(tmp_path, capsys, "--check")
    assert found == f"make_tables: error: configs/man/table1.yaml: {needs} man/table1, into results/*.md"
    page(tmp_path, "man")
    put(tmp_path, "results/locality/own.csv", "")
    assert f"results/locality/own.csv: {needs} locality/own" in refusal(tmp_path, capsys)
    csv_of(tmp_path, line("man", 1, "rouge1", 41), table="man/table7")
    assert refusal(tmp_path, capsys) == "make_tables: error: results/man/table7.csv: configs/man has no table table7"


def test_pictures_of_gains_are_drawn_where_numbers_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A page that shows one has it drawn; --check says which shows other numbers than the CSVs."""
    path = measured(tmp_path)
    page(tmp_path, "man").open("a").write("\n![Gains](figures/gains_man.png)\n")
    picture = tmp_path / "results" / "figures" / "gains_man.png"
    assert pages.main([], tmp_path) == 0 and picture.read_bytes()[:4] == b"\x89PNG"
    assert "1 of 1 pictures drawn: man\n" in capsys.readouterr().out
    (gain,) = gains.gains_of(tmp_path, "man")
    assert (gain.label, gain.low, gain.high, gain.clear) == ("Table 1: DMAN | SAN", -0.2, 1.0, False)
    assert (gain.mean, gain.paper) == (pytest.approx(0.4), pytest.approx(1.9))
    assert pages.main(["--check"], tmp_path) == 0
    path.write_text(path.read_text().replace("-0.20", "-0.30"))
    assert pages.main(["--check"], tmp_path) == 1
    assert f"{picture} is not what the results say" in capsys.readouterr().err
    assert pages.main([], tmp_path) == 0 and pages.main(["--check"], tmp_path) == 0


def test_intervals_of_a_ranking(tmp_path: Path) -> None:
    """Gains over the mean Transformer with Student's interval; seeds of a training from the table that has most."""
    rows = {"transformer": (30, 32), "man": (33, 34, 35)}
    for table, seeds in (("man/table1", 2), ("man/table2", 3)):
        table_file(tmp_path, name=table)
        found = [(row, n, score) for row, scores in rows.items() for n, score in enumerate(scores[:seeds])]
        csv_of(tmp_path, *(line(row, n, "sacrebleu", score, scale="small") for row, n, score in found), table=table)
    data = gains.Data("both", "small", ("man/table1", "man/table2"))
    (gain,) = gains.ranking_of(tmp_path, data)
    # Squares 2 + 2 with 1 + 2 degrees of freedom, whose t is 3.182: 3.182 * sqrt(4 / 3) * sqrt(1 / 3 + 1 / 2) = 3.354.
    assert (gain.label, gain.mean, gain.clear) == ("DMAN | SAN", 3, False)
    assert (gain.low, gain.high) == pytest.approx((3 - 3.354, 3 + 3.354), abs=1e-3)
    csv_of(tmp_path, line("man", 1, "sacrebleu", 36, scale="small"))
    assert gains.ranking_of(tmp_path, gains.Data("no baseline", "small", ("man/table1",))) == []


def test_the_claims_comparisons_are_renewed_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured(tmp_path)
    claim = "claims: [{claim: Masks help., where: Table 1, compare: [table1 man > transformer]}]"
    put(tmp_path, "results/claims/man.yaml", claim)
    page(tmp_path, "man", "claims/man")
    assert pages.main([], tmp_path) == 0
    path = tmp_path / "results" / "claims.csv"
    made = path.read_text()
    assert ",table1,man,transformer," in made and "3 of 3 tables renewed" in capsys.readouterr().out
    path.write_text(made.replace("1.00", "2.00"))
    assert pages.main(["--check"], tmp_path) == 1
    assert f"make_tables: {path}: table claims.csv is not what the results say" in capsys.readouterr().err
    assert pages.main([], tmp_path) == 0 and path.read_text() == made


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- table mam -->\n<!-- end of table mam -->", ":1: there is no table 'mam'; did you mean 'man'?"),
        ("\n<!-- table man -->\n", f":2: {NOT_A_PAIR}"),
        ("<!-- end of table man -->\n", f":1: {NOT_A_PAIR}"),
        ("<!-- table man -->\n<!-- table summary -->\n<!-- end of table man -->\n", f":1: {NOT_A_PAIR}"),
        ("<!--table man-->\n", f":1: {NOT_A_PAIR}"),
    ],
)
def test_wrong_markers(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str) -> None:
    measured(tmp_path)
    at = put(tmp_path, "results/README.md", text)
    assert f"results/README.md{message}" in refusal(tmp_path, capsys)
    assert at.read_text() == text


@pytest.mark.parametrize(("name", "old", "new", "message"), [
    ("results/man/table1.csv", ",34.8,", ",much,", ":4: score must be a number, not 'much'"),
    ("results/man/table1.csv", "small,man,transformer_man,,2,", "small,man,transformer_man,,1,",
     ":4: scale small, row man, seed 1, settings aa, metric sacrebleu: is on line 3 already"),
    ("results/man/table1.csv", "small,transformer,", "small,plain,", ":2: configs/man/table1.yaml has no row 'plain'"),
    ("results/man/table1.csv", "small,transformer,", "tiny,transformer,", ":2: there is no scale 'tiny'"),
    ("configs/man/table1.yaml", "  man: {label", "  man: {lable", ":7: unknown key 'lable'; did you mean 'label'"),
])  # fmt: skip
def test_wrong_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, old: str, new: str, message: str
) -> None:
    """They are refused in one line, and the page stays as it is."""
    measured(tmp_path)
    path = tmp_path / name
    text = path.read_text()
    assert text.count(old) == 1, text
    path.write_text(text.replace(old, new))
    at = page(tmp_path, "man")
    before = at.read_text()
    assert f"{name}{message}" in refusal(tmp_path, capsys)
    assert at.read_text() == before


def test_the_repositorys_pages_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    """README.md and results/*.md say what the CSVs say. To mend it: python results/make_tables.py"""
    assert pages.main(["--check"]) == 0, capsys.readouterr().err
    shown = {block["name"] for path in pages.pages(ROOT) for block in pages.blocks_of(path, path.read_text())}
    assert {"summary", "man", "diffwin", "csan", "mma", "mgsa", "ranking", "sample", "speed", "attentions"} <= shown
