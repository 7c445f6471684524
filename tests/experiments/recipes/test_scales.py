"""The scale smoke: a row's own architecture and flags, with a few updates of a narrow model on a mini corpus."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from experiments.data.preparation import Corpus
from experiments.data.prepared import Prepared
from experiments.recipes.recipe import load_recipe
from experiments.recipes.scales import AVERAGED, SMOKE, narrow_flags, recipe_at
from experiments.recipes.tables import find_table
from support.paths import DATA_PREP


def test_a_smoke_run_differs_in_what_smoke_yaml_says() -> None:
    table = find_table("diffwin", "table1")
    whole, small, settings = (
        recipe_at(table, "en_de_all", "full"),
        recipe_at(table, "en_de_all", "smoke"),
        load_recipe(SMOKE),
    )
    for key, entry in small.train.items():
        assert entry.value == (settings.train.get(key) or whole.train[key]).value, key
    assert set(whole.train) <= set(small.train)
    assert "batch_size" not in small.train  # max_tokens is its batch
    assert (small.architecture, small.gpus, small.label) == (whole.architecture, 1, whole.label)
    kept = settings.flag("train", "keep_interval_updates")
    assert kept == AVERAGED and dict(whole.average) == {"last": 5} and dict(small.average) == {"last": kept}
    written = settings.flag("train", "max_update") // settings.flag("train", "save_interval_updates")
    assert written >= kept
    assert small.seeds == (1,) and small.expect_minutes < whole.expect_minutes


def test_options_of_a_mini_corpus() -> None:
    """The recipe's own for the mini corpus where it has some; trees come from files, not from a parser."""
    table = find_table("mgsa", "table3")
    whole, small = (recipe_at(table, "syntactic", scale).corpus for scale in ("full", "smoke"))
    assert whole.smoke is not None and small.options == (*whole.smoke, "--tree-files", "{folder}.trees")
    plain = find_table("man", "table1")
    assert "--trees" not in recipe_at(plain, "iwslt14_man", "smoke").corpus.options


@pytest.mark.parametrize(
    ("architecture", "heads", "stacks"),
    [
        ("transformer_man_iwslt_de_en", 4, ["encoder", "decoder"]),
        ("transformer_csan_wmt_en_de_big", 16, ["encoder", "decoder"]),
        ("transformer_man_summarization", 12, ["encoder", "decoder"]),
        ("transformer_lm_diffwin", 8, ["decoder"]),
        ("transformer_diffwin_classifier", 4, ["encoder"]),
    ],
)
def test_a_narrow_model_keeps_its_heads(architecture: str, heads: int, stacks: list[str]) -> None:
    expected = []
    for stack in stacks:
        expected += [f"--{stack}-embed-dim", str(8 * heads), f"--{stack}-ffn-embed-dim", str(16 * heads)]
    assert narrow_flags(architecture) == expected


def test_trees_of_a_mini_corpus_come_between_two_preparations(tmp_path: Path) -> None:
    small = recipe_at(find_table("mgsa", "table3"), "syntactic", "smoke")
    data = Prepared(tmp_path / "data", "en", "de")
    corpus, without, trees, last = Corpus(small, data, None, tmp_path / "mini").commands()
    assert corpus[-2:] == ["wmt14_en_de", str(tmp_path / "mini")]
    assert "--trees" not in without and "--tree-files" not in without and without[2] == str(data.folder)
    assert trees[2:] == [str(data.folder / "tok"), "en", f"{data.folder}.trees"]
    assert last[last.index("--tree-files") + 1] == f"{data.folder}.trees" and "--trees" in last


def test_mini_trees_have_the_words_of_their_lines(tmp_path: Path) -> None:
    lines = ["A dog runs in ( the ) park .", "Yes", "Two words"]
    (tmp_path / "test.en").write_text("".join(line + "\n" for line in lines))
    script = DATA_PREP / "mini_trees.py"
    subprocess.run([sys.executable, script, tmp_path, "en", tmp_path / "trees"], check=True)
    trees = (tmp_path / "trees" / "test.en.tree").read_text().splitlines()
    for line, tree in zip(lines, trees, strict=True):
        leaves = [word.rstrip(")") for word in tree.split() if not word.startswith("(")]
        assert leaves == line.replace("(", "-LRB-").replace(")", "-RRB-").split()
        assert tree.count("(") == tree.count(")")
