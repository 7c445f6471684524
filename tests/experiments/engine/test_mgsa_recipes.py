"""Systems with a task of their own: the recipe of MG-SA's Table 3, its rows, and the quick start with trees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.engine import compare, quickstart
from experiments.measure import measures
from experiments.recipes import recipe
from experiments.report import results
from experiments.runs import checkpoints as training
from experiments.runs import run as runs
from support.paths import ROOT
from support.recipes import write
from tests.experiments.engine.test_quickstart import rows_of
from tests.experiments.recipes.test_recipes import call

TABLE_3 = ROOT / "configs" / "compare" / "multi30k_en_de_cpu_mgsa.yaml"
SMALL = f"""\
extends: {TABLE_3}
data: {{name: toy, prepare: data-prep/prepare_toy.sh, source: en, target: de,
       options: [--train, 200, --valid, 10, --test, 12, --bpe, 200, --trees, en]}}
seeds: [1]
architectures: [transformer_mgsa_ngram_tiny]
systems:
  mgsa_syntactic: {{arch: transformer_mgsa_tiny, task: translation_with_phrases, mgsa_interaction: none}}
  mgsa_syntactic_tags:
  mgsa_syntactic_tags_lstm:
  mgsa_syntactic_tags_onlstm:
    arch: transformer_mgsa_tiny
    task: translation_with_phrases
    criterion: label_smoothed_cross_entropy_with_phrase_tags
    mgsa_tags: true
train:
  max_update: 4
  save_interval_updates: 2
  log_interval: 1
"""


@pytest.mark.slow
def test_a_comparison_of_plain_ngrams_and_trees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    """Each system with its own task, from raw text to its row; tags have their accuracy, the others an empty field."""
    loaded = write(tmp_path, SMALL, "small.yaml")
    out, where = tmp_path / "out", tmp_path / "results"
    done = call(compare.main, monkeypatch, loaded, "--out", out, "--results", where)
    assert done == 0, capfd.readouterr().err
    rows = {row["system"]: row for row in rows_of(where / "small.csv")}
    plain = ["transformer_localattn_tiny", "transformer_mgsa_ngram_tiny"]
    assert set(rows) == {*plain, "mgsa_syntactic", "mgsa_syntactic_tags_onlstm"}
    accuracy = {name: row["tag_accuracy"] for name, row in rows.items()}
    assert 0 <= float(accuracy.pop("mgsa_syntactic_tags_onlstm")) <= 100
    assert set(accuracy.values()) == {""}
    assert all(row["bleu"] and row["difference"] for name, row in rows.items() if name != plain[0])


def test_the_rows_of_table_3() -> None:
    """All in one file: the plain Transformer and n-grams by fairseq's own task, trees by theirs."""
    loaded = recipe.load_recipe(TABLE_3)
    tasks = {name: measures.measure_of(loaded.system(name)[1]).task for name in loaded.get("systems")}
    assert set(tasks.values()) == {"translation_with_phrases"} and len(tasks) == 4
    assert measures.measure_of(loaded).task == "translation"
    columns = results.columns_of(*measures.measures_of(loaded))
    assert "tag_accuracy" in columns and len(set(columns)) == len(columns)
    for name, arch in (
        ("mgsa_syntactic", "transformer_mgsa_small"),
        ("mgsa_syntactic_tags_lstm", "transformer_mgsa_small"),
    ):
        found, own = loaded.system(name)
        argv = recipe.expand(own, "train", arch=found)
        assert found == arch and ("--mgsa-tags" in argv) == ("tags" in name)


def test_generation_is_given_the_task(tmp_path: Path) -> None:
    """fairseq-generate takes it from the command line, not from the checkpoint."""
    loaded = recipe.load_recipe(TABLE_3)
    for name in ("transformer_mgsa_ngram_small", "mgsa_syntactic"):
        arch, own = loaded.system(name)
        run = runs.Run(own, arch, 1, runs.Prepared(tmp_path, "en", "de"), tmp_path / "run")
        assert ("translation_with_phrases" in run.generate_argv()) == (name == "mgsa_syntactic")


def test_what_a_task_does_not_read_is_not_in_its_settings(tmp_path: Path) -> None:
    """Phrases that are added to the data change the runs that read them, and no others; so does the direction."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("train.de-en.en.bin", "train.de-en.en.idx", "dict.en.txt"):
        (folder / name).write_text(name)
    loaded = recipe.load_recipe(TABLE_3)
    phrases = loaded.system("mgsa_syntactic")[1]

    def found(source: str = "en", target: str = "de") -> tuple[str, str]:
        runs._fingerprint.cache_clear()
        data = runs.Prepared(tmp_path, source, target)
        return data.fingerprint_for(loaded), data.fingerprint_for(phrases)

    before = found()
    (folder / "train.de-en.en.phrases.bin").write_text("phrases")
    (folder / "dict.en.phrases.txt").write_text("NP 1")
    after = found()
    assert before[0] == after[0] and before[1] != after[1]
    assert before[1].startswith("not prepared"), "what reads phrases has no data without them"
    (tmp_path / "trees.txt").write_text("trees=en")
    assert found() == before, "a preparation that was stopped among its phrases has not prepared them"
    (tmp_path / "phrases").mkdir()
    assert found() == after
    assert set(found("de", "en")).isdisjoint(after)


def test_the_last_validation(tmp_path: Path) -> None:
    entries = [{"valid_tag_accuracy": "41.5"}, {"wps": "3"}, {"valid_tag_accuracy": "52.25"}, {"valid_loss": "3"}]
    (tmp_path / "train.json.log").write_text("text\n" + "".join(json.dumps(entry) + "\n" for entry in entries) + "{cut")
    assert training.last_validation(tmp_path, "tag_accuracy") == "52.25"
    assert training.last_validation(tmp_path, "bleu") is None
    assert training.last_validation(tmp_path / "nowhere", "tag_accuracy") is None


@pytest.mark.parametrize(
    ("data", "arch", "name", "system"),
    [
        ("toy", "transformer_mgsa_small", "toy_phrases", "mgsa"),
        ("toy", "transformer_mgsa_ngram_small", "toy", "transformer_mgsa_ngram_small"),
        ("toy", "transformer_mma_small", "toy", "transformer_mma_small"),
        ("multi30k", "transformer_mgsa_small", "multi30k_phrases", "mgsa_syntactic_tags_onlstm"),
        ("multi30k", "transformer_csan_small", "multi30k", "transformer_csan_small"),
    ],
)
def test_the_quick_start_takes_trees_where_they_are_needed(data: str, arch: str, name: str, system: str) -> None:
    found = quickstart.recipe_for(data, arch, None)
    assert found.name == name and quickstart.system_of(found, arch) == system
    sized, own = found.system(system)
    recipe.expand(own, "train", arch=sized)
    assert measures.measure_of(own).reads_phrases == name.endswith("_phrases")
