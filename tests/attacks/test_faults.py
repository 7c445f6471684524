"""Outputs that cannot be written: found before the work begins, in one line; and failures of every single write."""

from __future__ import annotations

import errno
import itertools
import json
import random
import re
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
from support.cli import Done, call, fairseq, make_data, train_flags
from support.paths import ROOT
from support.tables.bench import Bench

ARCH = "transformer_mma_tiny"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("reverse"))


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench(tmp_path / "bench", monkeypatch)
    made.fake()
    made.data()
    return made


# --- outputs that cannot be written


@pytest.fixture
def refusing(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder in which nothing can be written, also not by root: on a full disk, or by the test's parameter."""
    place = tmp_path / "refusing"
    if getattr(request, "param", "full") == "under a file":
        place.write_text("")
        return place / "folder"
    place.mkdir()
    error = {"full": errno.ENOSPC, "read-only": errno.EROFS, "someone else's": errno.EACCES}
    FailingDisk(place, monkeypatch, error[getattr(request, "param", "full")]).begin(1, lasting=True)
    return place


def one_line(done: Done, *said: str) -> None:
    """Assert that a command failed with one line, which says this and what to do."""
    assert done.returncode != 0 and done.stderr.count("\n") == 1, done.stdout + done.stderr
    assert "cannot be written: " in done.stderr and "; " in done.stderr, done.stderr
    assert all(text in done.stderr for text in said), done.stderr


def of(main: Callable[..., object]) -> Callable[[], None]:
    """Return a main function that ends with the status that this one returns."""

    def door() -> None:
        sys.exit(main())  # type: ignore[arg-type]

    door.__module__ = main.__module__
    return door


@pytest.mark.parametrize("refusing", ["read-only", "full", "under a file", "someone else's"], indirect=True)
def test_of_a_table(refusing: Path, tmp_path: Path) -> None:
    words = ["--cpu", "--out", tmp_path / "out", "--results", refusing]
    one_line(call(of(table.main), "mma", "table2", *words, check=False), f"table: error: --results {refusing}")
    assert not list((tmp_path / "out").rglob("*"))


#: Command → its main function, its words (PLACE, and TMP, a folder that can be written), and how its error begins.
OUTPUTS: dict[str, tuple[Callable[..., object], str, str]] = {
    "table": (table.main, "mma table2 --cpu --out PLACE", "table: error: --out"),
    "quickstart": (quickstart.main, "--out PLACE", "quickstart: error: --out"),
    "average": (averaging.main, "TMP/one.pt --output PLACE/averaged.pt", "average: error: "),
    "benchmarks": (benchmark.main, "--parts module --out PLACE", "run: error: "),
    "analyses": (masks.main, "--out PLACE/masks.png", "--out "),  # all of them check their outputs by one function
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_of_commands(name: str, refusing: Path, tmp_path: Path) -> None:
    torch.save({}, tmp_path / "one.pt")
    main, words, said = OUTPUTS[name]
    places = {"PLACE": str(refusing), "TMP": str(tmp_path)}
    given = [re.sub("PLACE|TMP", lambda found: places[found[0]], word) for word in words.split()]
    one_line(call(main if name == "analyses" else of(main), *given, check=False), said)


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


def test_of_a_training(refusing: Path, data: Path) -> None:
    words = train_flags(data, ARCH, refusing, updates=1)
    one_line(fairseq("train", *words, check=False), "fairseq_localattn: --save-dir ")


# --- every write of a table


def state_of(bench: Bench) -> list[dict[str, str]]:
    """Return the lines of the results; and assert that what a failure has left is whole."""
    assert not left_over(bench.root)
    for path in [*bench.out.rglob("*.json"), *bench.out.rglob(".*.json")]:
        json.loads(path.read_text("utf-8"))
    return [{**line.values, "date": ""} for line in Results(bench.results / "mma" / "table1.csv").lines()]


def run_table(bench: Bench) -> Done:
    words = ["table1", "--rows", "mma", "--seeds", "1"]
    return call(of(lambda: bench.run(*words)), check=False)


def fail_at(bench: Bench, disk: FailingDisk, number: int, lasting: bool) -> bool:
    """Let the write of this number fail, then start again; return whether there was such a write."""
    for folder in (bench.results, *bench.out.glob("transformer_*")):
        shutil.rmtree(folder, ignore_errors=True)
    disk.begin(number, lasting)
    failed = run_table(bench)
    reached = len(disk.writes) >= number
    where = f"write {number}: {disk.writes[number - 1] if reached else 'none'}\n{failed.stderr}"
    lines = failed.stderr.splitlines()
    assert len(lines) <= 1 and all(line.startswith("table: ") and "No space left" in line for line in lines), where
    assert bool(failed.returncode) == bool(lines) and (not lasting or not reached or lines), where
    state_of(bench)
    disk.begin()
    again = run_table(bench)
    assert again.returncode == 0, where + again.stderr
    return reached


@pytest.fixture
def failing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> tuple[FailingDisk, list[dict[str, str]]]:
    """Return a disk of the bench that can fail, and the lines of an undisturbed run."""
    monkeypatch.setattr("experiments.runs.run.commit", lambda: "0123456789")  # git takes its time
    monkeypatch.setattr("experiments.engine.ledger.commit", lambda: "0123456789")
    disk = FailingDisk(bench.root, monkeypatch)
    done = run_table(bench)
    assert done.returncode == 0, done.stderr
    assert len(disk.writes) > 20 and {what.split()[0] for what in disk.writes} >= {"open", "write", "replace", "mkdir"}
    return disk, state_of(bench)


SOME = [
    pytest.param(False, id="some", marks=pytest.mark.slow),
    pytest.param(True, id="every", marks=pytest.mark.attack),
]


@pytest.mark.parametrize("every", SOME)
@pytest.mark.parametrize("lasting", [False, True])
def test_writes_of_a_table(
    lasting: bool, every: bool, bench: Bench, failing: tuple[FailingDisk, list[dict[str, str]]]
) -> None:
    disk, expected = failing
    count = len(disk.writes)
    chosen = random.Random(22 + lasting).sample(range(1, count + 1), 2)
    for number in range(1, count + 1) if every else chosen:
        fail_at(bench, disk, number, lasting)
        assert state_of(bench) == expected


# --- every write of saving


SAVED = {"save_interval_updates": 2, "keep_interval_updates": 2}
UPDATES = 6


def training(data: Path, folder: Path) -> Done:
    return fairseq("train", *train_flags(data, ARCH, folder, UPDATES, **SAVED), check=False)


@pytest.fixture(scope="module")
def undisturbed(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the last checkpoint of a training without faults."""
    folder = tmp_path_factory.mktemp("undisturbed")
    done = training(data, folder)
    assert done.returncode == 0, done.stderr
    return folder / "checkpoint_last.pt"


def assert_stopped(done: Done, folder: Path) -> None:
    """Assert that a training ended with one line, and has left whole checkpoints alone."""
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("fairseq_localattn: ") and "Traceback" not in done.stdout
    assert not left_over(folder)
    for path in folder.glob("*.pt"):
        torch.load(path, weights_only=True)


def fail_saving(disk: FailingDisk, number: int, data: Path, undisturbed: Path) -> bool:
    """Let a write of a training fail, and continue it; return whether there was such a write."""
    folder = Path(disk.folder)
    shutil.rmtree(folder, ignore_errors=True)
    disk.begin(number)
    done = training(data, folder)
    if len(disk.writes) < number:
        assert done.returncode == 0
        return False
    if done.returncode == 0:  # without the lock the training goes on, and fairseq makes the folder itself
        assert disk.writes[number - 1].startswith("mkdir") or disk.writes[number - 1].endswith(".training.lock")
    else:
        assert_stopped(done, folder)
        disk.begin()
        done = training(data, folder)
    assert done.returncode == 0, done.stderr
    assert_same_training(folder / "checkpoint_last.pt", undisturbed)
    return True


@pytest.mark.parametrize("every", SOME)
def test_writes_of_saving(
    every: bool, data: Path, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FailingDisk(tmp_path / "run", monkeypatch)
    for number in itertools.count(1) if every else (5, 9):
        if not fail_saving(disk, number, data, undisturbed):
            assert number > 12
            return


# --- disks that fill up


@pytest.mark.slow
def test_an_average_on_a_disk_that_fills_up(undisturbed: Path, tmp_path: Path) -> None:
    """It is found out while the file is written; the former average stays."""
    with small_disk(tmp_path / "disk", undisturbed.stat().st_size // 1024 // 3) as disk:
        former = disk.folder / "averaged.pt"
        former.write_bytes(b"former")
        done = call(of(averaging.main), undisturbed, "--output", former, check=False)
        one_line(done, f"average: error: {former}: cannot be written")
        assert former.read_bytes() == b"former" and [path.name for path in disk.folder.iterdir()] == ["averaged.pt"]
        disk.resize(100_000)
        assert call(of(averaging.main), undisturbed, "--output", former).returncode == 0
        assert torch.load(former, weights_only=True)["extra_state"]["averaged"] == [undisturbed.name]


def test_tables_and_pictures_on_a_disk_that_fills_up(tmp_path: Path) -> None:
    """What analyses write: the former files stay."""
    with small_disk(tmp_path / "disk", 32) as disk:
        table_file, picture = disk.folder / "a.csv", disk.folder / "a.png"
        table_file.write_text("former")
        picture.write_text("former")
        figure = new_figure(figsize=(30, 30))
        figure.subplots().plot([1, 2, 3])
        for write in (
            lambda: save_csv(table_file, ["a"], [["x" * 100] for _ in range(1000)]),
            lambda: save_figure(figure, picture),
        ):
            with pytest.raises(
                UsageError, match=r"a\.(csv|png): cannot be written: No space left on device; free some"
            ):
                write()
        assert table_file.read_text() == picture.read_text() == "former" and not left_over(disk.folder)
