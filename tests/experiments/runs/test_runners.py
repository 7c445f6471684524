"""Runners: what is finished is skipped, a failure loses nothing, rows come once and say what code has run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest
import torch

from experiments.measure import command as score
from experiments.measure import measures
from experiments.recipes import recipe
from experiments.report import results, summary
from experiments.runs import checkout, progress, schedule
from experiments.runs import checkpoints as training
from experiments.runs import processes as jobs
from experiments.runs import run as runs
from support.paths import ROOT
from support.recipes import BASE, with_flag, write

# --- runs


class FakeRun(runs.Run):
    """A run whose two steps are one-line Python programs: what is tested is what goes on around them."""

    train_code = "print('trained'); open('{log}', 'a')"
    generate_code = "open('{folder}/generating/generate-test.txt', 'w')"

    def train_argv(self) -> list[str]:
        return [sys.executable, "-c", self.train_code.replace("{log}", str(self.folder / "train.json.log"))]

    def generate_argv(self, subset: str = "test") -> list[str]:
        return [sys.executable, "-c", self.generate_code.replace("{folder}", str(self.folder))]


@pytest.fixture
def loaded(tmp_path: Path) -> recipe.Recipe:
    return recipe.load_recipe(write(tmp_path, BASE))


def fake(loaded: recipe.Recipe, folder: Path, name: str) -> FakeRun:
    return FakeRun(loaded, name, 1, runs.Prepared(folder / "data", "de", "en"), folder / name)


def test_finished_steps_are_skipped(loaded: recipe.Recipe, tmp_path: Path) -> None:
    schedule.run_all([fake(loaded, tmp_path, "a")], 1, progress.Progress())
    run = fake(loaded, tmp_path, "a")
    assert run.done() and run.output.exists() and not (run.folder / "generating").exists()
    log = run.folder / "train.log"
    assert log.read_text() == "trained\n"
    schedule.run_all([run], 1, progress.Progress())
    (run.folder / "generated.json").unlink()
    schedule.run_all([fake(loaded, tmp_path, "a")], 1, progress.Progress())
    assert run.done() and log.read_text() == "trained\n"


def test_a_failing_run_does_not_lose_the_others(loaded: recipe.Recipe, tmp_path: Path) -> None:
    bad = fake(loaded, tmp_path, "bad")
    bad.train_code = "raise SystemExit('out of luck')"
    good = [fake(loaded, tmp_path, name) for name in "ab"]
    failed: dict[str, Exception] = {}
    schedule.run_all([bad, *good], 2, progress.Progress(), failed=lambda run, error: failed.update({run.arch: error}))
    assert list(failed) == ["bad"] and all(run.done() for run in good)
    assert "out of luck" in str(failed["bad"]) and str(bad.folder / "train.log") in str(failed["bad"])
    with pytest.raises(jobs.JobFailed, match="exit status 1"):
        bad = fake(loaded, tmp_path, "bad")
        bad.train_code = "raise SystemExit(1)"
        schedule.run_all([bad], 1, progress.Progress())


def test_a_folder_has_one_owner(loaded: recipe.Recipe, tmp_path: Path) -> None:
    run = fake(loaded, tmp_path, "a")
    with jobs.lock(run.folder), pytest.raises(jobs.Busy, match="another run is at work here"):
        run.advance()
    schedule.run_all([run], 1, progress.Progress())


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal at a parent's death is Linux's")
def test_children_die_with_a_killed_runner(tmp_path: Path) -> None:
    code = (
        f"import sys, time; sys.path.insert(0, {str(ROOT / 'scripts')!r}); import jobs; from pathlib import Path\n"
        f"job = jobs.Job(['sleep', '60'], Path({str(tmp_path / 'log')!r}), threads=1)\n"
        "print(job.process.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
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


def save_checkpoint(folder: Path, updates: int) -> None:
    """What the runners read of a fairseq checkpoint."""
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    torch.save({"optimizer_history": [{"num_updates": updates}]}, folder / training.LAST)


def test_a_run_killed_after_its_last_checkpoint_trains_no_further(loaded: recipe.Recipe, tmp_path: Path) -> None:
    """fairseq would: it looks at the number of updates only after one more."""
    run = fake(loaded, tmp_path, "a")
    save_checkpoint(run.folder, 2)
    (run.folder / "train.log").write_text("killed\n")
    assert "continues from update 2 of 3" in run.plan()
    shutil.copy(run.folder / training.LAST, run.folder / "checkpoints" / "checkpoint_1_2.pt")
    (run.folder / training.LAST).write_bytes(b"half a copy")
    assert "continues from update 2 of 3" in run.plan()
    save_checkpoint(run.folder, 3)
    assert "trained, to be decoded" in run.plan()
    schedule.run_all([run], 1, progress.Progress())
    assert run.done() and run.facts()["updates"] == 3
    assert (run.folder / "train.log").read_text() == "killed\n"


def test_a_damaged_last_checkpoint_counts_nothing(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 3)
    path = tmp_path / training.LAST
    path.write_bytes(path.read_bytes()[:100])
    assert training.checkpoint_updates(tmp_path) == 0


# --- which code has run


def test_the_commit_is_that_of_the_start(
    loaded: recipe.Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One commit where nothing changes; both where a run ends, or continues, at another one."""
    state = ["aaa", "one"]
    monkeypatch.setattr(runs, "commit", lambda: state[0])
    monkeypatch.setattr(runs, "package", lambda: state[1])
    still, moved, resumed = (fake(loaded, tmp_path, name) for name in ("still", "moved", "resumed"))
    schedule.run_all([still], 1, progress.Progress())
    assert (still.commit(), still.other_code()) == ("aaa", None)
    good, resumed.train_code = resumed.train_code, "raise SystemExit(1)"
    schedule.run_all([resumed], 1, progress.Progress(), failed=lambda run, error: None)
    assert resumed.commit() == "aaa" and resumed.other_code() is None
    assert not moved.advance()
    state[:] = ["bbb", "one"]
    assert resumed.other_code() is None and "another" not in resumed.plan()
    while not moved.facts():
        moved.advance()
    assert not moved.advance() and moved.commit() == "aaa..bbb"  # now it decodes
    state[:] = ["ccc", "one"]
    while not moved.advance():
        time.sleep(0.05)
    assert (still.commit(), moved.commit()) == ("aaa", "aaa..bbb..ccc")
    state[:] = ["bbb", "two"]
    assert resumed.other_code() == "aaa" and "another fairseq_localattn, commit aaa" in resumed.plan()
    resumed.train_code = good
    schedule.run_all([resumed], 1, progress.Progress())
    assert resumed.commit() == "aaa..bbb"


