"""The CSV files of results/: no line comes twice, none is lost, and a file of another kind stays as it is."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from experiments.measure.generated import ScoreError
from experiments.report.results import COLUMNS, KEY, Line, Results
from support.paths import ROOT


def line(seed: int, score: str = "30.00") -> Line:
    return {**dict.fromkeys(COLUMNS, "x"), "seed": str(seed), "score": score}


def put(results: Results, new: Line) -> None:
    """Put a line in place of that of its seed."""
    results.put([new], instead=lambda old: old["seed"] == new["seed"])


def test_a_line_never_comes_twice(tmp_path: Path) -> None:
    results = Results(tmp_path / "r" / "t.csv")
    assert results.lines() == []
    threads = [threading.Thread(target=put, args=(results, line(n % 4))) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found["seed"] for found in results.lines()) == list("0123")
    put(results, line(1, "99.00"))
    put(results, line(9))
    assert [found["score"] for found in results.lines() if found["seed"] == "1"] == ["99.00"]
    assert len(results.lines()) == 5
    assert results.path.read_text(encoding="utf-8").splitlines()[0] == ",".join(COLUMNS)
    assert [path.name for path in results.path.parent.iterdir()] == ["t.csv"]


def test_a_foreign_csv_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ScoreError, match=r"t\.csv:1: other columns"):
        put(Results(path), line(1))
    assert path.read_text() == "a,b\n1,2\n"


def test_committed_results_have_the_columns() -> None:
    paths = sorted((ROOT / "results").glob("*/*.csv"))
    paths = [path for path in paths if (ROOT / "configs" / path.parent.name / f"{path.stem}.yaml").is_file()]
    assert "mma/table2.csv" in [path.relative_to(ROOT / "results").as_posix() for path in paths]
    for path in paths:
        found = Results(path).lines()
        assert found, path
        keys = [tuple(entry[name] for name in KEY) for entry in found]
        assert len(set(keys)) == len(keys), path


def test_results_readme_names_every_column() -> None:
    text = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in COLUMNS)
