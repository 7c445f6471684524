"""What a comparison measures besides BLEU: accuracy with interval and test, and perplexity; from recipe to row."""

from __future__ import annotations

import json
import math
import random
import re
import sys
from itertools import product
from pathlib import Path

import pytest

from experiments.engine import compare
from experiments.measure import command as score
from experiments.measure import measures, predictions
from experiments.recipes import recipe
from experiments.runs import progress, schedule
from experiments.runs import run as runs
from fairseq_localattn.analysis.accuracy import wilson_interval
from support.recipes import BASE, with_flag, write
from tests.experiments.engine.test_quickstart import rows_of
from tests.experiments.recipes.test_recipes import call, commands
from tests.experiments.runs.test_runners import FakeRun

TRAIN = """\
threads: 1
expect_minutes: 0.2
train:
  cpu: true
  num_workers: 0
  optimizer: adam
  lr: [0.001]
  max_update: 6
  save_interval_updates: 3
  keep_interval_updates: 1
  no_epoch_checkpoints: true
  log_interval: 2
"""
CLASSIFY = f"""\
data: {{name: sst, prepare: data-prep/prepare_sst.sh, options: [--classes, 2, --min-count, 1], local: none}}
architectures: [transformer_diffwin_classifier_tiny]
systems:
  mw: {{arch: transformer_diffwin_classifier_tiny, diffwin_encoder: mw}}
checkpoint: best
{TRAIN}  task: sentence_prediction
  num_classes: 2
  criterion: sentence_prediction
  batch_size: 8
  best_checkpoint_metric: accuracy
  maximize_best_checkpoint_metric: true
"""
MODEL_LANGUAGE = f"""\
data: {{name: text, prepare: data-prep/prepare_lm.sh, options: [--lang, en], local: none}}
architectures: [transformer_lm_diffwin_tiny]
systems:
  aw: {{arch: transformer_lm_diffwin_tiny, diffwin_decoder: aw}}
{TRAIN}  task: language_modeling
  sample_break_mode: eos
  tokens_per_sample: 64
  max_tokens: 200
  criterion: cross_entropy
eval_lm:
  cpu: true
  num_workers: 0
  sample_break_mode: eos
"""


# --- statistics


@pytest.mark.parametrize(
    ("correct", "total", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (1445, 1821, 0.7743, 0.8115)],
)
def test_wilson_interval(correct: int, total: int, low: float, high: float) -> None:
    """Against published values, and against its own definition: ends at which the share is 1.96 deviations away."""
    found = wilson_interval(correct, total)
    assert found == pytest.approx((low, high), abs=1e-4)
    share = correct / total
    for end in found:
        if 1e-9 < end < 1 - 1e-9:
            assert abs(share - end) / math.sqrt(end * (1 - end) / total) == pytest.approx(1.96, abs=1e-3)


@pytest.mark.parametrize(("correct", "total"), [(1, 0), (3, 2), (-1, 5)])
def test_no_share(correct: int, total: int) -> None:
    with pytest.raises(ValueError, match="is no share"):
        wilson_interval(correct, total)


def test_mcnemar_by_enumeration() -> None:
    """Every way in which six sentences that differ may fall: the share of those at least as uneven as what was seen."""
    ways = [sum(way) for way in product((0, 1), repeat=6)]
    for won in range(7):
        uneven = sum(abs(way - 3) >= abs(won - 3) for way in ways) / len(ways)
        system = [True] * won + [False] * (6 - won) + [True, False]
        baseline = [False] * won + [True] * (6 - won) + [True, False]
        assert predictions.mcnemar(system, baseline) == pytest.approx(uneven)
    assert predictions.mcnemar([True, False], [True, False]) == 1


# --- files