def test_checkpoints_of_unknown_code_are_named_so(loaded: recipe.Recipe, tmp_path: Path) -> None:
    run = fake(loaded, tmp_path, "a")
    save_checkpoint(run.folder, 1)
    assert run.other_code() == "unknown"
    schedule.run_all([run], 1, progress.Progress())
    assert run.commit().startswith("unknown..")


def test_same_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*args: str) -> str:
        identity = ["-c", "user.name=n", "-c", "user.email=e"]
        command = ["git", "-C", str(tmp_path), *identity, *args]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    monkeypatch.setattr(checkout, "ROOT", tmp_path)
    monkeypatch.setattr(checkout, "USER_DIR", tmp_path / "package")
    assert checkout.commit() == "none"
    git("init")
    (tmp_path / "package").mkdir()
    (tmp_path / "results").mkdir()
    commits = []
    for name, text in (("package/a.py", "1"), ("package/a.py", "2"), ("README", "3")):
        (tmp_path / name).write_text(text)
        git("add", ".")
        git("commit", "-m", "x")
        commits.append(checkout.commit())
    same = checkout.same_package.__wrapped__
    assert [same(name) for name in commits] == [False, True, True] and len(set(commits)) == 3
    assert same(f"{commits[1]}..{commits[2]}") and not same(f"{commits[0]}..{commits[1]}")
    assert not same("0123456789") and not same("none") and not same(commits[2] + "+dirty")
    (tmp_path / "results" / "r.csv").write_text("new")
    assert checkout.commit() == commits[2]
    before = checkout.package()
    (tmp_path / "package/a.py").write_text("4")
    assert checkout.commit() == commits[2] + "+dirty" and not same(commits[2]) and checkout.package() != before


