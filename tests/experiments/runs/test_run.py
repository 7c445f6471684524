"""Runs: what is finished is skipped, a failure loses nothing, and a run says what code has run."""

from __future__ import annotations

import errno
import shutil
import subprocess
from pathlib import Path
from unittest.mock import Mock

import pytest

from experiments.recipes.recipe import Recipe
from experiments.runs import run, schedule
from experiments.runs.checkpoints import LAST
from experiments.system import checkout, processes, progress
from fairseq_localattn.files import write_whole
from support.engine.runs import FakeRun, fake_run, save_checkpoint
from support.recipes import load, with_flag


def run_all(*runs: FakeRun) -> dict[str, str]:
    """Bring runs to their end; return the errors of those that failed, by architecture."""
    failed: dict[str, str] = {}
    lanes = [runs[0].launch] * 2
    schedule.run_all(runs, lanes, progress.Progress(), failed=lambda run, error: failed.update({run.arch: str(error)}))
    return failed


def test_a_run_that_cannot_be_measured_does_not_stop_the_others(tmp_path: Path) -> None:
    """Its measuring leaves nothing behind. Where nobody looks after failures, the first one is raised."""
    text = "metric: perplexity\n" + with_flag("task: language_modeling").partition("generate:")[0]
    runs = [fake_run(load(tmp_path, text), tmp_path, name) for name in "ab"]
    for one in runs:
        one.measure_code = "print('no perplexity')"
    failed = run_all(*runs)
    assert set(failed) == {"a", "b"} and "has not logged a perplexity" in failed["a"]
    with pytest.raises(processes.JobFailed, match="has not logged"):
        schedule.run_all(runs, [runs[0].launch], progress.Progress())


def test_a_folder_has_one_owner(loaded: Recipe, tmp_path: Path) -> None:
    one = fake_run(loaded, tmp_path, "a")
    with processes.lock(one.folder), pytest.raises(processes.Busy, match="another run is at work here"):
        one.advance()
    assert not run_all(one)


def test_a_folder_without_locks_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes.fcntl, "flock", Mock(side_effect=OSError(errno.ENOSYS, "not implemented")))
    processes.lock(tmp_path).close()


def test_a_run_that_cannot_start_gives_its_folder_back(loaded: Recipe, tmp_path: Path) -> None:
    one = fake_run(loaded, tmp_path, "a")
    one.folder.mkdir()
    processes.write_stamp(one.folder / "trained.json", {"updates": 3})
    one.model.parent.mkdir()
    one.model.write_bytes(b"half a copy")
    with pytest.raises(processes.JobFailed, match="half a file"):
        one.advance()
    processes.lock(one.folder).close()


def test_a_run_killed_after_its_last_checkpoint_trains_no_further(loaded: Recipe, tmp_path: Path) -> None:
    """fairseq would: it looks at the number of updates only after one more."""
    one = fake_run(loaded, tmp_path, "a")
    last = save_checkpoint(one.folder, 2)
    (one.folder / "train.log").write_text("killed\n")
    assert "continues from update 2 of 3" in one.plan()
    shutil.copy(last, one.folder / LAST.parent / "checkpoint_1_2.pt")
    last.write_bytes(b"half a copy")
    assert "continues from update 2 of 3" in one.plan()
    save_checkpoint(one.folder, 3)
    assert "trained, to be decoded" in one.plan()
    assert not run_all(one)
    assert one.done() and one.facts()["updates"] == 3
    assert (one.folder / "train.log").read_text() == "killed\n"


def test_the_commit_is_that_of_the_start(loaded: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One commit where nothing changes; all of them where a run ends, or continues, at another one."""

    def present(*code: str) -> None:
        for name, value in zip(("commit", "package"), code, strict=True):
            monkeypatch.setattr(run, name, lambda value=value: value)

    present("aaa", "one")
    moved, resumed = (fake_run(loaded, tmp_path, name) for name in ("moved", "resumed"))
    good, resumed.train_code = resumed.train_code, "raise SystemExit(1)"
    assert run_all(resumed)
    assert resumed.commit() == "aaa" and resumed.other_code() is None
    assert not moved.advance()
    present("bbb", "one")
    assert resumed.other_code() is None and "another" not in resumed.plan()
    while not moved.facts():
        moved.advance()
    assert not moved.advance() and moved.commit() == "aaa..bbb"  # now it decodes
    present("ccc", "one")
    assert not run_all(moved) and moved.commit() == "aaa..bbb..ccc" and moved.other_code() is None
    present("bbb", "two")
    assert resumed.other_code() == "aaa" and "another fairseq_localattn, commit aaa" in resumed.plan()
    resumed.train_code = good
    assert not run_all(resumed)
    assert resumed.commit() == "aaa..bbb"


def test_commit_and_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*args: str) -> None:
        identity = ["-c", "user.name=n", "-c", "user.email=e"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *args], check=True, capture_output=True)

    monkeypatch.setattr(checkout, "ROOT", tmp_path)
    monkeypatch.setattr(checkout, "USER_DIR", tmp_path / "package")
    assert checkout.commit() == "none"
    git("init")
    seen = []
    for name, text in (("package/a.py", "1"), ("package/a.py", "2"), ("README", "3")):
        write_whole(tmp_path / name, text)
        git("add", ".")
        git("commit", "-m", "x")
        seen.append((checkout.commit(), checkout.package()))
    (first, old), (second, package), (third, _) = seen
    assert len({first, second, third}) == 3 and old != package == checkout.package()
    same = checkout.same_package.__wrapped__
    for commits in (second, third, f"{second}..{third}"):
        assert same(commits), commits
    for commits in (first, f"{first}..{second}", "0123456789", "none", third + "+dirty"):
        assert not same(commits), commits
    write_whole(tmp_path / "results" / "r.csv", "new")
    assert checkout.commit() == third
    (tmp_path / "package/a.py").write_text("4")
    assert checkout.commit() == third + "+dirty" and checkout.package() not in (old, package)


def test_time_left() -> None:
    assert progress.time_left([10, 4], [5, 1], 2) == 10
    assert progress.time_left([], [3, 3, 3], 2) == 6
    assert progress.time_left([5], [], 1) == 5
    assert (progress.clock(59.6), progress.clock(3723)) == ("1:00", "1:02:03")
