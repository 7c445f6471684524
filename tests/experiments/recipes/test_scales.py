"""The scale smoke: a row's own architecture and flags, with a few updates of a narrow model on a mini corpus."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpora.mini.trees import write_trees
from experiments.data.preparation import Corpus
from experiments.data.prepared import Prepared
from experiments.recipes.recipe import load_recipe
from experiments.recipes.scales import AVERAGED, SMOKE, narrow_flags, recipe_at
from experiments.recipes.tables import find_table
from experiments.report.papers import SUMMARY


def test_a_smoke_run_differs_in_what_smoke_yaml_says() -> None:
    table = find_table("diffwin", "table1")
    whole, small = (recipe_at(table, "en_de_all", scale) for scale in ("full", "smoke"))
    settings = load_recipe(SMOKE)
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


@pytest.mark.parametrize(
    ("architecture", "heads", "stacks"),
    [("transformer_csan_wmt_en_de_big", 16, ["encoder", "decoder"]), ("transformer_lm_diffwin", 8, ["decoder"])],
)
def test_a_narrow_model_keeps_its_heads(architecture: str, heads: int, stacks: list[str]) -> None:
    expected = []
    for stack in stacks:
        expected += [f"--{stack}-embed-dim", str(8 * heads), f"--{stack}-ffn-embed-dim", str(16 * heads)]
    assert narrow_flags(architecture) == expected


@pytest.mark.parametrize("key", SUMMARY)
def test_the_readme_names_the_model_that_was_measured(key: str) -> None:
    paper, table, row = key.split("/")
    found = recipe_at(find_table(paper, table), row, "small")
    own = {flag: entry.value for flag, entry in found.train.items() if flag.startswith(f"{paper}_")}
    flags = [f"--{flag.replace('_', '-')} {value}" for flag, value in own.items()]
    assert SUMMARY[key][1] == " ".join([found.architecture.removesuffix("_small"), *flags])


def test_trees_of_a_mini_corpus_come_between_two_preparations(tmp_path: Path) -> None:
    """With the recipe's own options for the mini corpus; trees come from files, not from a parser."""
    small = recipe_at(find_table("mgsa", "table3"), "syntactic", "smoke")
    whole = recipe_at(find_table("mgsa", "table3"), "syntactic", "full").corpus.smoke
    assert whole and small.corpus.options == (*whole, "--tree-files", "{folder}.trees")
    data = Prepared(tmp_path / "data", "en", "de")
    corpus, without, trees, last = Corpus(small, data, None, tmp_path / "mini").commands()
    assert corpus[-2:] == ["wmt14_en_de", str(tmp_path / "mini")]
    assert "--trees" not in without and "--tree-files" not in without and without[2] == str(data.folder)
    assert trees[2:] == [str(data.folder / "tok"), "en", f"{data.folder}.trees"]
    assert last[last.index("--tree-files") + 1] == f"{data.folder}.trees" and "--trees" in last


def test_mini_trees_have_the_words_of_their_lines(tmp_path: Path) -> None:
    lines = ["A dog runs in ( the ) park .", "Yes", "Two words"]
    (tmp_path / "test.en").write_text("".join(line + "\n" for line in lines))
    write_trees(tmp_path, "en", tmp_path / "trees")
    trees = (tmp_path / "trees" / "test.en.tree").read_text().splitlines()
    for line, tree in zip(lines, trees, strict=True):
        leaves = [word.rstrip(")") for word in tree.split() if not word.startswith("(")]
        assert leaves == line.replace("(", "-LRB-").replace(")", "-RRB-").split()
        assert tree.count("(") == tree.count(")")
