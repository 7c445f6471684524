"""Rows are tested against what was counted of a baseline's output, where that is gone."""

from __future__ import annotations

import shutil
import zipfile

import pytest

from support.tables.bench import GENERATE, Bench

BASELINE = "counts/transformer_localattn_tiny.zip"
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("fake_trainings")]


@pytest.fixture
def measured(bench: Bench, capsys: pytest.CaptureFixture) -> Bench:
    """Both tables, measured, of which the runs and Table 2 are gone."""
    assert bench.run("table1") == 0 and bench.run("table2") == 0
    archives = (bench.results / "counts").glob("*.zip")
    names = {name for path in archives for name in zipfile.ZipFile(path).namelist()}
    lines = [*bench.lines("table1"), *bench.lines("table2")]
    assert names == {f"{line['architecture']}.{line['settings']}.seed1.test.npz" for line in lines} and len(names) == 3
    (bench.results / "mma" / "table2.csv").rename(bench.root / "table2.csv")
    forget_runs(bench)
    capsys.readouterr()
    return bench


def forget_runs(bench: Bench) -> None:
    for run in bench.out.glob("transformer_*"):
        shutil.rmtree(run)


def test_a_row_is_tested_against_counts(measured: Bench, capsys: pytest.CaptureFixture) -> None:
    """With damaged ones, or none, it is scored without a difference, and it is said why."""
    path = measured.results / BASELINE
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    assert measured.run("table2", "--rows", "window") == 1
    assert measured.scores("table2")["window"]["difference"] == ""
    (told,) = capsys.readouterr().err.splitlines()
    assert f"{path}: no archive of counts, or a damaged one" in told and "is missing: train plain again" in told
    path.write_bytes(whole)
    assert measured.run("table2") == 0
    assert measured.trainings() == 1  # "all" is adopted from Table 1, and the baseline is not needed
    expected = (measured.root / "table2.csv").read_text().splitlines()
    assert sorted((measured.results / "mma" / "table2.csv").read_text().splitlines()) == sorted(expected)
    (measured.results / "mma" / "table2.csv").unlink()
    shutil.rmtree(measured.results / "counts")
    assert measured.run("table2", "--rows", "window") == 0
    found = measured.scores("table2")["window"]
    assert (found["score"], found["difference"], found["p_value"]) == ("100.00", "", "")
    assert "plain is not trained: its difference is added when it is" in capsys.readouterr().out


def test_a_baseline_that_is_trained_again(measured: Bench) -> None:
    """Rows wait for it, in whatever order, and its counts become those of the new output."""
    path = measured.results / BASELINE
    before = path.read_bytes()
    (measured.results / "mma" / "table1.csv").unlink()
    alike = GENERATE.replace("sys.argv[3] == 'True'", "False")  # translations without errors from all models
    measured.patch.setattr("support.tables.bench.GENERATE", alike)
    assert measured.run("table1", "--rows", "mma") == 0
    assert measured.run("table1") == 0
    found = measured.scores("table1")
    assert {line["score"] for line in found.values()} == {"100.00"} and found["mma"]["difference"] == "0.00"
    assert path.read_bytes() != before
    forget_runs(measured)
    assert measured.run("table2", "--rows", "window") == 0
    assert measured.scores("table2")["window"]["difference"] == "0.00"
