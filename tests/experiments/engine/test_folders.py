"""Folders of trainings: their names, and the data that they know."""

from __future__ import annotations

import json
import shutil

import pytest

from support.tables.bench import Bench

pytestmark = pytest.mark.usefixtures("fake_trainings")


def test_a_folder_is_named_by_options_and_knows_its_data(
    bench: Bench, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other data are refused, and nothing is lost."""
    mma = ("table1", "--rows", "mma")
    assert bench.run(*mma) == 0
    folder = bench.folder("transformer_mma_tiny")
    (line, *_) = lines = bench.lines("table1")
    stamp = json.loads((folder / "started.json").read_text())
    assert stamp["settings"] == line["settings"] and line["settings"] not in folder.name
    next(bench.out.glob("data/*/bin/dict.de.txt")).write_text("other\n")
    capsys.readouterr()
    assert bench.run(*mma) == 1 and bench.lines("table1") == lines and bench.trainings() == 1
    (error,) = capsys.readouterr().err.splitlines()
    assert f"mma (seed 1): {folder}: was trained on other data" in error and "move this run's folder away" in error
    shutil.move(folder, bench.root)
    assert bench.run(*mma) == 0 and len({each["settings"] for each in bench.lines("table1")}) == 2
