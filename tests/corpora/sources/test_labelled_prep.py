"""Texts with labels: sentiment trees, film reviews, subject-verb agreement, up to fairseq's task; what they refuse."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from corpora.mini import news as mini_news
from corpora.mini.files import write
from corpora.sources import imdb, labelled, sst, sva
from corpora.tokens import moses_tokenize
from support.corpora.prep import SPLITS, assert_binarised, assert_refused, attempt, change_line, lines_of, prepare_until
from support.paths import SHARED

TABLE = "agr_50_mostcommon_10K.tsv"
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

Examples = list[tuple[str, str, int]]  # split, text, label


def trees_of(folder: Path) -> Examples:
    """Read without the code under test, as all three."""
    return [
        (split, " ".join(re.findall(r" ([^\s()]+)\)", line)), int(line[1]))
        for split, name in (("train", "train"), ("valid", "dev"), ("test", "test"))
        for line in lines_of(folder / f"{name}.txt")
    ]


def reviews_of(folder: Path) -> Examples:
    """Negative reviews first, in order of name; the last ones of each class are the validation text."""
    found: Examples = []
    for part in ("train", "test"):
        for label, kind in enumerate(("neg", "pos")):
            files = sorted((folder / "aclImdb" / part / kind).iterdir())
            texts = [" ".join(path.read_text().replace("<br />", " ").split()) for path in files]
            cut = len(texts) - (30 if part == "train" else 0)
            found += [("valid" if place >= cut else part, text, label) for place, text in enumerate(texts)]
    return found


def rows_of(folder: Path) -> Examples:
    """Every row is in one split, in its order there, without the verb and what follows."""
    with (folder / TABLE).open(newline="") as table:
        rows = list(csv.DictReader(table, delimiter="\t"))
    splits = [SPLITS[place] for place in sva.divide(len(rows), 1)]
    assert [splits.count(split) for split in SPLITS] == [270, 30, 2700]
    texts = [(" ".join(row["sentence"].split()[:5]), int(row["verb_pos"] == "VBP")) for row in rows]
    return [(split, *text) for split, text in zip(splits, texts, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "read", "classes"),
    [
        pytest.param(name, *rest, id=name, marks=pytest.mark.xdist_group(name))
        for name, *rest in (("sst", trees_of, 5), ("imdb", reviews_of, 2), ("sva", rows_of, 2))
    ],
)
def test_texts_and_labels_serve_the_task(name: str, read: Callable[[Path], Examples], classes: int, done):
    examples, inputs, labels = read(done.source), done.out / "bin/input0", done.out / "bin/label"
    for split in SPLITS:
        texts = [text for found, text, _ in examples if found == split]
        numbers = [str(label) for found, _, label in examples if found == split]
        assert lines_of(done.out / f"raw/{split}.text") == texts
        assert lines_of(done.out / f"raw/{split}.label") == numbers
        tokens = [moses_tokenize.Tokenizer("en")(text) for text in texts] if name == "imdb" else texts
        assert_binarised(inputs / split, inputs / "dict.txt", tokens)
        assert assert_binarised(labels / split, labels / "dict.txt", numbers) == [str(each) for each in range(classes)]


@pytest.fixture()
def trees(tmp_path: Path) -> Path:
    """A small treebank in the release's layout: training sentences twice, but for the last."""
    for name, kept in (("train", TREES + TREES[:5]), ("dev", TREES[1:]), ("test", TREES[::-1])):
        write(tmp_path / f"trees/{name}.txt", kept)
    return tmp_path / "trees"


def test_sst_classes_and_phrases(trees):
    """Of two classes neutral texts are left out; phrases are distinct and only in the training text."""
    expected = [(text, int(label > 2)) for text, label in zip(TEXTS, LABELS, strict=True) if label != 2]
    assert [row[1:] for row in sst.read(trees, 2, phrases=False) if row[0] == "test"] == expected[::-1]
    found, plain = (list(sst.read(trees, 5, phrases=each)) for each in (True, False))
    train = [row[1:] for row in found if row[0] == "train"]
    assert len(set(train)) == len(train)
    assert set(train) == {
        ("It", 2), ("'s", 2), ("great", 4), ("'s great", 4), (".", 2), ("'s great .", 4), ("It 's great .", 3),
        ("An", 2), ("awful", 0), ("***", 2), ("awful ***", 0), ("An awful ***", 0), ("An awful *** .", 0),
        ("(", 2), (")", 2), ("writer/director", 2), ("writer/director )", 2), ("( writer/director )", 2),
        ("2 1/2", 2), ("stars", 1), ("2 1/2 stars", 1), ("2 1/2 stars .", 1), ("great .", 4),
    }  # fmt: skip
    assert [row for row in found if row[0] in ("valid", "test")] == [row for row in plain if row[0] != "train"]
    assert [row[1:] for row in found if row[0] == "sentences"] == [row[1:] for row in plain if row[0] == "train"]


def test_sst_phrases_keep_the_dictionary_of_the_sentences(trees, tmp_path):
    """Counted over phrases, the word of a single leaf would be frequent."""
    for name, options in (("phrases", ["--phrases"]), ("sentences", [])):
        prepare_until("dict", "sst", tmp_path / name, "--local", trees, *options)
    one, two = (tmp_path / name / "dict/dict.txt" for name in ("phrases", "sentences"))
    assert one.read_bytes() == two.read_bytes() and len(lines_of(tmp_path / "phrases/raw/train.text")) == 23


