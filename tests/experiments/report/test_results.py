"""The CSV files of results/: no line comes twice, none is lost, and a file of another kind stays as it is."""

from __future__ import annotations

import csv
import io
import re
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from experiments.measure.bleu import Counter
from experiments.measure.counts import IDENTITY, archive_of
from experiments.measure.csv_files import read_lines
from experiments.measure.generated import ScoreError
from experiments.report.results import COLUMNS, KEY, Results
from support.paths import ROOT


def line(seed: int, score: str = "30.00") -> dict[str, str]:
    return {**dict.fromkeys(COLUMNS, "x"), "seed": str(seed), "score": score}


def put(results: Results, new: dict[str, str]) -> None:
    """Put a line in place of that of its seed."""
    results.put([new], instead=lambda old: old["seed"] == new["seed"])


def test_a_line_never_comes_twice(tmp_path: Path) -> None:
    results = Results(tmp_path / "r" / "t.csv")
    assert results.lines() == []
    results.path.parent.mkdir()
    (results.path.parent / ".t.csv.99999.part").touch()  # of a writer that was killed
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
    assert {path.name for path in results.path.parent.iterdir()} == {"t.csv", ".lock"}


def test_committed_results_say_their_commit() -> None:
    """Every line of every CSV that was measured, those of the analyses and the benchmarks included; none twice."""
    form = re.compile(r"[0-9a-f]{10}(\+dirty)?(\.\.[0-9a-f]{10}(\+dirty)?)*")
    paths = sorted({*(ROOT / "results").rglob("*.csv")} - {ROOT / "results" / "claims.csv"})
    assert {"benchmarks", "figures", "locality", "mma"} <= {path.parent.name for path in paths}
    for path in paths:
        of_table = (ROOT / "configs" / path.parent.name / path.name).with_suffix(".yaml").is_file()
        for found in read_lines(path, *((COLUMNS, KEY) if of_table else ())):
            assert form.fullmatch(found["commit"]), found.where


def test_observations_are_numbers_of_pages() -> None:
    """What was measured once names its page, and its numbers are numbers; a place or a range may have none."""
    found = read_lines(ROOT / "results" / "observations.csv", ("page", "topic", "row", "measure", "by_seed", "value"))
    assert len(found) > 400
    for line in found:
        assert (ROOT / "results" / f"{line['page']}.md").is_file() and line["topic"] and line["row"], line.where
        numbers = [*line["by_seed"].split(), *line["value"].split(), *line["p_value"].split()]
        assert all(re.fullmatch(r"-?\d+\.?\d*", number) for number in numbers), line.where
        assert numbers or line["hardware"], line.where


def test_results_readme_names_every_column() -> None:
    text = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in COLUMNS)


@pytest.mark.parametrize("end", [b"\r\n", b"\n\n"])
def test_blank_lines_of_a_csv_are_skipped(end: bytes, tmp_path: Path) -> None:
    """As editors leave them; the next line of the results is put behind the others."""
    results = Results(tmp_path / "t.csv")
    results.put([line(1), line(2)], instead=lambda old: False)
    whole = results.path.read_bytes()
    results.path.write_bytes(end + whole.replace(b"\n", b"\n" + end, 1) + end)
    assert [each.values for each in results.lines()] == [line(1), line(2)]
    results.put([], instead=lambda old: False)
    assert results.path.read_bytes() == whole


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:-1], ":3: the last line is cut, without its end: .*, or end the line, if it is whole"),
        (lambda data: data[:-40] + b"\n", r":3: \d+ columns, where the first line has 31"),
        (lambda data: data + b",\n", ":4: 2 columns"),
        (lambda data: data.replace(b",x,", b",\xff,", 1), ":2: byte 0xff is not UTF-8"),
        (lambda data: data[:-9] + b"\0" * 8 + b"\n", ":3: holds a NUL byte"),
        (lambda data: b"", ": is empty: remove it"),
        (lambda data: b"a,b\n1,2\n", r":1: lacks the column\(s\) scale,"),
        (lambda data: data.replace(b"\n", b",x\n").replace(b"note,x", b"note,more"), ":1: other columns than scale,"),
    ],
)
def test_a_damaged_csv_is_refused(damage: Callable[[bytes], bytes], message: str, tmp_path: Path) -> None:
    """In one line with its place; the file stays as it is."""
    results = Results(tmp_path / "t.csv")
    results.put([line(1), line(2)], instead=lambda old: False)
    damaged = damage(results.path.read_bytes())
    results.path.write_bytes(damaged)
    for read in (results.lines, lambda: put(results, line(3))):
        with pytest.raises(ScoreError, match=rf"t\.csv{message}") as caught:
            read()
        assert "\n" not in str(caught.value)
    assert results.path.read_bytes() == damaged
    assert {path.name for path in tmp_path.iterdir()} == {"t.csv", ".lock"}


def test_counts_are_those_of_the_scores() -> None:
    """The archives in results/counts have the files of lines of the tables, and these give their scores."""
    lines = [line for path in ROOT.glob("results/*/*.csv") for line in csv.DictReader(path.open(encoding="utf-8"))]
    named = ("architecture", "settings", "seed", "score")
    scores = {(*map(line.get, named), str(line.get("metric")).rpartition("/")[2]) for line in lines}
    counter = Counter([["x"]])
    archives = sorted(ROOT.glob("results/counts/*"))
    assert archives and {path.suffix for path in archives if path.name != ".lock"} == {".zip"}
    for archive in (path for path in archives if path.suffix == ".zip"):
        with zipfile.ZipFile(archive) as members:
            for name in members.namelist():
                found = re.fullmatch(r"(\w+)\.(\w{8})\.seed(\d+)\.\w+\.npz", name)
                assert found is not None and archive_of(archive.with_name(name)) == archive, name
                with np.load(io.BytesIO(members.read(name)), allow_pickle=False) as file:
                    for metric in (name for name in file.files if not name.endswith(IDENTITY)):
                        score = f"{counter.bleu(file[metric].sum(0, dtype=np.int64)):.2f}"
                        assert (*found.groups(), score, metric) in scores, f"{name}: {metric} {score}"
