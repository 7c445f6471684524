"""Preparation of film reviews and subject-verb agreement: samples in their sources' formats, up to fairseq's task."""

from __future__ import annotations

import csv
import gzip
import hashlib
import random
import re
from pathlib import Path

import pytest

from corpora.mini import news as mini_news
from corpora.sources import imdb, sva
from corpora.tokens import moses_tokenize
from support.corpora.prep import (
    SPLITS,
    assert_classification_task,
    assert_refused,
    attempt,
    lines_of,
    prepare,
    prepare_until,
)


def test_failed_download_says_what_to_do(tmp_path):
    done = prepare("sva", tmp_path / "out", SVA_URL=(tmp_path / "nowhere.gz").as_uri())
    assert_refused(done, "download of file:", "nowhere.gz failed", "run again to continue", "--local")


# IMDB


@pytest.mark.slow
@pytest.mark.xdist_group("imdb")
def test_imdb_texts_labels_and_held_out_reviews(preparation):
    """Negative reviews first, in order of name; the last ones of each class are the validation text."""
    done = preparation("imdb")
    texts: dict[str, list[str]] = {split: [] for split in SPLITS}
    labels: dict[str, list[int]] = {split: [] for split in SPLITS}
    for part in ("train", "test"):
        for label, kind in enumerate(("neg", "pos")):
            files = sorted((done.source / "aclImdb" / part / kind).iterdir())
            found = [" ".join(path.read_text().replace("<br />", " ").split()) for path in files]
            cut = len(found) - (30 if part == "train" else 0)
            for split, some in ((part, found[:cut]), ("valid", found[cut:])):
                texts[split] += some
                labels[split] += [label] * len(some)
    tokenize = moses_tokenize.Tokenizer("en")
    for split in SPLITS:
        assert lines_of(done.out / f"raw/{split}.text") == texts[split] and "<br" not in "".join(texts[split])
        assert lines_of(done.out / f"raw/{split}.label") == [str(label) for label in labels[split]]
    tokens = {split: [tokenize(text) for text in texts[split]] for split in SPLITS}
    assert_classification_task(done.out / "bin", 2, tokens, labels)


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    mini_news.imdb(tmp_path)
    return tmp_path / "aclImdb"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "train/pos/notes.txt").write_text("x"), "notes.txt: a review is named ID_RATING.txt"),
        (lambda folder: (folder / "train/pos/999_4.txt").write_text("x"), "999_4.txt: 4 points, but"),
        (lambda folder: (folder / "test/neg/999_3.txt").write_text("<br /> \n"), "999_3.txt: is empty"),
        (lambda folder: (folder / "test/neg").rename(folder / "test/negative"), "test/neg: cannot be read"),
        (lambda folder: None, "train/neg: --valid 150 leaves none of 150 reviews"),
    ],
)  # fmt: skip
def test_bad_reviews_name_the_file(reviews, tmp_path, damage, message):
    damage(reviews)
    assert_refused(attempt(list, imdb.read(tmp_path, 150 if "--valid" in message else 3)), message)


def test_imdb_official_numbers():
    assert imdb.official(1000) == {"train": 23_000, "valid": 2_000, "test": 25_000}


# Subject-verb agreement


TABLE = "agr_50_mostcommon_10K.tsv"


def test_sva_that_nobody_has_published_a_checksum_of(tmp_path):
    """What came is kept, and accepted by an option, without a second download."""
    server = tmp_path / "table.gz"
    mini_news.sva(tmp_path)
    server.write_bytes(gzip.compress((tmp_path / TABLE).read_bytes()))
    refused = prepare("sva", tmp_path / "out", SVA_URL=server.as_uri())
    assert_refused(refused, f"{len(server.read_bytes())} bytes", hashlib.sha256(server.read_bytes()).hexdigest())
    told = r"--no-checksums or --local (.*/out/download) \(in a table: --local sva=\1, or \$SVA_DIR\), or pin"
    assert re.search(told, refused.stderr)
    server.unlink()
    prepare_until("raw", "sva", tmp_path / "out", "--no-checksums", SVA_URL=server.as_uri())
    assert (tmp_path / "out/options.txt").read_text() == "sva seed=1 min-count=1 checksums=0 local=download\n"


@pytest.mark.slow
@pytest.mark.xdist_group("sva")
def test_sva_texts_labels_and_division(preparation):
    """Every row is in one split, in its order there, without the verb and what follows."""
    done = preparation("sva")
    with (done.source / TABLE).open(newline="") as table:
        rows = [(row["sentence"].split()[:5], row["verb_pos"]) for row in csv.DictReader(table, delimiter="\t")]
    division = sva.divide(len(rows), 1).tolist()
    texts: dict[str, list[str]] = {}
    labels: dict[str, list[int]] = {}
    for place, (split, count) in enumerate((("train", 270), ("valid", 30), ("test", 2700))):
        chosen = [row for row, found in zip(rows, division, strict=True) if found == place]
        texts[split] = [" ".join(words) for words, _ in chosen]
        labels[split] = [int(tag == "VBP") for _, tag in chosen]
        assert len(chosen) == count and lines_of(done.out / f"raw/{split}.text") == texts[split]
        assert lines_of(done.out / f"raw/{split}.label") == [str(label) for label in labels[split]]
    assert_classification_task(done.out / "bin", 2, texts, labels)


def write_table(path: Path, rows: list[dict[str, object]]) -> None:
    """As the authors' deps_to_tsv writes it: some fields are quoted."""
    with path.open("w", newline="", encoding="utf-8") as out:
        table = csv.DictWriter(out, mini_news.COLUMNS, delimiter="\t")
        table.writeheader()
        table.writerows(rows)


def agreement(number: int) -> dict[str, object]:
    return mini_news.agreement(random.Random(number)) | {"subj": '"x"'}


def test_sva_seed_decides_the_division():
    assert sva.divide(1000, 1) == sva.divide(1000, 1) != sva.divide(1000, 2)
    for seed in (1, 2):
        assert [sva.divide(1_577, seed).tolist().count(split) for split in range(3)] == [141, 15, 1421]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"verb_pos": "VBD"}, "table.tsv:152: verb_pos is VBZ or VBP, found VBD"),
        ({"verb_index": 1}, "table.tsv:152: verb_index 1 is no word with words before it (8 words)"),
        ({"sentence": "the <s> NNP x is here ."}, "table.tsv:152: the word <s> is a symbol of fairseq's"),
    ],
)
def test_bad_rows_name_file_and_line(tmp_path, change, message):
    rows = [agreement(number) for number in range(200)]
    rows[150] |= change
    write_table(tmp_path / "table.tsv", rows)
    assert_refused(attempt(list, sva.read(tmp_path / "table.tsv", 1)), message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: b"\n".join(text.split(b"\n")[:100]) + b"\n", ": 99 rows; at least 100"),
        (lambda text: text.replace(b"verb_pos", b"verbpos"), ":1: no column verb_pos in the header; it has sentence,"),
        (lambda text: text[:-20], ":201: no newline at the end: the file was cut off"),
        (lambda text: text.replace(b"\t_\t_\r\n", b"\t_\r\n", 1), ":2: 17 columns, the header has 18"),
    ],
)
def test_bad_tables(tmp_path, change, message):
    table = tmp_path / TABLE
    write_table(table, [agreement(number) for number in range(200)])
    table.write_bytes(change(table.read_bytes()))
    assert_refused(attempt(list, sva.read(table, 1)), f"{table}{message}")
