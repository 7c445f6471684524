"""Outputs that cannot be written: found before the work begins, in one line; and failures of every single write."""

from __future__ import annotations

import itertools
import json
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from benchmarks import command as benchmark
from experiments.engine import quickstart, table
from experiments.report import pages
from experiments.report.results import Results
from experiments.runs import averaging
from fairseq_localattn.analysis import masks
from fairseq_localattn.analysis.command import new_figure, save_csv, save_figure
from fairseq_localattn.errors import UsageError
from support.attacks.faults import FailingDisk, left_over, small_disk
from support.checkpoints import assert_same_training
from support.cli import Done, call, fairseq, train_flags
from support.paths import ROOT
from support.tables.bench import Bench

ARCH = "transformer_mma_tiny"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench(tmp_path / "bench", monkeypatch)
    made.fake()
    made.data()
    return made


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder in which nothing can be written, also not by root."""
    place = tmp_path / "full"
    place.mkdir()
    FailingDisk(place, monkeypatch).begin(1, lasting=True)
    return place


def one_line(done: Done, said: str) -> None:
    """Assert that a command failed with one line, which says this and what to do."""
    assert done.returncode != 0 and done.stderr.count("\n") == 1, done.stdout + done.stderr
    assert said in done.stderr and "cannot be written: " in done.stderr and "; " in done.stderr, done.stderr


def ended(main: Callable[..., object], *words: object) -> Done:
    """Call a main function that returns its status."""
    return call(lambda: sys.exit(main()), *words, check=False)  # type: ignore[arg-type]


#: Main function, its words ({place}, and {tmp}, a folder that can be written), and how its error begins.
OUTPUTS: list[tuple[Callable[..., object], str, str]] = [
    (table.main, "mma table2 --cpu --out {place}", "table: error: --out"),
    (table.main, "mma table2 --cpu --out {tmp}/out --results {place}", "table: error: --results"),
    (quickstart.main, "--out {place}", "quickstart: error: --out"),
    (averaging.main, "{tmp}/one.pt --output {place}/averaged.pt", "average: error: "),
    (benchmark.main, "--parts module --out {place}", "run: error: "),
    (masks.main, "--out {place}/masks.png", "--out "),  # all analyses check their outputs by one function
]


@pytest.mark.parametrize(("main", "words", "said"), OUTPUTS)
def test_of_commands(main: Callable[..., object], words: str, said: str, full: Path, tmp_path: Path) -> None:
    torch.save({}, tmp_path / "one.pt")
    one_line(ended(main, *words.format(place=full, tmp=tmp_path).split()), said)
    assert not list(tmp_path.glob("out/**/*.*"))


def test_of_tables_and_pictures(full: Path) -> None:
    """What analyses write after their work."""
    with pytest.raises(UsageError, match=r"a\.csv: cannot be written: No space left on device; free some"):
        save_csv(full / "a.csv", ["a"], [["x"]])
    with pytest.raises(UsageError, match=r"a\.png: cannot be written: No space left on device; free some"):
        save_figure(new_figure(), full / "a.png")


def test_of_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    """A page that cannot be renewed stays as it was."""
    for name in ("results", "configs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "README.md", tmp_path)
    page = next(path for path in (tmp_path / "results").glob("*.md") if "<!-- table" in path.read_text("utf-8"))
    before = page.read_text("utf-8").replace("| ", "|  ", 50)
    page.write_text(before, "utf-8")
    FailingDisk(tmp_path, monkeypatch).begin(1, lasting=True)
    assert pages.main([], tmp_path) == 2
    told = capsys.readouterr().err
    assert told.startswith("make_tables: error: ") and "No space left" in told and told.count("\n") == 1
    assert page.read_text("utf-8") == before and not left_over(tmp_path)


def test_of_a_training(full: Path, data: Path) -> None:
    words = train_flags(data, ARCH, full, updates=1)
    one_line(fairseq("train", *words, check=False), "fairseq_localattn: --save-dir ")


def state_of(bench: Bench) -> list[dict[str, str]]:
    """Return the lines of the results; and assert that what a failure has left is whole."""
    assert not left_over(bench.root)
    for path in [*bench.out.rglob("*.json"), *bench.out.rglob(".*.json")]:
        json.loads(path.read_text("utf-8"))
    return [{**line.values, "date": ""} for line in Results(bench.results / "mma" / "table1.csv").lines()]


def run_table(bench: Bench) -> Done:
    return ended(lambda: bench.run("table1", "--rows", "mma", "--seeds", "1"))


SOME = pytest.param(False, id="some", marks=pytest.mark.slow), pytest.param(True, id="every", marks=pytest.mark.attack)


@pytest.mark.parametrize("every", SOME)
@pytest.mark.parametrize("lasting", [False, True])
def test_writes_of_a_table(lasting: bool, every: bool, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """One write fails, or it and all after it; started again, the table ends with the lines of an undisturbed run."""
    monkeypatch.setattr("experiments.runs.run.commit", lambda: "0123456789")  # git takes its time
    monkeypatch.setattr("experiments.engine.ledger.commit", lambda: "0123456789")
    disk = FailingDisk(bench.root, monkeypatch)
    done = run_table(bench)
    assert done.returncode == 0, done.stderr
    expected, count = state_of(bench), len(disk.writes)
    assert count > 20 and {what.split()[0] for what in disk.writes} >= {"open", "write", "replace", "mkdir"}
    numbers = range(1, count + 1)
    for number in numbers if every else random.Random(22 + lasting).sample(numbers, 2):
        for folder in (bench.results, *bench.out.glob("transformer_*")):
            shutil.rmtree(folder, ignore_errors=True)
        disk.begin(number, lasting)
        failed = run_table(bench)
        reached = len(disk.writes) >= number
        where = f"write {number}: {disk.writes[-1:]}\n{failed.stderr}"
        lines = failed.stderr.splitlines()
        assert len(lines) <= 1 and all(line.startswith("table: ") and "No space left" in line for line in lines), where
        assert bool(failed.returncode) == bool(lines) and (not lasting or not reached or lines), where
        state_of(bench)
        disk.begin()
        again = run_table(bench)
        assert again.returncode == 0, where + again.stderr
        assert state_of(bench) == expected, where


def training(data: Path, folder: Path) -> Done:
    saved = {"save_interval_updates": 2, "keep_interval_updates": 2}
    return fairseq("train", *train_flags(data, ARCH, folder, 6, **saved), check=False)


@pytest.fixture(scope="module")
def undisturbed(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    done = training(data, folder)
    assert done.returncode == 0, done.stderr
    return folder / "checkpoint_last.pt"


@pytest.mark.parametrize("every", SOME)
def test_writes_of_saving(
    every: bool, data: Path, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The training ends in one line and leaves whole checkpoints; started again, it ends as an undisturbed one."""
    folder = tmp_path / "run"
    disk = FailingDisk(folder, monkeypatch)
    for number in itertools.count(1) if every else (5, 9):
        shutil.rmtree(folder, ignore_errors=True)
        disk.begin(number)
        done = training(data, folder)
        if len(disk.writes) < number:  # there are no more
            assert done.returncode == 0 and number > 12
            return
        if done.returncode == 0:  # without the lock the training goes on, and fairseq makes the folder itself
            assert disk.writes[number - 1].startswith("mkdir") or disk.writes[number - 1].endswith(".training.lock")
        else:
            assert done.stderr.startswith("fairseq_localattn: ") and done.stderr.count("\n") == 1, done.stderr
            assert done.returncode == 1 and "Traceback" not in done.stdout and not left_over(folder)
            for path in folder.glob("*.pt"):
                torch.load(path, weights_only=True)
            disk.begin()
            done = training(data, folder)
        assert done.returncode == 0, done.stderr
        assert_same_training(folder / "checkpoint_last.pt", undisturbed)


@pytest.mark.slow
def test_an_average_on_a_disk_that_fills_up(undisturbed: Path, tmp_path: Path) -> None:
    """It is found out while the file is written; the former average stays."""
    with small_disk(tmp_path / "disk", undisturbed.stat().st_size // 1024 // 3) as disk:
        former = disk.folder / "averaged.pt"
        former.write_bytes(b"former")
        one_line(ended(averaging.main, undisturbed, "--output", former), f"average: error: {former}: cannot be written")
        assert former.read_bytes() == b"former" and [path.name for path in disk.folder.iterdir()] == ["averaged.pt"]
        disk.resize(100_000)
        assert ended(averaging.main, undisturbed, "--output", former).returncode == 0
        assert torch.load(former, weights_only=True)["extra_state"]["averaged"] == [undisturbed.name]
