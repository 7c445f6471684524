"""Preparations with --trees: phrases stand beside the binarised text, and trees that the user brings are checked."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from fairseq_localattn.phrases.store import unpack
from fairseq_localattn.phrases.trees import partition, read_tree
from support.corpora.prep import SPLITS, assert_refused, change_line, files_of, lines_of, prepare
from support.corpora.preparations import CASES, MULTI30K_SIZES, TOY


def assert_phrases(out: Path, trees: Path, empty: int = 0) -> None:
    """The phrases in OUT/bin are the partition of the trees, in subwords; `empty` sentences have no tree."""
    from fairseq.data import Dictionary, data_utils

    tags = Dictionary.load(str(out / "bin/dict.en.phrases.txt"))
    for split in SPLITS:
        data = data_utils.load_indexed_dataset(str(out / f"bin/{split}.de-en.en.phrases"))
        lines = zip(lines_of(trees / f"{split}.en.tree"), lines_of(out / f"bpe/{split}.en"), strict=True)
        assert len(data) == MULTI30K_SIZES[split]
        for number, (line, text) in enumerate(lines):
            total, levels = unpack(data[number])
            assert total == len(text.split()) and len(levels) == 3
            if not line:
                empty -= 1
                assert all(set(found.tolist()) == {tags.pad()} for _, found in levels)
                continue
            for (lengths, found), phrases in zip(levels, partition(read_tree(line)), strict=True):
                assert sum(lengths) == total
                assert [tags[int(tag)] for tag in found] == [phrase.tag for phrase in phrases]
    assert empty == 0


@pytest.mark.slow
@pytest.mark.xdist_group("toy")
def test_toy_trees_are_added_to_prepared_data(preparation, tmp_path):
    shutil.copytree(preparation("toy").out, tmp_path / "out")
    before = files_of(tmp_path / "out")
    done = prepare("toy", tmp_path / "out", *TOY, "--trees", "en")
    assert done.returncode == 0, done.stderr
    assert before.items() <= files_of(tmp_path / "out").items()
    assert "150 sentences, 0 without a tree" in (tmp_path / "out/phrases/report.txt").read_text()
    assert_phrases(tmp_path / "out", tmp_path / "out/raw")
    before = files_of(tmp_path / "out")
    begin = time.perf_counter()
    for options in ([], ["--trees", "en"]):
        assert prepare("toy", tmp_path / "out", *TOY, *options).returncode == 0
    assert time.perf_counter() - begin < 4 and files_of(tmp_path / "out") == before


def multi30k(out: Path, corpus: Path, *options: object):
    return prepare("multi30k", out, *CASES["multi30k"].arguments(corpus), *options)


@pytest.mark.slow
@pytest.mark.xdist_group("multi30k")
def test_multi30k_with_given_trees(preparation, tmp_path):
    made = preparation("multi30k")
    corpus, out, trees = made.source, tmp_path / "out", made.source / "trees"
    shutil.copytree(made.out, out)
    options, before = (out / "options.txt").read_text(), files_of(out)
    # Trees of other lines: nothing is written, the trees can be mended.
    shutil.copytree(trees, tmp_path / "bad")
    change_line(tmp_path / "bad/train.en.tree", 2, "(ROOT (NN x))")
    done = multi30k(out, corpus, "--trees", "en", "--tree-files", tmp_path / "bad")
    assert done.returncode != 0 and "train.en.tree:2: " in done.stderr and "1 leaves" in done.stderr, done.stderr
    assert not list((out / "bin").glob("*phrases*")) and not (out / "phrases").exists()
    (tmp_path / "bad/valid.en.tree").unlink()
    assert_refused(multi30k(out, corpus, "--trees", "en", "--tree-files", tmp_path / "bad"), "no valid.en.tree")
    done = multi30k(out, corpus, "--trees", "en", "--tree-files", trees)
    assert done.returncode == 0, done.stderr
    assert before.items() <= files_of(out).items() and options == (out / "options.txt").read_text()
    assert "150 sentences, 1 without a tree" in (out / "phrases/report.txt").read_text()
    assert_phrases(out, out / "tree", empty=1)
    refused = multi30k(out, corpus, "--trees", "en", "--tree-files", tmp_path / "bad")
    assert_refused(refused, "has the trees of 'trees=en tree-files=", "remove", f"{out}/tree")
