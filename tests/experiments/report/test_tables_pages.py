"""The pages with tables: made, checked, and refused in one line; and the repository's own, which must be up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.report import gains, pages
from support.paths import ROOT
from support.tables.files import TWO_ROWS, csv_of, line, page, put, table_file


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


def test_tables_stand_on_any_page(tmp_path: Path) -> None:
    """README.md and all of results/*.md; the tables of a paper together, or one by one."""
    measured(tmp_path)
    first = put(tmp_path, "README.md", "<!-- table summary -->\n<!-- end of table summary -->")
    first.write_text("")
    second = put(tmp_path, "results/man.md", "<!-- table man -->\n<!-- end of table man -->\n")
    assert pages.pages(tmp_path) == [first, second]
    assert pages.main([], tmp_path) == 0
    assert "### Table 1: translation\n\n| row |" in second.read_text()


def test_every_table_must_be_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A table of a paper, measured or not, that no page has is an error; and results of no table."""
    measured(tmp_path)
    page(tmp_path)
    assert refusal(tmp_path, capsys, "--check") == (
        "make_tables: error: configs/man/table1.yaml: no page has it: put its two markers, table man/table1,"
        " into results/*.md"
    )
    page(tmp_path, "man")
    assert pages.main([], tmp_path) == 0
    capsys.readouterr()
    put(
        tmp_path,
        "results/locality/own.csv",
        "checkpoint,stack,layer,sublayer,kind,window,share\nD,encoder,1,san,san,2,9.5\n",
    )
    assert "results/locality/own.csv: no page has it: put its two markers, table locality/own" in refusal(
        tmp_path, capsys
    )
    page(tmp_path, "man", "locality/own")
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
    assert (gain.label, gain.by_seed, gain.clear) == ("Table 1: DMAN | SAN", (1.0, -0.2), False)
    assert gain.paper == pytest.approx(1.9)
    assert pages.main(["--check"], tmp_path) == 0
    path.write_text(path.read_text().replace("-0.20", "-0.30"))
    assert pages.main(["--check"], tmp_path) == 1
    assert f"{picture} shows other numbers than the results" in capsys.readouterr().err
    assert pages.main([], tmp_path) == 0 and pages.main(["--check"], tmp_path) == 0


def test_quick_starts_need_no_page(tmp_path: Path) -> None:
    """Their numbers stay with their runs."""
    table_file(tmp_path, TWO_ROWS, "quickstart/toy")
    page(tmp_path)
    assert pages.main(["--check"], tmp_path) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- table mam -->\n<!-- end of table mam -->", ":1: there is no table 'mam'; did you mean 'man'?"),
        ("\n<!-- table man -->\n", ":2: table man has no line '<!-- end of table man -->'"),
        ("<!-- end of table man -->\n", ":1: table man ends here, but does not begin before"),
        ("<!-- table man -->\n<!-- table summary -->\n", ":2: table summary begins before '<!-- end of table man -->'"),
        ("<!--table man-->\n", ":1: not a marker: write '<!-- table NAME -->'"),
    ],
)
def test_wrong_markers(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str) -> None:
    measured(tmp_path)
    at = put(tmp_path, "results/README.md", text)
    assert f"results/README.md{message}" in refusal(tmp_path, capsys)
    assert at.read_text() == text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (",34.8,", ",much,", "results/man/table1.csv:4: score must be a number, not 'much'"),
        (
            "small,man,transformer_man,,2,",
            "small,man,transformer_man,,1,",
            "table1.csv:4: scale small, row man, seed 1, settings aa, metric sacrebleu: is on line 3 already",
        ),
        ("small,transformer,", "small,plain,", "results/man/table1.csv:2: configs/man/table1.yaml has no row 'plain'"),
        ("small,transformer,", "tiny,transformer,", "results/man/table1.csv:2: there is no scale 'tiny'"),
        (",36.0,", ",36.0", "results/man/table1.csv:3: 30 columns, where the first line has 31"),
        ("scale,row,", "scale,raw,", "results/man/table1.csv:1: lacks the column(s) row"),
    ],
)
def test_wrong_results(tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str) -> None:
    path = measured(tmp_path)
    text = path.read_text()
    assert text.count(old) == 1, text
    path.write_text(text.replace(old, new))
    at = page(tmp_path, "man")
    before = at.read_text()
    assert message in refusal(tmp_path, capsys)
    assert at.read_text() == before


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  man: {label", "  man: {lable", "configs/man/table1.yaml:7: unknown key 'lable'; did you mean 'label'"),
        ("baseline: transformer", "baseline: gone", "configs/man/table1.yaml:6: baseline gone: there is no such row"),
    ],
)
def test_wrong_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str) -> None:
    assert TWO_ROWS.count(old) == 1
    table_file(tmp_path, TWO_ROWS.replace(old, new))
    page(tmp_path, "man")
    assert message in refusal(tmp_path, capsys)


def test_the_repositorys_pages_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    """README.md and results/*.md say what the CSVs say. To mend it: python results/make_tables.py"""
    assert pages.main(["--check"]) == 0, capsys.readouterr().err
    shown = {block.name for path in pages.pages(ROOT) for block in pages.blocks_of(path, path.read_text().split("\n"))}
    assert {"summary", "man", "diffwin", "csan", "mma", "mgsa", "ranking", "sample"} <= shown
