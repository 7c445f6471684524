"""How runs are measured: statistics, files, the measure of a recipe, its command, and the numbers that follow."""

from __future__ import annotations

import importlib
import json
import math
import random
import re
import time
from itertools import product
from pathlib import Path

import pytest

from experiments.measure import measures, predictions
from experiments.measure.generated import ScoreError
from experiments.measure.scoring import Measurement
from experiments.measure.significance import mcnemar
from experiments.recipes.flags import expand
from experiments.recipes.recipe import Recipe, RecipeError, load_recipe
from experiments.runs import run as run_module
from experiments.system.processes import JobFailed
from fairseq_localattn.analysis.accuracy import wilson_interval
from support import cli
from support.corpora import prep
from support.engine.outputs import write_lines
from support.engine.runs import fake_run
from support.recipes import BASE, with_flag, write

TRAIN = """\
hardware: cpu
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
data: {{name: sst, prepare: data-prep/prepare_sst.sh, options: [--classes, 2, --min-count, 1]}}
metric: accuracy
architecture: transformer_diffwin_classifier_tiny
checkpoint: best
{TRAIN}  task: sentence_prediction
  num_classes: 2
  criterion: sentence_prediction
  batch_size: 8
  best_checkpoint_metric: accuracy
  maximize_best_checkpoint_metric: true
"""
MODEL_LANGUAGE = f"""\
data: {{name: text, prepare: data-prep/prepare_lm.sh, options: [--lang, en]}}
metric: perplexity
architecture: transformer_lm_diffwin_tiny
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
FOUND = "x | Evaluated 1,234 tokens in 1.0s\n"


def load(folder: Path, text: str) -> Recipe:
    return load_recipe(write(folder, text))


# --- statistics


@pytest.mark.parametrize(
    ("correct", "total", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (1445, 1821, 0.7743, 0.8115)],
)
def test_wilson_interval(correct: int, total: int, low: float, high: float, tmp_path: Path) -> None:
    """Against published values, and against its own definition: ends at which the share is 1.96 deviations away."""
    found = wilson_interval(correct, total)
    assert found == pytest.approx((low, high), abs=1e-4)
    share = correct / total
    for end in found:
        if 1e-9 < end < 1 - 1e-9:
            assert abs(share - end) / math.sqrt(end * (1 - end) / total) == pytest.approx(1.96, abs=1e-3)
    path = write_lines(tmp_path / "predictions", ["1\t1"] * correct + ["1\t0"] * (total - correct))
    counted = predictions.accuracy(path)
    assert (counted.score, counted.sentences) == (pytest.approx(100 * share), total)
    assert (counted.low, counted.high) == pytest.approx((100 * low, 100 * high), abs=1e-2)


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
        assert mcnemar(system, baseline) == pytest.approx(uneven)
    assert mcnemar([True, False], [True, False]) == 1


# --- files


def test_predictions_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "predictions"
    path.write_text("0\t0\n1\t0\n", "utf-8")
    assert predictions.read_predictions(path) == [True, False]
    for text, message in (("0\t0\n1 0\n", ":2: not label, tab, prediction"), ("", "is empty")):
        path.write_text(text, "utf-8")
        with pytest.raises(ScoreError, match=re.escape(f"{path}") + ".*" + message):
            predictions.read_predictions(path)
    with pytest.raises(ScoreError, match="cannot be read"):
        predictions.read_predictions(tmp_path / "none")


def test_perplexity_is_read_from_the_log(tmp_path: Path) -> None:
    log, measure = tmp_path / "log", measures.LanguageModelling()
    log.write_text(f"{FOUND}x | Loss (base 2): 5.5000, Perplexity: 45.25\n", "utf-8")
    found = measure.collect(tmp_path, log, "test")
    assert json.loads(found.read_text("utf-8")) == {"tokens": 1234, "loss": 5.5}
    log.write_text(f"{FOUND}x | Loss (base 2): nan, Perplexity: nan\n", "utf-8")
    with pytest.raises(ScoreError, match="the loss is nan: the training has diverged"):
        measure.collect(tmp_path, log, "test")
    log.write_text(FOUND, "utf-8")
    with pytest.raises(ScoreError, match="has not logged a perplexity"):
        measure.collect(tmp_path, log, "test")


# --- recipes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metric: bleu\n" + BASE, r"metric must be one of tokenised_bleu, .*, not 'bleu'"),
        ("metric: sacrebleu\n" + with_flag("task: masked_lm"), r":5: no measure for the task masked_lm: there are "),
        ("metric: sacrebleu\n" + BASE.replace(", target: en", ""), r"data needs the key 'target'"),
        ("metric: probing\n" + BASE, r"the metric probing needs probing: pre-trained, or probing: scratch"),
        (CLASSIFY + "generate:\n  beam: 5\n", r":24: generate: beam changes nothing: the task is sentence_prediction"),
    ],
)
def test_recipes_without_a_measure(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=message) as caught:
        measures.measure_of(load(tmp_path, text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "section", "message"),
    [
        (MODEL_LANGUAGE + "  beam: 5\n", "eval_lm", r":25: fairseq-eval-lm has no flag 'beam'"),
        (MODEL_LANGUAGE.replace("_lm_diffwin_tiny", "_none"), "train", r"transformer_none"),
        (CLASSIFY + "  diffwin_decoder: mw\n", "train", r":23: fairseq-train has no flag 'diffwin_decoder' for "),
    ],
)
def test_flags_that_the_command_does_not_have(text: str, section: str, message: str, tmp_path: Path) -> None:
    recipe = load(tmp_path, text)
    with pytest.raises(RecipeError, match=message) as caught:
        expand(recipe, section, arch=recipe.architecture)
    assert "\n" not in str(caught.value)


def test_commands(tmp_path: Path) -> None:
    run = fake_run(load(tmp_path, CLASSIFY), tmp_path, "transformer_diffwin_classifier_tiny")
    assert "--source-lang" not in super(type(run), run).train_argv()
    words = " ".join(super(type(run), run).measure_argv())
    assert f"checkpoints/checkpoint_best.pt --gen-subset test --predictions {run.folder}/generating/" in words
    assert not run.folder.exists()


# --- several test sets


def write_translations(folder: Path, texts: list[str]) -> None:
    """Write what fairseq-generate would leave of two test sets."""
    folder.mkdir()
    for subset in ("test", "test1"):
        lines = [f"S-{n}\tx\nH-{n}\t-0.1\t{text}\n" for n, text in enumerate(texts)]
        (folder / f"generate-{subset}.txt").write_text("".join(lines) + "Generate test with beam=2: BLEU4 = 1\n")


def test_each_test_set_and_their_mean(tmp_path: Path) -> None:
    text = BASE.replace("target: en", "target: en, tests: {MT03: test, MT04: test1}")
    ours, base = (fake_run(load(tmp_path, text), tmp_path, name) for name in ("ours", "base"))
    lines = {"test": "a b c d e f".split(), "test1": "a b c d e x".split()}
    for kind in ("raw", "tok"):
        (ours.data.folder / kind).mkdir(parents=True)
        for subset, words in lines.items():
            write_lines(ours.data.folder / kind / f"{subset}.en", [" ".join(words)] * 4)
    write_translations(ours.folder, [" ".join(lines["test"])] * 4)
    write_translations(base.folder, [" ".join(lines["test1"])] * 4)
    found = {m.metric: m for m in ours.measurements(base)}
    assert set(found) == {f"{of}/{m}" for of in ("MT03", "MT04", "average") for m in ("tokenised_bleu", "sacrebleu")}
    first, second, mean = (found[f"{of}/sacrebleu"] for of in ("MT03", "MT04", "average"))
    assert first.score == pytest.approx(100) and second.score < 90 and first.p_value is not None
    assert mean.score == pytest.approx((first.score + second.score) / 2)
    assert first.difference is not None and second.difference == pytest.approx(-first.difference)
    assert mean.difference == pytest.approx(0) and mean.p_value is None


def test_what_is_wanted_of_the_training(tmp_path: Path) -> None:
    run = fake_run(load(tmp_path, CLASSIFY), tmp_path, "a")
    run.folder.mkdir()
    write_lines(run.folder / "predictions-test.txt", ["1\t1", "0\t1"])
    (run.folder / "trained.json").write_text('{"updates": 3, "steps_per_second": null, "parameters": 7}')
    accuracy, *more = run.measurements(None, {"accuracy", "parameters", "steps_per_second"})
    assert (accuracy.metric, accuracy.score, accuracy.difference) == ("accuracy", 50, None)
    assert more == [Measurement("parameters", 7.0)]


# --- for real


class JobHere:
    """A step of a run, done in this process as soon as it is started."""

    def __init__(self, argv: list[str], log: Path, **rest: object) -> None:
        self.started = time.time()
        module = importlib.import_module(argv[2])
        done = cli.call(getattr(module, "cli_main", None) or module.main, *argv[3:], check=False)
        log.write_text(done.stdout + done.stderr)
        self.failed = done.returncode != 0
        self.log = log

    def finished(self) -> bool:
        if self.failed:
            raise JobFailed(self.log.read_text()[-3000:])
        return True


def write_trees(folder: Path) -> None:
    """Twenty and ten sentences, whose class is told by one word."""
    draw = random.Random(1)
    for split, size in (("train", 20), ("dev", 10), ("test", 10)):
        labels = [draw.choice("0134") for _ in range(size)]
        words = [draw.choice(("good fine" if label in "34" else "bad poor").split()) for label in labels]
        lines = [
            f"({label} (2 (2 a) (2 {draw.choice('xyz')})) (2 {word}))"
            for label, word in zip(labels, words, strict=True)
        ]
        write_lines(folder / f"{split}.txt", lines)


def write_text(folder: Path) -> None:
    draw = random.Random(1)
    for split, size in (("train", 60), ("valid", 10), ("test", 10)):
        lines = [" ".join(draw.choices("a b c d e f".split(), k=draw.randint(1, 9))) for _ in range(size)]
        write_lines(folder / f"{split}.en", lines)


def finished_runs(kind: str, flags: str, folder: Path) -> list[run_module.Run]:
    """Return a system, with these flags more, and the plain model: prepared, trained and measured."""
    corpus, text = folder / "corpus", CLASSIFY if kind == "classify" else MODEL_LANGUAGE
    corpus.mkdir()
    (write_trees if kind == "classify" else write_text)(corpus)
    name, options = ("sst", ["--classes", "2", "--min-count", "1"]) if kind == "classify" else ("lm", ["--lang", "en"])
    done = prep.prepare(name, folder / "data", *options, "--local", corpus)
    assert done.returncode == 0, done.stderr
    found = []
    for of, more in (("diffwin", flags), ("localattn", "")):
        recipe = load(folder, text.replace("diffwin", of).replace("train:\n", f"train:\n{more}"))
        fake = fake_run(recipe, folder, recipe.architecture)
        run = run_module.Run(
            recipe=recipe,
            arch=fake.arch,
            seed=1,
            data=fake.data,
            stated=recipe,
            out=folder,
            launch=fake.launch,
        )
        while not run.advance():
            pass
        found.append(run)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "flags", "matrices"),
    [("classify", "  diffwin_encoder: mw\n", 4), ("model-language", "  diffwin_decoder: aw\n", 6)],
)
def test_measured_for_real(
    kind: str, flags: str, matrices: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "Job", JobHere)
    system, plain = finished_runs(kind, flags, tmp_path)
    (ours,), (base,) = system.measurements(plain), plain.measurements(None)
    assert base.difference is None and ours.difference == pytest.approx(ours.score - base.score)
    if kind == "classify":
        for found in (ours, base):
            assert found.metric == "accuracy" and found.signature.startswith("sentences:10|")
            assert found.low is not None and found.high is not None and 0 <= found.low < found.high <= 100
            assert found.low < found.score < found.high or found.score in (0, 100)
        assert ours.p_value is not None and 0 < ours.p_value <= 1
    else:
        words = sum(len(line.split()) + 1 for line in (tmp_path / "corpus" / "test.en").read_text("utf-8").splitlines())
        for found in (ours, base):
            tokens, loss = re.fullmatch(r"tokens:(\d+)\|loss:(.+)", found.signature).groups()  # type: ignore[union-attr]
            assert found.metric == "perplexity" and int(tokens) == words and 2 < found.score < 40
            assert found.score == pytest.approx(2 ** float(loss), abs=0.006)
        assert ours.p_value is None
    # With AW the matrices of pointers and local score (d = 64) are in one layer, with MW those of the pointers.
    assert system.facts()["updates"] == plain.facts()["updates"] == 6
    assert system.facts()["parameters"] - plain.facts()["parameters"] == matrices * (64 * 64 + 64)
