"""How runs are measured: statistics, files, the measure of a recipe, its command, and the numbers that follow."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.data.prepared import Prepared
from experiments.measure import measures
from experiments.measure.scoring import Measurement
from experiments.measure.significance import mcnemar
from experiments.recipes.recipe import RecipeError
from support.engine.outputs import write_lines, write_output
from support.engine.runs import fake_run
from support.recipes import ARCH, BASE, load, with_flag

CLASSIFY = """\
data: {name: sst, prepare: data-prep/prepare_sst.sh}
metric: accuracy
architecture: transformer_diffwin_classifier_tiny
checkpoint: best
train: {task: sentence_prediction, num_classes: 2, criterion: sentence_prediction, max_update: 6, batch_size: 8}
"""


def test_mcnemar_by_enumeration() -> None:
    """Every way in which six sentences that differ may fall: the share of those at least as uneven as what was seen."""
    ways = [sum(way) for way in product((0, 1), repeat=6)]
    for won in range(7):
        uneven = sum(abs(way - 3) >= abs(won - 3) for way in ways) / len(ways)
        system = [True] * won + [False] * (6 - won) + [True, False]
        baseline = [False] * won + [True] * (6 - won) + [True, False]
        assert mcnemar(system, baseline) == pytest.approx(uneven)
    assert mcnemar([True, False], [True, False]) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metric: sacrebleu\n" + BASE.replace(", target: en", ""), r"data needs the key 'target'"),
        ("metric: probing\n" + BASE, "metric probing needs probing: pre-"),
        (CLASSIFY.replace("sst.sh}", "sst.sh, tests: {valid: valid}}"), "accuracy is measured on the test set alone"),
        (CLASSIFY + "generate:\n  beam: 5\n", r":7: generate: beam changes nothing: the task is sentence_prediction"),
    ],
)
def test_recipes_without_a_measure(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=message):
        measures.measure_of(load(tmp_path, text))


def write_translations(folder: Path, text: str) -> None:
    """Write what fairseq-generate would leave of two test sets."""
    folder.mkdir()
    for subset in ("test", "test1"):
        write_output(folder / f"generate-{subset}.txt", [text] * 4)


def test_each_test_set_and_their_mean(tmp_path: Path) -> None:
    text = BASE.replace("target: en", "target: en, tests: {MT03: test, MT04: test1}")
    ours, base = (fake_run(load(tmp_path, text), tmp_path, name) for name in ("ours", "base"))
    lines = {"test": "a b c d e f", "test1": "a b c d e x"}
    for kind in ("raw", "tok"):
        (ours.data.folder / kind).mkdir(parents=True)
        for subset, line in lines.items():
            write_lines(ours.data.folder / kind / f"{subset}.en", [line] * 4)
    write_translations(ours.folder, lines["test"])
    write_translations(base.folder, lines["test1"])
    found = {m.metric: m for m in ours.measurements(base)}
    assert set(found) == {f"{of}/{m}" for of in ("MT03", "MT04", "average") for m in ("tokenised_bleu", "sacrebleu")}
    first, second, mean = (found[f"{of}/sacrebleu"] for of in ("MT03", "MT04", "average"))
    assert first.score == pytest.approx(100) and second.score < 90 and first.p_value is not None
    assert mean.score == pytest.approx((first.score + second.score) / 2)
    assert first.difference is not None and second.difference == pytest.approx(-first.difference)
    assert mean.difference == pytest.approx(0) and mean.p_value is None


def test_translations_of_sources_with_phrases(tmp_path: Path) -> None:
    """fairseq-generate is given the task, which it takes from no checkpoint; the tags' accuracy is measured as well."""
    plain, run = (
        fake_run(load(tmp_path, text), tmp_path, name)
        for name, text in (("plain", BASE), ("run", with_flag("task: translation_with_phrases")))
    )
    given = ["translation_with_phrases" in super(type(each), each).measure_argv() for each in (plain, run)]
    assert given == [False, True]
    (run.data.folder / "raw").mkdir(parents=True)
    write_lines(run.data.folder / "raw" / "test.en", ["a b c d e"] * 4)
    write_translations(run.folder, "a b c d e")
    assert [each.metric for each in run.measurements(None)] == ["sacrebleu"]
    (run.folder / "train.json.log").write_text('{"valid_tag_accuracy": "61.5"}')
    assert run.measurements(None)[1:] == [Measurement("tag_accuracy", 61.5)]
    averaged = replace(run, recipe=replace(run.recipe, average={"last": 5}))  # another model than the log's
    assert [each.metric for each in averaged.measurements(None)] == ["sacrebleu"]


