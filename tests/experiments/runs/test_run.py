"""Runs: what is finished is skipped, a failure loses nothing, and a run says what code has run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.recipes.recipe import Recipe, load_recipe
from experiments.runs import run, schedule
from experiments.runs.checkpoints import LAST
from experiments.system import checkout, processes, progress
from fairseq_localattn.files import write_whole
from support.engine.runs import FakeRun, fake_run, save_checkpoint
from support.paths import SCRIPTS
from support.recipes import BASE, with_flag, write


def run_all(*runs: FakeRun) -> dict[str, str]:
    """Bring runs to their end; return the errors of those that failed, by architecture."""
    failed: dict[str, str] = {}
    lanes = [runs[0].launch] * 2
    schedule.run_all(runs, lanes, progress.Progress(), failed=lambda run, error: failed.update({run.arch: str(error)}))
    return failed


def test_finished_steps_are_skipped(loaded: Recipe, tmp_path: Path) -> None:
    assert not run_all(fake_run(loaded, tmp_path, "a"))
    again = fake_run(loaded, tmp_path, "a")
    assert again.done() and again.output.exists() and not (again.folder / "generating").exists()
    log = again.folder / "train.log"
    assert log.read_text() == "trained\n"
    run_all(again)
    (again.folder / "generated.json").unlink()
    assert not run_all(fake_run(loaded, tmp_path, "a"))
    assert again.done() and log.read_text() == "trained\n"


def test_a_failing_run_does_not_lose_the_others(loaded: Recipe, tmp_path: Path) -> None:
    bad = fake_run(loaded, tmp_path, "bad")
    bad.train_code = "raise SystemExit('out of luck')"
    good = [fake_run(loaded, tmp_path, name) for name in "ab"]
    failed = run_all(bad, *good)
    assert list(failed) == ["bad"] and all(one.done() for one in good)
    assert "out of luck" in failed["bad"] and str(bad.folder / "train.log") in failed["bad"]
    with pytest.raises(processes.JobFailed, match="exit status 1"):
        schedule.run_all([bad], [bad.launch], progress.Progress())


class Unmeasured(FakeRun):
    """A run whose measuring leaves nothing behind."""

    measure_code = "print('no perplexity')"


def test_a_run_that_cannot_be_measured_does_not_stop_the_others(tmp_path: Path) -> None:
    text = "metric: perplexity\n" + with_flag("task: language_modeling").partition("generate:")[0]
    loaded = load_recipe(write(tmp_path, text))
    failed = run_all(*(fake_run(loaded, tmp_path, name, Unmeasured) for name in "ab"))
    assert set(failed) == {"a", "b"} and "has not logged a perplexity" in failed["a"]


def test_a_folder_has_one_owner(loaded: Recipe, tmp_path: Path) -> None:
    one = fake_run(loaded, tmp_path, "a")
    with processes.lock(one.folder), pytest.raises(processes.Busy, match="another run is at work here"):
        one.advance()
    assert not run_all(one)


def test_a_run_that_cannot_start_gives_its_folder_back(loaded: Recipe, tmp_path: Path) -> None:
    one = fake_run(loaded, tmp_path, "a")
    one.folder.mkdir()
    processes.write_stamp(one.folder / "trained.json", {"updates": 3})
    one.model.parent.mkdir()
    one.model.write_bytes(b"half a copy")
    with pytest.raises(processes.JobFailed, match="half a file"):
        one.advance()
    processes.lock(one.folder).close()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal at a parent's death is Linux's")
def test_children_die_with_a_killed_runner(tmp_path: Path) -> None:
    code = (
        "import time\nfrom pathlib import Path\nfrom experiments.system.processes import Job\n"
        f"job = Job(['sleep', '60'], Path({str(tmp_path / 'log')!r}), threads=1)\n"
        "print(job.process.pid, flush=True); time.sleep(60)"
    )
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    for _ in range(50):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{child}/stat").read_text().split()[2] == "Z":
            return
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the child outlived its runner")


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


@pytest.mark.parametrize("kept", [False, True])
def test_what_an_average_was_made_of_goes(kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = fake_run(load_recipe(write(tmp_path, BASE + "average: {last: 2}\n")), tmp_path, "a")
    one.keep_checkpoints = kept
    monkeypatch.setattr(one, "average_argv", lambda: ["cp", str(one.folder / LAST), str(one.model)])
    last = save_checkpoint(one.folder, 3)
    parts = [Path(shutil.copy(last, last.with_name(f"checkpoint_1_{n}.pt"))) for n in (2, 3)]
    (one.folder / "train.log").write_text("")
    assert not run_all(one) and one.done()
    assert [part.exists() for part in parts] == [kept, kept] and last.exists()


# --- which code has run


def test_the_commit_is_that_of_the_start(loaded: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One commit where nothing changes; both where a run ends, or continues, at another one."""
    state = ["aaa", "one"]
    monkeypatch.setattr(run, "commit", lambda: state[0])
    monkeypatch.setattr(run, "package", lambda: state[1])
    still, moved, resumed = (fake_run(loaded, tmp_path, name) for name in ("still", "moved", "resumed"))
    assert not run_all(still)
    assert (still.commit(), still.other_code()) == ("aaa", None)
    good, resumed.train_code = resumed.train_code, "raise SystemExit(1)"
    assert run_all(resumed)
    assert resumed.commit() == "aaa" and resumed.other_code() is None
    assert not moved.advance()
    state[:] = ["bbb", "one"]
    assert resumed.other_code() is None and "another" not in resumed.plan()
    while not moved.facts():
        moved.advance()
    assert not moved.advance() and moved.commit() == "aaa..bbb"  # now it decodes
    state[:] = ["ccc", "one"]
    while not moved.advance():
        time.sleep(0.02)
    assert (still.commit(), moved.commit()) == ("aaa", "aaa..bbb..ccc")
    state[:] = ["bbb", "two"]
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
    commits, packages = [], []
    for name, text in (("package/a.py", "1"), ("package/a.py", "2"), ("README", "3")):
        write_whole(tmp_path / name, text)
        git("add", ".")
        git("commit", "-m", "x")
        commits.append(checkout.commit())
        packages.append(checkout.package())
    assert len(set(commits)) == 3 and packages[0] != packages[1] == packages[2]
    same = checkout.same_package.__wrapped__
    assert [same(name) for name in commits] == [False, True, True]
    assert same(f"{commits[1]}..{commits[2]}") and not same(f"{commits[0]}..{commits[1]}")
    assert not same("0123456789") and not same("none") and not same(commits[2] + "+dirty")
    write_whole(tmp_path / "results" / "r.csv", "new")
    assert checkout.commit() == commits[2]
    (tmp_path / "package/a.py").write_text("4")
    assert checkout.commit() == commits[2] + "+dirty" and checkout.package() not in packages


# --- progress


def test_time_left() -> None:
    assert progress.time_left([10, 4], [5, 1], 2) == 10
    assert progress.time_left([], [3, 3, 3], 2) == 6
    assert progress.time_left([5], [], 1) == 5
    assert (progress.clock(59.6), progress.clock(3723)) == ("1:00", "1:02:03")