@pytest.mark.slow
@pytest.mark.skipif(not (SHARED / "sst").is_dir(), reason="no ../shared/data/sst here")
@pytest.mark.parametrize(("classes", "phrases", "train"), [(2, False, 6920), (5, True, 159274)])
def test_sst_release_has_its_numbers(tmp_path, classes, phrases, train):
    official = sst.OFFICIAL[classes] | {"train": train}
    found = sst.read(SHARED / "sst", classes, phrases)
    done = attempt(labelled.prepare, tmp_path, classes, found, official, exact=True)
    assert done.returncode == 0, done.stderr
    text = "\n".join((tmp_path / f"{split}.text").read_text("utf-8") for split in SPLITS)
    assert "-LRB-" not in text and "\\" not in text and "\u00a0" not in text and " ( " in text


def test_separators_of_lines_in_a_tree_are_spaces(trees):
    change_line(trees / "train.txt", 1, TREES[0].replace("great", "gr\r\x85\x1c\u2028eat") + "\r\u2028")
    found = [row[1:] for row in sst.read(trees, 5, phrases=False) if row[0] == "train"]
    assert found[:6] == list(zip(["It 's gr eat .", *TEXTS[1:]], LABELS, strict=True))


def test_numbers_are_official_or_said(trees, tmp_path):
    given = [labelled.prepare, tmp_path, 5, list(sst.read(trees, 5, phrases=False)), sst.OFFICIAL[5]]
    assert_refused(attempt(*given, exact=True), "train: 11 texts (official: 8,544)")
    done = attempt(*given)
    assert done.returncode == 0 and "train: 11 texts (official: 8,544); class 0: 2, class 1: 2" in done.stdout
    assert imdb.official(1000) == {"train": 23_000, "valid": 2_000, "test": 25_000}


def test_sva_seed_decides_the_division():
    assert sva.divide(1000, 1) == sva.divide(1000, 1) != sva.divide(1000, 2)
    assert [sva.divide(1_577, 2).tolist().count(split) for split in range(3)] == [141, 15, 1421]


READERS: dict[str, Callable[[Path], object]] = {
    "sst": lambda folder: sst.read(folder, 5, phrases=False),
    "imdb": lambda folder: imdb.read(folder, 149),
    "sva": lambda folder: sva.read(folder / TABLE, 1),
}


def review(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "aclImdb" / name).write_text(" \n")


def tree(text: str) -> Callable[[Path], object]:
    return lambda folder: change_line(folder / "train.txt", 3, text)


def row(number: int, old: str, new: str) -> Callable[[Path], object]:
    return lambda folder: change_line(folder / TABLE, number, lambda line: line.replace(old, new))


WRONG: list[tuple[str, Callable[[Path], object], str]] = [
    ("imdb", review("train/pos/notes.txt"), "notes.txt: a review is named ID_RATING.txt"),
    ("imdb", review("train/pos/999_4.txt"), "999_4.txt: 4 points, but"),
    ("imdb", review("test/neg/999_3.txt"), "999_3.txt: is empty"),
    ("imdb", lambda folder: (folder / "aclImdb/test/neg").rename(folder / "x"), "test/neg: cannot be read"),
    ("imdb", lambda x: next((x / "aclImdb/train/neg").iterdir()).unlink(), "neg: --valid 149 leaves none of 149"),
    ("sst", tree("(3 (2 It) (2 works)"), "train.txt:3: unbalanced brackets"),
    ("sst", tree("(3 (5 It) (2 works))"), "train.txt:3: a label from 0 to 4 must follow each bracket, found 5"),
    ("sst", tree("(3 (2 a) (2 b) (2 .))"), "train.txt:3: a node has two subtrees or one word, found 3 subtrees of 3"),
    ("sst", tree("(3 (2 It) (2 <pad>))"), "train.txt:3: the word <pad> is a symbol of fairseq's"),
    ("sst", tree(""), "train.txt:3: empty line"),
    ("sva", row(152, "\tVB", "\tVX"), f"{TABLE}:152: verb_pos is VBZ or VBP, found VX"),
    ("sva", row(152, "\t6\t", "\t1\t"), f"{TABLE}:152: verb_index 1 is no word with words before it (8 words)"),
    ("sva", row(152, "the ", "<s> "), f"{TABLE}:152: the word <s> is a symbol of fairseq's"),
    ("sva", row(152, "\t_\r", "\r"), f"{TABLE}:152: 17 columns, the header has 18"),
    ("sva", row(1, "verb_pos", "x"), f"{TABLE}:1: no column verb_pos in the header; it has sentence,"),
    ("sva", lambda folder: (folder / TABLE).write_text("\t".join(mini_news.COLUMNS) + "\n"), ": 0 rows; at least 100"),
]


@pytest.mark.parametrize(("corpus", "damage", "message"), WRONG)
def test_bad_corpora_name_file_and_line(corpus, damage, message, tmp_path):
    mini_news.CORPORA[corpus](tmp_path)
    damage(tmp_path)
    assert_refused(attempt(list, READERS[corpus](tmp_path)), message)
