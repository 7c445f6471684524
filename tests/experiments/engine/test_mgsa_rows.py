"""Rows with a task of their own: MG-SA's Table 3, from its recipes to its results."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.data.preparation import prepared
from experiments.data.prepared import Prepared
from experiments.recipes.recipe import CONFIGS
from experiments.recipes.scales import recipe_at
from experiments.recipes.tables import find_table
from experiments.runs.run import Run
from support.tables.bench import Bench

TABLE_3 = find_table("mgsa", "table3")
PLAIN_FILE = f"""\
extends: {CONFIGS}/scales/small/multi30k_en_de.yaml
data: {{name: toy, prepare: data-prep/prepare_toy.sh, source: en, target: de,
       options: [--train, 200, --valid, 10, --test, 12, --bpe, 200, --trees, en]}}
seeds: [1]
train: {{max_update: 4, save_interval_updates: 2, log_interval: 1}}
"""
TABLE = """\
small: base/plain.yaml
baseline: transformer
rows:
  transformer: {label: a, architecture: x, small: {architecture: transformer_localattn_tiny}}
  onlstm:
    label: d
    architecture: x
    small:
      architecture: transformer_mgsa_tiny
      train:
        task: translation_with_phrases
        criterion: label_smoothed_cross_entropy_with_phrase_tags
        mgsa_tags: true
        mgsa_interaction: none
"""


@pytest.mark.slow
@pytest.mark.usefixtures("warm_children")
def test_plain_and_trees_in_one_table(bench: Bench, capsys: pytest.CaptureFixture) -> None:
    """Each row with its own task, from raw text to its lines; rows with tags have the tags' accuracy, others none."""
    bench.write("base/plain", PLAIN_FILE)
    bench.write("table3", TABLE)
    assert bench.run("table3") == 0, capsys.readouterr()
    rows = bench.scores("table3", "sacrebleu", scale="small")
    assert set(rows) == {"transformer", "onlstm"}
    assert all(line["score"] and bool(line["difference"]) == (name != "transformer") for name, line in rows.items())
    tags = bench.scores("table3", "tag_accuracy", scale="small")
    assert set(tags) == {"onlstm"} and 0 <= float(tags["onlstm"]["score"]) <= 100
    # A row's flags have reached fairseq.
    assert "mgsa_interaction='none'" in (bench.folder("transformer_mgsa_tiny") / "train.log").read_text()


def test_data_without_trees_are_prepared_before_those_with(tmp_path: Path) -> None:
    """Trees are added to the data of the plain rows: one folder for both."""
    folders = {prepared(recipe_at(TABLE_3, name, "small"), tmp_path).folder for name in TABLE_3.rows("small")}
    assert len(folders) == 1


def test_generation_is_given_the_task(tmp_path: Path) -> None:
    """fairseq-generate takes it from the command line, not from the checkpoint."""
    for name in ("ngram", "syntactic"):
        recipe = recipe_at(TABLE_3, name, "small")
        data = Prepared(tmp_path, "en", "de")
        run = Run(recipe, recipe.architecture, seed=1, data=data, stated=recipe, out=tmp_path)
        assert ("translation_with_phrases" in run.measure_argv()) == (name == "syntactic")