def test_predictions_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "predictions"
    path.write_text("0\t0\n1\t0\n", "utf-8")
    assert predictions.read_predictions(path) == [True, False]
    for text, message in (("0\t0\n1 0\n", ":2: not label, tab, prediction"), ("", "is empty")):
        path.write_text(text, "utf-8")
        with pytest.raises(score.ScoreError, match=re.escape(f"{path}") + ".*" + message):
            predictions.read_predictions(path)
    with pytest.raises(score.ScoreError, match="cannot be read"):
        predictions.read_predictions(tmp_path / "none")


def test_perplexity_is_read_from_the_log(tmp_path: Path) -> None:
    log, measure = tmp_path / "log", measures.LanguageModelling()
    log.write_text("x | Evaluated 1,234 tokens in 1.0s\nx | Loss (base 2): 5.5000, Perplexity: 45.25\n", "utf-8")
    found = measure.collect(tmp_path, log)
    assert json.loads(found.read_text("utf-8")) == {"tokens": 1234, "loss": 5.5}
    log.write_text("x | Evaluated 1,234 tokens in 1.0s\nx | Loss (base 2): nan, Perplexity: nan\n", "utf-8")
    with pytest.raises(score.ScoreError, match="the loss is nan: the training has diverged"):
        measure.collect(tmp_path, log)
    log.write_text("x | Evaluated 1,234 tokens in 1.0s\n", "utf-8")
    with pytest.raises(score.ScoreError, match="has not logged a perplexity"):
        measure.collect(tmp_path, log)


def test_settings_change_with_the_checkpoint_that_is_measured(tmp_path: Path) -> None:
    hashes = {
        runs.settings_hash(recipe.load_recipe(write(tmp_path, f"{text}{BASE}")), "data")
        for text in ("", "checkpoint: last\n", "checkpoint: best\n")
    }
    assert len(hashes) == 2 and "ce439312" in hashes
    # It says when the model is validated, which decides which checkpoint can be the best.
    often, seldom = (
        runs.settings_hash(
            recipe.load_recipe(write(tmp_path, with_flag(f"save_interval_updates: {n}") + first)), "data"
        )
        for first in ("checkpoint: best\n",)
        for n in (100, 1000)
    )
    assert often != seldom


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("checkpoint: first\n" + BASE, r":1: checkpoint must be last or best, not 'first'"),
        (BASE + "  task: masked_lm\n", r"no measure for the task masked_lm: there are translation, "),
        (CLASSIFY + "generate:\n  beam: 5\n", r":25: generate: beam changes nothing: the task is sentence_prediction"),
        (MODEL_LANGUAGE + "  beam: 5\n", r"fairseq-eval-lm has no flag 'beam'"),
        (MODEL_LANGUAGE.replace("_lm_diffwin_tiny]", "_mma_tiny]"), r"transformer_mma_tiny: no such architecture"),
        (CLASSIFY.replace("diffwin_encoder: mw", "diffwin_decoder: mw"), r"no flag 'diffwin_decoder'"),
    ],
)
def test_wrong_recipes(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    if "masked_lm" in text:
        text = BASE.replace("train:\n", "train:\n  task: masked_lm\n")
    path = write(tmp_path, text.replace("local: none", f"local: {tmp_path}"))
    assert call(compare.main, monkeypatch, path, "--dry-run", "--results", tmp_path) == 2
    error = capfd.readouterr().err
    assert re.search(message, error) and error.count("\n") == 1, error


class Unmeasured(FakeRun):
    """A run whose measuring leaves nothing behind."""

    def generate_argv(self, subset: str = "test") -> list[str]:
        return [sys.executable, "-c", "print('no perplexity')"]


def test_a_run_that_cannot_be_measured_does_not_stop_the_others(tmp_path: Path) -> None:
    loaded = recipe.load_recipe(write(tmp_path, BASE.replace("train:\n", "train:\n  task: language_modeling\n")))
    lost = [Unmeasured(loaded, name, 1, runs.Prepared(tmp_path / "data"), tmp_path / name) for name in "ab"]
    failed: dict[str, str] = {}
    schedule.run_all(lost, 1, progress.Progress(), failed=lambda run, error: failed.update({run.arch: str(error)}))
    assert set(failed) == {"a", "b"} and "has not logged a perplexity" in failed["a"]


# --- for real


def write_trees(folder: Path) -> None:
    """Twenty and ten sentences, whose class is told by one word."""
    draw = random.Random(1)
    for split, size in (("train", 20), ("dev", 10), ("test", 10)):
        labels = [draw.choice("0134") for _ in range(size)]
        words = [draw.choice(("good fine" if label in "34" else "bad poor").split()) for label in labels]
        lines = [
            f"({label} (2 (2 a) (2 {draw.choice('xyz')})) (2 {word}))\n"
            for label, word in zip(labels, words, strict=True)
        ]
        (folder / f"{split}.txt").write_text("".join(lines), "utf-8")


def write_text(folder: Path) -> None:
    draw = random.Random(1)
    for split, size in (("train", 60), ("valid", 10), ("test", 10)):
        lines = [" ".join(draw.choices("a b c d e f".split(), k=draw.randint(1, 9))) + "\n" for _ in range(size)]
        (folder / f"{split}.en").write_text("".join(lines), "utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classify", "model-language"])