def write_checkpoint(path: Path, text: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", text * 1000)


def test_half_a_last_checkpoint_is_mended(tmp_path: Path) -> None:
    for number, name in enumerate(("checkpoint_1_100.pt", "checkpoint_1_200.pt", "checkpoint_last.pt")):
        write_checkpoint(tmp_path / name, str(number))
        os.utime(tmp_path / name, (number, number))
    last = tmp_path / "checkpoint_last.pt"
    whole = last.read_bytes()
    training.mend_last_checkpoint(tmp_path)
    assert last.read_bytes() == whole
    last.write_bytes(whole[:200])
    training.mend_last_checkpoint(tmp_path)
    assert last.read_bytes() == (tmp_path / "checkpoint_1_200.pt").read_bytes()
    for path in tmp_path.glob("*.pt"):
        path.write_bytes(b"cut")
    training.mend_last_checkpoint(tmp_path)
    assert not last.exists()


def test_settings_hash(tmp_path: Path) -> None:
    base = recipe.load_recipe(write(tmp_path, BASE))
    slower = recipe.load_recipe(write(tmp_path, with_flag("log_interval: 7"), "a.yaml"))
    other = recipe.load_recipe(write(tmp_path, with_flag("dropout: 0.2"), "b.yaml"))
    known = runs.settings_hash(base, "data")
    assert known == runs.settings_hash(slower, "data")
    assert len({known, runs.settings_hash(other, "data"), runs.settings_hash(base, "new")}) == 3


def test_facts_of_an_interrupted_training(tmp_path: Path) -> None:
    def line(updates: int, wps: float) -> str:
        return json.dumps({"num_updates": str(updates), "wps": str(wps), "wpb": "100", "wall": str(updates)})

    lines = [line(10, 50), line(20, 1), line(20, 100), line(30, 100)]  # 20 was done again after a kill
    save_checkpoint(tmp_path, 30)
    (tmp_path / "train.json.log").write_text("\n".join(lines))
    (tmp_path / "train.log").write_text("x | num. shared model params: 1,234 (num. trained: 1,234)\n")
    facts = training.training_facts(tmp_path)
    speeds = {"words_per_second": 75, "steps_per_second": 0.75, "train_minutes": 0.67}
    assert facts == {"updates": 30, "parameters": 1234, **speeds}


# --- results and progress


def row(seed: int, bleu: str = "30.00") -> dict[str, str]:
    return {**dict.fromkeys(results.COLUMNS, "x"), "seed": str(seed), "bleu": bleu}


def test_a_row_never_comes_twice(tmp_path: Path) -> None:
    table = results.Table(tmp_path / "r" / "t.csv")
    assert table.rows() == []
    threads = [threading.Thread(target=table.append, args=(row(n % 4),)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found["seed"] for found in table.rows()) == list("0123")
    assert table.append(row(1, "99.00")) is False and table.append(row(9)) is True
    text = table.path.read_text(encoding="utf-8")
    assert text.splitlines()[0] == ",".join(results.COLUMNS) and "99.00" not in text
    assert [path.name for path in table.path.parent.iterdir()] == ["t.csv"]


def test_a_foreign_csv_is_left_alone(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b\n1,2\n", "t.csv")
    with pytest.raises(score.ScoreError, match=r"t\.csv:1: other columns"):
        results.Table(path).append(row(1))
    assert path.read_text() == "a,b\n1,2\n"


def test_committed_results_have_the_columns() -> None:
    paths = sorted((ROOT / "results").glob("*.csv"))
    assert "multi30k_cpu.csv" in [path.name for path in paths]
    for path in paths:
        loaded = recipe.load_recipe(ROOT / "configs" / "compare" / f"{path.stem}.yaml")
        found = results.Table(path, results.columns_of(*measures.measures_of(loaded))).rows()
        assert found, path
        keys = [tuple(entry[name] for name in results.KEY) for entry in found]
        assert len(set(keys)) == len(keys), path


def test_results_readme_names_every_column() -> None:
    text = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
    for measure in measures.MEASURES.values():
        assert all(f"`{name}`" in text for name in results.columns_of(measure))


def test_a_training_shorter_than_a_log_interval(
    loaded: recipe.Recipe, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """No speed is known: empty in the row, '-' for reading."""
    run = fake(loaded, tmp_path, "a")
    save_checkpoint(run.folder, 3)
    (run.folder / "train.log").write_text("x | num. shared model params: 1,234 (num. trained: 1,234)\n")
    jobs.write_stamp(run.folder / "trained.json", training.training_facts(run.folder))
    run.data.bin.mkdir(parents=True)
    report = score.Report("out", 3, score.Bleu(30.0, "nrefs:1"))
    entry = results.make_row(loaded, run, "a", {**dict.fromkeys(run.measure.columns, ""), "bleu": "30.00"})
    assert (entry["updates"], entry["words_per_second"], entry["train_minutes"]) == ("3", "", "")
    table = results.Table(tmp_path / "t.csv")
    table.append(entry)
    results.print_table(table, [run], "a")
    assert capsys.readouterr().out.splitlines()[2].split()[-2:] == ["-", "-"]
    facts = {
        "systems": [summary.System(run, report).row()], "examples": [], "baseline": "a", "test": "", "sentences": 3,
        "hardware": "", "versions": {}, "commit": "",
    }  # fmt: skip
    assert "| a | 30.00 |  | 3 | 1,234 | - | - |" in summary.as_markdown("t", facts)


@pytest.mark.parametrize(
    ("size", "expected"), [(1, [0]), (3, [0, 1, 2]), (5, [0, 1, 2, 3, 4]), (100, [10, 30, 50, 70, 90])]
)
def test_examples_are_spread_and_come_once(
    size: int, expected: list[int], loaded: recipe.Recipe, tmp_path: Path
) -> None:
    run = fake(loaded, tmp_path, "a")
    for folder in (run.data.folder / "raw", run.folder):
        folder.mkdir(parents=True)
    (run.data.folder / "raw" / "test.en").write_text("".join(f"r{n}\n" for n in range(size)))
    lines = [f"H-{n}\t-0.1\th{n}\n" for n in range(size)]
    run.output.write_text("".join(lines) + "Generate test with beam=5: BLEU4 = 1\n")
    systems = [summary.System(run, score.Report("out", size, score.Bleu(1.0, "")))]
    found = summary.examples(systems, [f"s{n}" for n in range(size)])
    assert found == [{"source": f"s{n}", "reference": f"r{n}", "a": f"h{n}"} for n in expected]


def test_time_left() -> None:
    assert progress.time_left([10, 4], [5, 1], 2) == 10
    assert progress.time_left([], [3, 3, 3], 2) == 6
    assert progress.time_left([5], [], 1) == 5
    assert (progress.clock(59.6), progress.clock(3723)) == ("1:00", "1:02:03")
