"""The runners for real, on tiny data: the quick start killed and started again, and a comparison with a failing run."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.data import preparation as corpus
from experiments.engine import compare
from experiments.recipes import recipe
from experiments.runs import checkpoints as training
from experiments.runs import processes as jobs
from experiments.runs import run as runs
from support.paths import ROOT

RECIPE = """\
data: {name: toy, prepare: data-prep/prepare_toy.sh, source: de, target: en,
       options: [--train, 150, --valid, 20, --test, 16, --bpe, 60]}
architectures: [transformer_mma_tiny, transformer_csan_tiny]
threads: 1
expect_minutes: 0.2
train:
  cpu: true
  num_workers: 0
  criterion: label_smoothed_cross_entropy
  share_all_embeddings: true
  optimizer: adam
  lr: [0.001]
  max_tokens: 150
  max_update: UPDATES
  disable_validation: true
  save_interval_updates: 10
  keep_interval_updates: 1
  no_epoch_checkpoints: true
  log_interval: 5
generate:
  cpu: true
  num_workers: 0
  beam: 2
  max_len_b: 10
"""
ARCHS = ("transformer_mma_tiny", "transformer_localattn_tiny")


def write_recipe(folder: Path, updates: int) -> Path:
    path = folder / "tiny.yaml"
    path.write_text(RECIPE.replace("UPDATES", str(updates)), encoding="utf-8")
    return path


# --- the quick start


class QuickStart:
    """`quickstart.py` on the tiny recipe, in its own process."""

    def __init__(self, folder: Path, updates: int) -> None:
        self.out = folder / "out"
        self.command = [
            sys.executable, str(ROOT / "scripts" / "quickstart.py"), "--arch", ARCHS[0],
            "--recipe", str(write_recipe(folder, updates)), "--out", str(self.out),
        ]  # fmt: skip
        self.env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(self.command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish(self) -> str:
        done = subprocess.run(
            self.command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def folder(self, arch: str) -> Path:
        (found,) = (self.out / "tiny").glob(f"{arch}.seed1.*")
        return found

    def checkpoints(self) -> list[Path]:
        return list((self.out / "tiny").glob("*/checkpoints/checkpoint_last.pt"))


def processes_of(folder: Path) -> list[str]:
    """Command lines of the living processes that name the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")  # a zombie's is empty
        except OSError:
            continue
        if str(folder) in words:
            found.append(words)
    return found


