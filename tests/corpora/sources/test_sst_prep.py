"""Preparation of the Stanford Sentiment Treebank: made trees up to fairseq's task, and the real ones where they are."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from corpora.sources import labelled, sst
from support.corpora.prep import (
    SEPARATORS,
    SPLITS,
    assert_classification_task,
    assert_refused,
    attempt,
    lines_of,
    prepare,
    prepare_until,
)
from support.paths import SHARED

SST = SHARED / "sst"
needs_sst = pytest.mark.skipif(not SST.is_dir(), reason="no ../shared/data/sst here")

# Every label; brackets, slash and star escaped; a no-break space inside a word, as the release has it.
TREES = [
    "(3 (2 It) (4 (4 (2 's) (4 great)) (2 .)))",
    "(0 (0 (2 An) (0 (0 awful) (2 \\*\\*\\*))) (2 .))",
    "(2 (2 -LRB-) (2 (2 writer\\/director) (2 -RRB-)))",
    "(1 (1 (2 2\u00a01\\/2) (1 stars)) (2 .))",
    "(4 (4 great) (2 .))",
    "(2 .)",
]
TEXTS = ["It 's great .", "An awful *** .", "( writer/director )", "2 1/2 stars .", "great .", "."]
LABELS = [3, 0, 2, 1, 4, 2]


@pytest.fixture(scope="module")
def trees(tmp_path_factory) -> Path:
    """A small treebank in the release's layout: training sentences twice, but for the last."""
    folder = tmp_path_factory.mktemp("sst") / "trees"
    folder.mkdir()
    for name, kept in (("train", TREES + TREES[:5]), ("dev", TREES[1:]), ("test", TREES[::-1])):
        (folder / f"{name}.txt").write_text("".join(tree + "\n" for tree in kept), "utf-8")
    return folder


