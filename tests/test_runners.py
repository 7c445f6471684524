"""Runners: what is finished is skipped, a failure loses nothing, rows come once, and the whole way on tiny data."""

from __future__ import annotations

import csv
import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import compare  # noqa: E402
import jobs  # noqa: E402
import progress  # noqa: E402
import recipe  # noqa: E402
import results  # noqa: E402
import runs  # noqa: E402
import schedule  # noqa: E402
import score  # noqa: E402

ARCH = "transformer_localattn_tiny"
BASE = """\
data: {name: none, prepare: data-prep/prepare_toy.sh, source: de, target: en}
architectures: [transformer_mma_small]
train:
  cpu: true
  criterion: label_smoothed_cross_entropy
  label_smoothing: 0.1
  optimizer: adam
  adam_betas: [0.9, 0.98]
  lr: [0.001, 0.002]
  max_tokens: 600
  max_update: 3
  share_all_embeddings: true
  no_epoch_checkpoints: false
generate:
  beam: 5
"""


@pytest.fixture(autouse=True)
def keep_logging():
    """The runners silence fairseq in their process, which must not silence the other tests."""
    yield
    logging.disable(logging.NOTSET)


def write(folder: Path, text: str, name: str = "r.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def with_flag(flag: str, section: str = "train") -> str:
    """BASE with another flag, which then stands on line 4 (train) or 15 (generate)."""
    return BASE.replace(f"{section}:\n", f"{section}:\n  {flag}\n")


def call(main, monkeypatch: pytest.MonkeyPatch, *argv: object) -> int:
    monkeypatch.setattr(sys, "argv", ["command", *map(str, argv)])
    return main()


# --- runs


class FakeRun(runs.Run):
    """A run whose two steps are one-line Python programs: what is tested is what goes on around them."""

    train_code = "print('trained'); open('{log}', 'a')"
    generate_code = "import os; os.makedirs('{folder}/generating'); open('{folder}/generating/generate-test.txt', 'w')"

    def train_argv(self) -> list[str]:
        return [sys.executable, "-c", self.train_code.replace("{log}", str(self.folder / "train.json.log"))]

    def generate_argv(self) -> list[str]:
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


def write_checkpoint(path: Path, text: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", text * 1000)


def test_half_a_last_checkpoint_is_mended(tmp_path: Path) -> None:
    for number, name in enumerate(("checkpoint_1_100.pt", "checkpoint_1_200.pt", "checkpoint_last.pt")):
        write_checkpoint(tmp_path / name, str(number))
        os.utime(tmp_path / name, (number, number))
    last = tmp_path / "checkpoint_last.pt"
    whole = last.read_bytes()
    runs.mend_last_checkpoint(tmp_path)
    assert last.read_bytes() == whole
    last.write_bytes(whole[:200])
    runs.mend_last_checkpoint(tmp_path)
    assert last.read_bytes() == (tmp_path / "checkpoint_1_200.pt").read_bytes()
    for path in tmp_path.glob("*.pt"):
        path.write_bytes(b"cut")
    runs.mend_last_checkpoint(tmp_path)
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
    lines += [json.dumps({"train_num_updates": "30", "train_wall": "0"})]
    (tmp_path / "train.json.log").write_text("\n".join(lines))
    (tmp_path / "train.log").write_text("x | num. shared model params: 1,234 (num. trained: 1,234)\n")
    facts = runs.training_facts(tmp_path)
    assert facts == {"updates": 30, "parameters": 1234, "words_per_second": 75, "train_minutes": 0.67}


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
    for path in (ROOT / "results").glob("*.csv"):
        found = results.Table(path).rows()
        keys = [tuple(entry[name] for name in results.KEY) for entry in found]
        assert len(set(keys)) == len(keys), path


def test_results_readme_names_every_column() -> None:
    text = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in results.COLUMNS)


def test_time_left() -> None:
    assert progress.time_left([10, 4], [5, 1], 2) == 10
    assert progress.time_left([], [3, 3, 3], 2) == 6
    assert progress.time_left([5], [], 1) == 5
    assert (progress.clock(59.6), progress.clock(3723)) == ("1:00", "1:02:03")


# --- the whole way, tiny


@pytest.fixture
def tiny_data(tmp_path: Path) -> runs.Prepared:
    """A copying task whose test set of 13 sentences is no multiple of eight, binarised by fairseq-preprocess."""
    generator = random.Random(1)
    folder = tmp_path / "data"
    for split, size in (("train", 60), ("valid", 8), ("test", 13)):
        lines = [" ".join(generator.choices("abcdef", k=generator.randint(4, 9))) for _ in range(size)]
        for kind in ("raw", "tok"):
            (folder / kind).mkdir(parents=True, exist_ok=True)
            for language in ("de", "en"):
                (folder / kind / f"{split}.{language}").write_text("\n".join(lines) + "\n")
    prefixes = [f"--{split}pref={folder / 'tok' / split}" for split in ("train", "valid", "test")]
    command = ["-s", "de", "-t", "en", "--joined-dictionary", "--destdir", str(folder / "bin"), *prefixes]
    subprocess.run([sys.executable, "-m", "fairseq_cli.preprocess", *command], check=True, capture_output=True)
    return runs.Prepared(folder, "de", "en")


def test_train_decode_score_and_row(
    tmp_path: Path, tiny_data: runs.Prepared, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    """compare.py from data to CSV, then again: nothing is trained twice, and no row comes twice."""
    text = BASE.replace("lr: [0.001, 0.002]", "lr: [0.001]").replace("false\n", "true\n  log_interval: 1\n")
    path = write(
        tmp_path, text.replace("beam: 5", "beam: 2\n  cpu: true").replace("train:\n", "train:\n  num_workers: 0\n")
    )
    shutil.move(tiny_data.folder, tmp_path / "out" / "data")
    monkeypatch.setattr(compare, "prepare", lambda *args, **kwargs: None)
    options = [
        path,
        "--archs",
        "transformer_mma_tiny",
        "--seeds",
        "3",
        "--out",
        tmp_path / "out",
        "--results",
        tmp_path,
    ]
    assert call(compare.main, monkeypatch, *options) == 0, capfd.readouterr()
    with open(tmp_path / "r.csv", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [entry["arch"] for entry in rows] == ["transformer_localattn_tiny", "transformer_mma_tiny"]
    assert [entry["p_value"] == "" for entry in rows] == [True, False]
    for entry in rows:
        assert entry["updates"] == "3" and int(entry["parameters"]) > 10_000 and int(entry["words_per_second"]) > 0
    assert rows[0]["parameters"] == rows[1]["parameters"]
    before = (tmp_path / "r.csv").read_bytes()
    (logs := list((tmp_path / "out").glob("*/train.log"))).sort()
    sizes = [log.stat().st_size for log in logs]
    assert call(compare.main, monkeypatch, *options) == 0
    assert (tmp_path / "r.csv").read_bytes() == before and [log.stat().st_size for log in logs] == sizes
    assert "0 of 2 runs to do" in capfd.readouterr().out
