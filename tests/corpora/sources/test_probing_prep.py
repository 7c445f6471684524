"""Trees for the probing tasks: their forms, and what is no tree."""

from __future__ import annotations

import re
import shutil

import pytest

from corpora.sources import probing
from support.corpora.prep import SPLITS, assert_refused, attempt, lines_of
from support.corpora.preparations import prepared
from support.probing_trees import make_trees


@prepared("probing")
def test_changed_trees_are_refused(done, tmp_path):
    out, trees = shutil.copytree(done.out, tmp_path / "out"), done.source / "train.mrg"
    before = trees.read_bytes()
    trees.write_bytes(before + b"(ROOT (NN x))\n")
    try:
        assert_refused(done.prepare(out), f"{trees} is not the text of which {out} was prepared")
    finally:
        trees.write_bytes(before)


@pytest.mark.parametrize("between", ["", "\n"])
def test_trees_over_several_lines(between, tmp_path):
    """The Penn Treebank's own form: the lines of a tree are indented, a blank line between trees or none."""
    first = "( (S (NP-SBJ (DT a) (NN b)) (VP (VBD c) (NP (-NONE- *))) (. .)) )"
    trees, path = [first, "(ROOT (NP (NN d)))", *make_trees(3, 1)], tmp_path / "several.mrg"
    indented = (re.sub(r" \((?=[A-Z])", "\n    (", tree) + "\n" for tree in trees)
    path.write_text(between + between.join(indented) + between, "utf-8")
    assert [text for _, text in probing.bracketings(path) if text] == trees
    write = probing.word_writer("en", escape=False, lowercase=False)
    probing.label_split(path, tmp_path, "train", write=write, lang="en")
    assert lines_of(tmp_path / "train.en")[:2] == ["a b c .", "d"]


FAILED = {
    "(())": "an empty node: ()",
    "SENTENCE_SKIPPED": "a tree begins with a bracket, found SENTENCE_SKIPPED",
    "(S (NP (NN a)) (VP (VB b))": "unbalanced brackets: 1 not closed",
}


def test_failed_parses_are_listed_and_left_out_by_option(tmp_path):
    for split in SPLITS:
        failed = list(FAILED) if split != "valid" else []
        (tmp_path / f"{split}.mrg").write_text("".join(tree + "\n" for tree in ["(ROOT (NP (NN c)))", *failed] * 2))
    (tmp_path / "part").mkdir()
    words = [probing.prepare, {split: tmp_path / f"{split}.mrg" for split in SPLITS}, tmp_path / "part", "en"]
    done = attempt(*words)
    assert_refused(done, "what is listed above is no tree (12): mend it, or leave it out with --skip-failed")
    listed = [f"{tmp_path}/{split}.mrg:{start + number}: {FAILED[tree]}"
              for split in ("train", "test") for start in (2, 6) for number, tree in enumerate(FAILED)]  # fmt: skip
    assert [line for line in done.stdout.splitlines() if ".mrg:" in line] == listed
    done = attempt(*words, skip_failed=True)
    assert done.returncode == 0 and "train: 2 sentences" in done.stdout and "; without a tree: 6\n" in done.stdout
    assert lines_of(tmp_path / "part/train.en") == ["c", "c"]