def test_what_is_wanted_of_the_training(tmp_path: Path) -> None:
    run = fake_run(load(tmp_path, CLASSIFY), tmp_path, "a")
    run.folder.mkdir()
    write_lines(run.folder / "predictions-test.txt", ["1\t1", "0\t1"])
    (run.folder / "trained.json").write_text('{"updates": 3, "steps_per_second": null, "parameters": 7}')
    accuracy, *more = run.measurements(None, {"accuracy", "parameters", "steps_per_second"})
    assert (accuracy.metric, accuracy.score, accuracy.difference) == ("accuracy", 50, None)
    assert more == [Measurement("parameters", 7.0)]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("metric: average/multi_bleu", measures.Translation),
        ("metric: rouge1\nlead: 3", measures.Lead),
        ("metric: bleu_by_ngram", measures.ByNgram),
        ("metric: probing\nprobing: scratch", measures.Probing),
    ],
)
def test_the_measure_follows_the_metric(text: str, kind: type[measures.Measure], tmp_path: Path) -> None:
    assert type(measures.measure_of(load(tmp_path, f"{text}\n{BASE}"))) is kind


def test_locality_is_that_of_mask_attention_where_there_is_some(tmp_path: Path) -> None:
    head = "window,layer,kind,share\n"
    (tmp_path / "locality.csv").write_text(head + "1,1,dman,70.5\n1,1,san,30\n2,6,dman,80.25\n")
    run: Any = SimpleNamespace(folder=tmp_path)
    found = measures.Locality().measurements(run, None)
    assert [(m.metric, m.score) for m in found] == [("w1_layer1", 70.5), ("w2_layer6", 80.25)]
    (tmp_path / "locality.csv").write_text(head + "1,1,san,30\n")
    assert [m.score for m in measures.Locality().measurements(run, None)] == [30]
    (tmp_path / "locality.csv").write_text(head)
    with pytest.raises(measures.ScoreError, match=r"locality\.csv: has no rows"):
        measures.Locality().measurements(run, None)


def test_probing_has_its_mean(tmp_path: Path) -> None:
    (tmp_path / "probing").mkdir()
    numbers = tmp_path / "probing" / "probing.csv"
    lines = ["task,low,high,accuracy,total,majority", "voice,65,75.5,70,216,50.00", "tense,78,83,80.5,690,50.00"]
    numbers.write_text("\n".join([*lines, ""]))
    run: Any = SimpleNamespace(folder=tmp_path, trees=None)
    voice, *others = measures.Probing().measurements(run, None)
    kept = "examples:216|majority:50.00|interval:wilson"
    assert voice == Measurement("voice", 70, kept, low=65, high=75.5)
    assert [(m.metric, m.score) for m in others] == [("tense", 80.5), ("probing_avg", 75.25)]
    numbers.write_text("\n".join([*lines, ""]).replace("83", "x"))
    with pytest.raises(measures.ScoreError, match=r"probing\.csv:3: high must be a number, not 'x'"):
        measures.Probing().measurements(run, None)


@pytest.mark.parametrize(
    ("arch", "flags"),
    [
        ("transformer_hybrid_tiny", {"localattn_encoder": "rope & local", "activation_dropout": "0.1"}),
        ("transformer_neighbor_tiny", {"localness_encoder_layers": "all"}),
        ("transformer", {}),
    ],
)
def test_probing_from_scratch_has_the_flags_of_the_variant(arch: str, flags: dict[str, str], tmp_path: Path) -> None:
    own = "".join(f"{key}: {value}\n  " for key, value in {"dropout": 0.2, **flags}.items())
    run = fake_run(load(tmp_path, with_flag(own.strip()).replace(ARCH, arch)), tmp_path, arch)
    words = [word for key, value in flags.items() for word in (f"--{key.replace('_', '-')}", value)]
    assert run.encoder_flags() == ["--dropout", "0.2", *words]


def test_as_many_leading_sentences_as_the_recipe_says(tmp_path: Path) -> None:
    for name, text in (("raw/test.a.sentences", "one x . two y . three z . four"), ("tok/test.b", "one x . two y .")):
        (tmp_path / name).parent.mkdir()
        write_lines(tmp_path / name, [text])
    run: Any = SimpleNamespace(data=Prepared(tmp_path, "a", "b"), recipe=SimpleNamespace(lead=2))
    assert measures.Lead().measurements(run, None)[0].score == pytest.approx(100)


def test_trees_of_probing_have_several_names(tmp_path: Path) -> None:
    assert measures._tree_file(None, "train") == "TREES/train.mrg", "of a dry run"
    for name, split in (("train.mrg.gz", "train"), ("wsj.dev.mrg", "valid"), ("valid.mrg", "valid")):
        (tmp_path / name).touch()
        assert measures._tree_file(tmp_path, split) == str(tmp_path / name)