def test_sst_by_download_of_a_broken_archive(trees, tmp_path):
    archive, out = tmp_path / "trees.zip", tmp_path / "out"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in sorted(trees.iterdir()):
            packed.write(path, f"trees/{path.name}")
    whole = archive.read_bytes()
    archive.write_bytes(whole[: len(whole) // 2])
    refused = prepare("sst", out, "--no-checksums", SST_URL=archive.as_uri())
    assert_refused(refused, "trees.zip is not the whole file", "damaged or cut-off archive", "run again")
    archive.write_bytes(whole)
    prepare_until("raw", "sst", out, "--no-checksums", SST_URL=archive.as_uri())
    assert lines_of(out / "raw/train.text") == TEXTS + TEXTS[:5]
    assert lines_of(out / "raw/train.label") == [str(label) for label in LABELS + LABELS[:5]]
    assert lines_of(out / "raw/valid.text") == TEXTS[1:]
    assert lines_of(out / "raw/labels.txt") == ["0 2", "1 2", "2 3", "3 2", "4 2"]


@pytest.mark.slow
@pytest.mark.xdist_group("sst")
def test_sst_serves_the_task(preparation):
    done = preparation("sst")
    texts = {split: lines_of(done.out / f"raw/{split}.text") for split in SPLITS}
    labels = {split: [int(label) for label in lines_of(done.out / f"raw/{split}.label")] for split in SPLITS}
    assert_classification_task(done.out / "bin", 5, texts, labels)


def test_sst_two_classes_leave_neutral_texts_out(trees):
    found = list(sst.read(trees, 2, phrases=False))
    expected = [(text, int(label > 2)) for text, label in zip(TEXTS, LABELS, strict=True) if label != 2]
    assert [(text, label) for split, text, label in found if split == "test"] == expected[::-1]
    assert {split for split, _, _ in found} == set(SPLITS)


def test_sst_phrases_are_distinct_and_only_in_training(trees):
    found = list(sst.read(trees, 5, phrases=True))
    train = [(text, label) for split, text, label in found if split == "train"]
    assert len(set(train)) == len(train)
    assert set(train) == {
        ("It", 2), ("'s", 2), ("great", 4), ("'s great", 4), (".", 2), ("'s great .", 4), ("It 's great .", 3),
        ("An", 2), ("awful", 0), ("***", 2), ("awful ***", 0), ("An awful ***", 0), ("An awful *** .", 0),
        ("(", 2), (")", 2), ("writer/director", 2), ("writer/director )", 2), ("( writer/director )", 2),
        ("2 1/2", 2), ("stars", 1), ("2 1/2 stars", 1), ("2 1/2 stars .", 1), ("great .", 4),
    }  # fmt: skip
    plain = list(sst.read(trees, 5, phrases=False))
    assert [row for row in found if row[0] in ("valid", "test")] == [row for row in plain if row[0] != "train"]
    assert [row[1:] for row in found if row[0] == "sentences"] == [row[1:] for row in plain if row[0] == "train"]
    assert 2 not in {label for _, _, label in sst.read(trees, 2, phrases=True)}
    assert ("great", 1) in {row[1:] for row in sst.read(trees, 2, phrases=True)}


def test_sst_phrases_keep_the_dictionary_of_the_sentences(trees, tmp_path):
    """Counted over phrases, the word of a single leaf would be frequent."""
    for name, options in (("phrases", ["--phrases"]), ("sentences", [])):
        prepare_until("dict", "sst", tmp_path / name, "--local", trees, *options)
    one, two = (tmp_path / name / "dict/dict.txt" for name in ("phrases", "sentences"))
    assert one.read_bytes() == two.read_bytes() and len(lines_of(tmp_path / "phrases/raw/train.text")) == 23


@needs_sst
@pytest.mark.parametrize(
    ("options", "counts", "classes"),
    [
        ({"classes": 2}, (6920, 872, 1821), [3310, 3610]),
        ({"phrases": True}, (159274, 1101, 2210), [7233, 27711, 81658, 33361, 9311]),
    ],
)
def test_sst_release_has_its_numbers(tmp_path, options, counts, classes):
    classes_, phrases = options.get("classes", 5), options.get("phrases", False)
    official = sst.OFFICIAL[classes_] | ({"train": counts[0]} if phrases else {})
    done = attempt(labelled.prepare, tmp_path, classes_, sst.read(SST, classes_, phrases), official, exact=True)
    assert done.returncode == 0, done.stderr
    for split, count in zip(SPLITS, counts, strict=True):
        assert len(lines_of(tmp_path / f"{split}.text")) == len(lines_of(tmp_path / f"{split}.label")) == count
    labels = lines_of(tmp_path / "train.label")
    assert [labels.count(str(label)) for label in range(len(classes))] == classes
    text = "\n".join((tmp_path / f"{split}.text").read_text("utf-8") for split in SPLITS)
    assert "-LRB-" not in text and "\\" not in text and "\u00a0" not in text and " ( " in text


def test_separators_of_lines_in_a_tree_are_spaces(trees, tmp_path):
    """Official text is not refused for them, nor gets another line."""
    for name in ("dev", "test"):
        (tmp_path / f"{name}.txt").write_bytes((trees / f"{name}.txt").read_bytes())
    separators = "".join(SEPARATORS)
    written = [TREES[0].replace("great", f"gr{separators}eat") + separators, *TREES[1:]]
    (tmp_path / "train.txt").write_bytes("".join(f"{tree}\n" for tree in written).encode())
    found = [row[1:] for row in sst.read(tmp_path, 5, phrases=False) if row[0] == "train"]
    assert found == list(zip(["It 's gr eat .", *TEXTS[1:]], LABELS, strict=True))


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ("(3 (2 It) (2 works)", "train.txt:3: unbalanced brackets"),
        ("(3 (2 It) (2 works)))", "train.txt:3: unbalanced brackets, or more than one tree"),
        ("(3 (5 It) (2 works))", "train.txt:3: a label from 0 to 4 must follow each bracket, found 5"),
        ("(3 (2 It) (2 works) (2 .))", "train.txt:3: a node has two subtrees or one word, found 3 subtrees of 3"),
        ("(3 (2 It) (2 works well))", "train.txt:3: a node has two subtrees or one word, found 0 subtrees of 2"),
        ("It works", "train.txt:3: unbalanced brackets"),
        ("(3 (2 It) (2 <pad>))", "train.txt:3: the word <pad> is a symbol of fairseq's"),
        ("", "train.txt:3: empty line"),
    ],
)
def test_bad_trees_name_file_and_line(trees, tmp_path, tree, message):
    for name in ("train", "dev", "test"):
        (tmp_path / f"{name}.txt").write_bytes((trees / f"{name}.txt").read_bytes())
    (tmp_path / "train.txt").write_text("\n".join([*TREES[:2], tree, *TREES]) + "\n", "utf-8")
    assert_refused(attempt(list, sst.read(tmp_path, 5, phrases=False)), message)


def test_sst_numbers_are_official_or_said(trees, tmp_path):
    given = [labelled.prepare, tmp_path, 5, list(sst.read(trees, 5, phrases=False)), sst.OFFICIAL[5]]
    assert_refused(attempt(*given, exact=True), "train: 11 texts (official: 8,544)")
    done = attempt(*given)
    assert done.returncode == 0 and "train: 11 texts (official: 8,544); class 0: 2, class 1: 2" in done.stdout
