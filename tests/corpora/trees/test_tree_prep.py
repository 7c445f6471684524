"""Preparations with --trees: phrases stand beside the binarised text, and trees that the user brings are checked."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from support.corpora.prep import SPLITS, assert_refused, change_line, files_of, prepare
from support.corpora.preparations import MULTI30K_SIZES, TOY


def assert_phrases(out: Path, without: int = 0) -> None:
    """Every split has phrases in OUT/bin; `without`: training sentences without a tree."""
    for split in SPLITS:
        count, empty = MULTI30K_SIZES[split], without if split == "train" else 0
        report = (out / "phrases/report.txt").read_text()
        assert f"{split}.de-en.en: {count} sentences, {empty} without a tree" in report
        assert (out / f"bin/{split}.de-en.en.phrases.idx").exists()


@pytest.mark.slow
@pytest.mark.xdist_group("toy")
def test_toy_trees_are_added_to_prepared_data(preparation, tmp_path):
    shutil.copytree(preparation("toy").out, tmp_path / "out")
    before = files_of(tmp_path / "out")
    done = prepare("toy", tmp_path / "out", *TOY, "--trees", "en")
    assert done.returncode == 0, done.stderr
    assert before.items() <= files_of(tmp_path / "out").items()
    assert_phrases(tmp_path / "out")
    before = files_of(tmp_path / "out")
    begin = time.perf_counter()
    for options in ([], ["--trees", "en"]):
        assert prepare("toy", tmp_path / "out", *TOY, *options).returncode == 0
    assert time.perf_counter() - begin < 4 and files_of(tmp_path / "out") == before


@pytest.mark.slow
@pytest.mark.xdist_group("multi30k")
def test_multi30k_with_given_trees(preparation, tmp_path):
    made, out = preparation("multi30k"), tmp_path / "out"
    shutil.copytree(made.out, out)
    before = files_of(out)

    def with_trees(folder: Path) -> subprocess.CompletedProcess[str]:
        return made.prepare(out, "--trees", "en", "--tree-files", folder)

    # Trees of other lines: nothing is written, the trees can be mended.
    bad = shutil.copytree(made.source / "trees", tmp_path / "bad")
    change_line(bad / "train.en.tree", 2, "(ROOT (NN x))")
    done = with_trees(bad)
    assert done.returncode != 0 and "train.en.tree:2: " in done.stderr and "1 leaves" in done.stderr, done.stderr
    assert not list((out / "bin").glob("*phrases*")) and not (out / "phrases").exists()
    (bad / "valid.en.tree").unlink()
    assert_refused(with_trees(bad), "no valid.en.tree")
    done = with_trees(made.source / "trees")
    assert done.returncode == 0, done.stderr
    assert before.items() <= files_of(out).items()
    assert_phrases(out, without=1)
    assert_refused(with_trees(bad), "has the trees of 'trees=en tree-files=", "remove", f"{out}/tree")