def test_comparison(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture) -> None:
    """Prepared, trained, measured; run again it finds all rows."""
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (write_trees if kind == "classify" else write_text)(corpus)
    text = (CLASSIFY if kind == "classify" else MODEL_LANGUAGE).replace("local: none", f"local: {corpus}")
    path, options = write(tmp_path, text, "tiny.yaml"), ["--out", tmp_path / "out", "--results", tmp_path]
    assert call(compare.main, monkeypatch, path, *options) == 0
    told = capfd.readouterr().out
    rows = {row["system"]: row for row in rows_of(tmp_path / "tiny.csv")}
    assert len(rows) == 3 and {row["updates"] for row in rows.values()} == {"6"}
    baseline = next(row for name, row in rows.items() if "localattn" in name)
    others = [row for row in rows.values() if row is not baseline]
    assert baseline["difference"] == "" and all(row["baseline"] == baseline["system"] for row in others)
    if kind == "classify":
        assert re.search(r"(?m)^system +seeds +accuracy ", told)
        for row in rows.values():
            assert (
                row["sentences"] == "10"
                and float(row["low"]) < float(row["accuracy"]) < float(row["high"])
                or (row["accuracy"] in ("0.00", "100.00"))
            )
        for row in others:
            assert float(row["difference"]) == pytest.approx(float(row["accuracy"]) - float(baseline["accuracy"]))
            assert 0 < float(row["p_value"]) <= 1
    else:
        assert re.search(r"(?m)^system +seeds +perplexity ", told)
        words = sum(len(line.split()) + 1 for line in (corpus / "test.en").read_text("utf-8").splitlines())
        for row in rows.values():
            assert row["tokens"] == str(words)
            assert float(row["perplexity"]) == pytest.approx(2 ** float(row["loss"]), abs=0.006)
            assert 2 < float(row["perplexity"]) < 40
    # With AW the matrices of pointers and local score (d = 64) are in one layer, with MW those of the pointers.
    added = {name: int(row["parameters"]) - int(baseline["parameters"]) for name, row in rows.items()}
    assert sorted(added.values()) == [0, 4 * (64 * 64 + 64), 6 * (64 * 64 + 64)]
    assert call(compare.main, monkeypatch, path, *options) == 0
    assert "0 of 3 runs to do" in capfd.readouterr().out


def test_dry_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    path = write(tmp_path, CLASSIFY.replace("local: none", f"local: {tmp_path}"))
    assert call(compare.main, monkeypatch, path, "--dry-run", "--out", tmp_path / "out", "--results", tmp_path) == 0
    text = capsys.readouterr().out
    assert "--source-lang" not in text and "checkpoints/checkpoint_best.pt --gen-subset test --predictions" in text
    assert len(commands(text)) == 3 and not list((tmp_path / "out").rglob("generating"))
