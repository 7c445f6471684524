"""Preparations with --trees: phrases stand beside the binarised text, and trees that the user brings are checked."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from pathlib import Path

from support.corpora.prep import assert_refused, change_line, files_of
from support.corpora.preparations import MULTI30K_SIZES, prepared


def assert_phrases(out: Path, without: int = 0) -> None:
    """Every split has phrases in OUT/bin; `without`: training sentences without a tree."""
    report = (out / "phrases/report.txt").read_text()
    for split, count in MULTI30K_SIZES.items():
        empty = without if split == "train" else 0
        assert f"{split}.de-en.en: {count} sentences, {empty} without a tree" in report
        assert (out / f"bin/{split}.de-en.en.phrases.idx").exists()


@prepared("toy")
def test_toy_trees_are_added_to_prepared_data(done, tmp_path):
    out = shutil.copytree(done.out, tmp_path / "out")
    before = files_of(out)
    made = done.prepare(out, "--trees", "en")
    assert made.returncode == 0, made.stderr
    assert before.items() <= files_of(out).items()
    assert_phrases(out)
    before = files_of(out)
    for options in ([], ["--trees", "en"]):
        assert done.prepare(out, *options).returncode == 0
    assert files_of(out) == before


@prepared("multi30k")
def test_multi30k_with_given_trees(done, tmp_path):
    out = shutil.copytree(done.out, tmp_path / "out")
    before = files_of(out)

    def with_trees(folder: Path) -> subprocess.CompletedProcess[str]:
        return done.prepare(out, "--trees", "en", "--tree-files", folder)

    # Trees of other lines: nothing is written, the trees can be mended.
    bad = shutil.copytree(done.source / "trees", tmp_path / "bad")
    change_line(bad / "train.en.tree", 2, "(ROOT (NN x))")
    made = with_trees(bad)
    assert made.returncode != 0 and f"{bad}/train.en.tree:2: " in made.stderr and "1 leaves" in made.stderr, made.stderr
    assert not list((out / "bin").glob("*phrases*")) and not (out / "phrases").exists()
    whole = gzip.compress((bad / "valid.en.tree").read_bytes())
    (bad / "valid.en.tree").unlink()
    assert_refused(with_trees(bad), "no valid.en.tree")
    (bad / "valid.en.tree.gz").write_bytes(whole[:-9])
    assert_refused(with_trees(bad), "valid.en.tree.gz")
    good = shutil.copytree(done.source / "trees", tmp_path / "good")
    made = with_trees(good)
    assert made.returncode == 0, made.stderr
    shutil.rmtree(good)
    assert with_trees(good).returncode == 0, "the trees are not needed again"
    assert before.items() <= files_of(out).items()
    assert_phrases(out, without=1)
    assert_refused(with_trees(bad), "has the trees of 'trees=en tree-files=", "remove", f"{out}/tree")
