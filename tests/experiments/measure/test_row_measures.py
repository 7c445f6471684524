"""Measures of rows: which one a metric has, means over test sets, locality and probing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.data.prepared import Prepared
from experiments.measure import measures
from experiments.measure.scoring import Measurement
from experiments.recipes.recipe import RecipeError, load_recipe
from support.recipes import BASE, write


def test_the_measure_follows_metric_and_task(tmp_path: Path) -> None:
    found = {}
    for name, text in {
        "bleu": "metric: tokenised_bleu\n",
        "mean": "metric: average/multi_bleu\n",
        "rouge": "metric: rouge1\n",
        "lead": "metric: rouge1\nlead: 3\n",
        "length": "metric: bleu_by_length\n",
        "ngram": "metric: bleu_by_ngram\n",
        "locality": "metric: locality\n",
        "probing": "metric: probing\nprobing: scratch\n",
    }.items():
        found[name] = type(measures.measure_of(load_recipe(write(tmp_path, text + BASE)))).__name__
    assert found == {
        "bleu": "Translation", "mean": "Translation", "rouge": "Summarization", "lead": "Lead", "length": "ByLength",
        "ngram": "ByNgram", "locality": "Locality", "probing": "Probing",
    }  # fmt: skip
    for metric, message in (("", "metric must be one of"), ("metric: probing\n", "metric probing needs probing: pre-")):
        with pytest.raises(RecipeError, match=message):
            measures.measure_of(load_recipe(write(tmp_path, metric + BASE)))


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


@pytest.mark.parametrize("sentences", [2, 3])
def test_as_many_leading_sentences_as_the_recipe_says(sentences: int, tmp_path: Path) -> None:
    for name, text in {
        "raw/test.a.sentences": "one x . two y . three z . four",
        "tok/test.b": "one x . two y .",
    }.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text + "\n")
    run: Any = SimpleNamespace(data=Prepared(tmp_path, "a", "b"), recipe=SimpleNamespace(lead=sentences))
    found = {m.metric: m.score for m in measures.Lead().measurements(run, None)}
    assert (found["rouge1"] == pytest.approx(100)) == (sentences == 2)


def test_trees_of_probing_have_several_names(tmp_path: Path) -> None:
    assert measures._tree_file(None, "train") == "TREES/train.mrg", "of a dry run"
    for name, split in (("train.mrg.gz", "train"), ("wsj.dev.mrg", "valid"), ("valid.mrg", "valid")):
        (tmp_path / name).touch()
        assert measures._tree_file(tmp_path, split) == str(tmp_path / name)