def contents(folder: Path) -> dict[Path, tuple[int, int]]:
    """Every file with its time and size, but the locks, the preparation's log, and what only passes it on."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock" and path.suffix != ".log")
    logs = folder.glob("tiny/*/*.log")
    return {
        path: (path.stat().st_mtime_ns, path.stat().st_size)
        for path in [*files, *logs] if not path.name.startswith("summary.")
    }  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the processes in /proc")
@pytest.mark.slow
def test_killed_quick_start_continues_and_reports(tmp_path: Path) -> None:
    quick = QuickStart(tmp_path, updates=120)
    first = quick.start()
    try:
        deadline = time.monotonic() + 200
        while not quick.checkpoints():
            assert first.poll() is None and time.monotonic() < deadline, first.stdout and first.stdout.read()
            time.sleep(0.02)
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    deadline = time.monotonic() + 10
    while (left := processes_of(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left
    killed = quick.checkpoints()[0].parent.parent
    assert not (killed / "trained.json").exists(), "killed too late: the test needs more updates"
    training.mend_last_checkpoint(killed / "checkpoints")  # as the runner will: a kill may have cut off the copy
    begun = training.checkpoint_updates(killed)
    assert begun >= 10
    size = (killed / "train.json.log").stat().st_size

    text = quick.finish()
    assert f"{killed.name.split('.')[0]} (seed 1): continues from update {begun} of 120" in text
    assert min(training.train_log(killed, size)) > begun
    assert f"@ {begun} updates" in (killed / "train.log").read_text()
    check_summary(json.loads((quick.out / "summary.json").read_text()), quick)
    assert "(seed 1): continues" in text and "Example 5" in text

    before, summary = contents(quick.out), (quick.out / "summary.json").read_bytes()
    text = quick.finish()
    assert text.count("already finished") == 2 and "Example 5" in text and "trained and decoded" not in text
    assert contents(quick.out) == before and (quick.out / "summary.json").read_bytes() == summary


def check_summary(facts: dict, quick: QuickStart) -> None:
    assert [system["architecture"] for system in facts["systems"]] == list(ARCHS)
    for system in facts["systems"]:
        assert system["updates"] == 120 and system["words_per_second"] > 0 and system["train_minutes"] > 0
        assert 0 <= system["bleu"] <= 100 and system["signature"].startswith("nrefs:1|case:mixed")
    variant, plain = facts["systems"]
    assert 0 < variant["p_value"] <= 1 and plain["p_value"] is None
    assert facts["continued"] is True and facts["minutes"] > 0 and facts["sentences"] == 16
    sources = next((quick.out / "tiny").glob("data.*/raw/test.de")).read_text(encoding="utf-8").splitlines()
    assert len({example["source"] for example in facts["examples"]} & set(sources)) == 5
    assert all(set(example) == {"source", "reference", *ARCHS} for example in facts["examples"])


# --- the comparison


def make_tiny_data(folder: Path) -> None:
    """A copying task whose test set of 13 sentences is no multiple of eight, binarised by fairseq-preprocess."""
    generator = random.Random(1)
    for split, size in (("train", 60), ("valid", 8), ("test", 13)):
        lines = [" ".join(generator.choices("abcdef", k=generator.randint(4, 9))) for _ in range(size)]
        for kind in ("raw", "tok"):
            (folder / kind).mkdir(parents=True, exist_ok=True)
            for language in ("de", "en"):
                (folder / kind / f"{split}.{language}").write_text("\n".join(lines) + "\n")
    prefixes = [f"--{split}pref={folder / 'tok' / split}" for split in ("train", "valid", "test")]
    command = ["-s", "de", "-t", "en", "--joined-dictionary", "--destdir", str(folder / "bin"), *prefixes]
    subprocess.run([sys.executable, "-m", "fairseq_cli.preprocess", *command], check=True, capture_output=True)


def rows_of(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.slow
def test_comparison_with_a_failing_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    """One run fails: the others have their rows and the status is 1. Mended, it gets its row; none comes twice."""
    path, out = write_recipe(tmp_path, 5), tmp_path / "out"
    loaded = recipe.load_recipe(path)
    data = corpus.data_of(loaded, out)
    make_tiny_data(data.folder)
    monkeypatch.setattr(compare, "prepare", lambda *args, **kwargs: None)
    monkeypatch.setattr(compare, "same_package", lambda name: name != "old")
    monkeypatch.setattr(compare.logging, "disable", lambda level: None)
    options = [str(path), "--seeds", "3", "--out", str(out), "--results", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["compare", *options])
    obstacle = out / f"transformer_csan_tiny.seed3.{runs.settings_hash(loaded, data.fingerprint())}" / "checkpoints"
    jobs.write_atomic(obstacle, "a file where fairseq-train wants a folder")

    assert compare.main() == 1
    rows = rows_of(tmp_path / "tiny.csv")
    assert sorted(row["arch"] for row in rows) == ["transformer_localattn_tiny", "transformer_mma_tiny"]
    assert {row["arch"]: row["p_value"] == "" for row in rows} == {ARCHS[1]: True, ARCHS[0]: False}
    for row in rows:
        assert row["updates"] == "5" and int(row["parameters"]) > 10_000 and int(row["words_per_second"]) > 0
    assert rows[0]["parameters"] == rows[1]["parameters"]
    assert "compare: failed: transformer_csan_tiny (seed 3): " in capfd.readouterr().err

    obstacle.unlink()
    table = tmp_path / "tiny.csv"
    table.write_text(table.read_text().replace(f",{rows[0]['commit']},", ",old,"))
    old = table.read_text()
    assert compare.main() == 0
    assert table.read_text().startswith(old) and [row["arch"] for row in rows_of(table)[2:]] == [
        "transformer_csan_tiny"
    ]
    text = capfd.readouterr().out
    assert "1 of 3 runs to do" in text and "2 of the 2 rows that are kept were measured with another" in text

    before, sizes = table.read_bytes(), [log.stat().st_size for log in sorted(out.glob("*/*.log"))]
    assert compare.main() == 0
    assert table.read_bytes() == before and [log.stat().st_size for log in sorted(out.glob("*/*.log"))] == sizes
    assert "0 of 3 runs to do" in capfd.readouterr().out
