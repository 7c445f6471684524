"""Preparation of film reviews and subject-verb agreement: samples in their sources' formats, up to fairseq's task."""

from __future__ import annotations

import csv
import gzip
import hashlib
import re
import shutil
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from corpora.sources import imdb, labelled, sva
from corpora.tokens import moses_tokenize
from support.corpora.prep import (
    SPLITS,
    assert_classification_task,
    assert_refused,
    attempt,
    files_of,
    lines_of,
    prepare,
    prepare_until,
)


def test_failed_download_says_what_to_do(tmp_path):
    done = prepare("sva", tmp_path / "out", SVA_URL=(tmp_path / "nowhere.gz").as_uri())
    assert_refused(done, "download of file:", "nowhere.gz failed", "run again to continue", "--local")


# IMDB


def review(number: int, kind: str) -> str:
    good = "wonderful" if kind == "pos" else "terrible"
    return f'A {good} film ({number % 3}/10).<br /><br />I\'d see "it"\u0085again & again -- {good}!'


@pytest.fixture(scope="module")
def reviews(tmp_path_factory) -> Path:
    """Twelve reviews of each class to train on and seven to test; the order of names is not that of numbers."""
    folder = tmp_path_factory.mktemp("imdb") / "aclImdb"
    for part, count in (("train", 12), ("test", 7)):
        for kind, points in (("pos", 8), ("neg", 3)):
            (folder / part / kind).mkdir(parents=True)
            for number in range(count):
                (folder / part / kind / f"{number}_{points}.txt").write_text(review(number, kind), "utf-8")
    (folder / "train/unsup").mkdir()
    (folder / "train/unsup/0_0.txt").write_text("No label.")
    return folder


@pytest.fixture(scope="module")
def imdb_data(reviews, tmp_path_factory) -> Path:
    """Prepared by download, in two runs."""
    folder = tmp_path_factory.mktemp("imdb_data")
    archive = folder / "reviews.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(reviews, "aclImdb")
    out, options = folder / "out", ["--valid", "3", "--min-count", "2", "--no-checksums"]
    given = {"IMDB_URL": archive.as_uri()}
    prepare_until("raw", "imdb", out, *options, **given)
    assert (out / "raw").is_dir() and not (out / "tok").exists()
    raw = files_of(out / "raw")
    done = prepare("imdb", out, *options, **given)
    assert done.returncode == 0, done.stderr
    assert files_of(out / "raw") == raw
    assert not (out / "download/reviews").exists() and (out / "download/aclImdb_v1.tar.gz").exists()
    return out


def imdb_expected() -> tuple[dict[str, list[str]], dict[str, list[int]]]:
    """Negative reviews first, in order of name: 10_3.txt and 11_3.txt come before 1_3.txt; the last are 7, 8 and 9."""
    texts: dict[str, list[str]] = {split: [] for split in SPLITS}
    labels: dict[str, list[int]] = {split: [] for split in SPLITS}
    names = [0, 10, 11, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    for split, numbers in (("train", names[:9]), ("valid", names[9:]), ("test", list(range(7)))):
        for label, kind in enumerate(("neg", "pos")):
            texts[split] += [" ".join(review(number, kind).replace("<br />", " ").split()) for number in numbers]
            labels[split] += [label] * len(numbers)
    return texts, labels


@pytest.mark.slow
def test_imdb_text_labels_and_held_out_reviews(imdb_data):
    texts, labels = imdb_expected()
    for split in SPLITS:
        assert lines_of(imdb_data / f"raw/{split}.text") == texts[split]
        assert lines_of(imdb_data / f"raw/{split}.label") == [str(label) for label in labels[split]]
    assert "<br" not in (imdb_data / "raw/train.text").read_text("utf-8")


@pytest.mark.slow
def test_imdb_serves_the_task(imdb_data):
    texts, labels = imdb_expected()
    tokenize = moses_tokenize.Tokenizer("en")
    tokens = {split: [tokenize(text) for text in texts[split]] for split in SPLITS}
    assert "wonderful film ( 0 / 10 ) ." in tokens["test"][7]
    assert_classification_task(imdb_data / "bin", 2, tokens, labels)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "train/pos/5_8.txt").rename(folder / "train/pos/5_4.txt"), "5_4.txt: 4 points, but"),
        (lambda folder: (folder / "train/pos/notes.txt").write_text("x"), "notes.txt: a review is named ID_RATING.txt"),
        (lambda folder: (folder / "test/neg/1_3.txt").write_text("<br /> \n"), "1_3.txt: is empty"),
        (lambda folder: (folder / "test/neg").rename(folder / "test/negative"), "test/neg: cannot be read"),
        (lambda folder: None, "train/neg: --valid 12 leaves none of 12 reviews"),
    ],
)  # fmt: skip
def test_bad_reviews_name_the_file(reviews, tmp_path, damage, message):
    folder = tmp_path / "aclImdb"
    shutil.copytree(reviews, folder)
    damage(folder)
    assert_refused(attempt(labelled.prepare_imdb, tmp_path, tmp_path, 12 if "--valid" in message else 3), message)


def test_imdb_official_numbers():
    assert imdb.official(1000) == {"train": 23_000, "valid": 2_000, "test": 25_000}


# Subject-verb agreement


HEADER = (
    "sentence orig_sentence pos_sentence subj verb subj_pos has_rel has_nsubj verb_pos subj_index verb_index "
    "n_intervening last_intervening n_diff_intervening distance max_depth all_nouns nouns_up_to_verb"
).split()  # of the authors' rnnagr/utils.py


def agreement(number: int) -> dict[str, object]:
    """A row whose text tells its number; one in three is plural; some have quotes, which the table then doubles."""
    plural = number % 3 == 0
    noun = '"keys"' if plural and number % 2 else "keys" if plural else "key"
    verb = "are" if plural else "is"
    return dict.fromkeys(HEADER, "x") | {
        "sentence": f"the {noun} n{number} NNP {verb} here .",
        "verb_pos": "VBP" if plural else "VBZ",
        "verb_index": 5,
    }


def write_table(path: Path, rows: list[dict[str, object]]) -> None:
    """As the authors' deps_to_tsv writes it."""
    with path.open("w", newline="", encoding="utf-8") as out:
        table = csv.DictWriter(out, HEADER, delimiter="\t")
        table.writeheader()
        table.writerows(rows)


@pytest.fixture(scope="module")
def sva_data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("sva_data")
    table = folder / "agr_50_mostcommon_10K.tsv"
    write_table(table, [agreement(number) for number in range(310)])
    assert b'"the ""keys"" n3 ' in table.read_bytes() and table.read_bytes().endswith(b"\r\n")
    server = folder / "table.gz"
    server.write_bytes(gzip.compress(table.read_bytes()))
    # Nobody has published its checksum: what came is kept, and accepted by an option, without a second download.
    refused = prepare("sva", folder / "out", SVA_URL=server.as_uri())
    assert_refused(refused, f"{len(server.read_bytes())} bytes", hashlib.sha256(server.read_bytes()).hexdigest())
    told = r"--no-checksums or --local (.*/out/download) \(in a table: --local sva=\1, or \$SVA_DIR\), or pin"
    assert re.search(told, refused.stderr)
    server.unlink()
    done = prepare("sva", folder / "out", "--no-checksums", SVA_URL=server.as_uri())
    assert done.returncode == 0, done.stderr
    assert (folder / "out/options.txt").read_text() == "sva seed=1 min-count=1 checksums=0 local=download\n"
    return folder / "out"


@pytest.mark.slow
def test_sva_division_text_and_labels(sva_data):
    seen = []
    for split, count in (("train", 27), ("valid", 3), ("test", 280)):
        texts, labels = (lines_of(sva_data / f"raw/{split}.{kind}") for kind in ("text", "label"))
        assert len(texts) == len(labels) == count
        numbers = [int(text.split()[2][1:]) for text in texts]
        assert numbers == sorted(numbers)
        for number, text, label in zip(numbers, texts, labels, strict=True):
            assert text.split() == str(agreement(number)["sentence"]).split()[:4]  # nothing of the verb
            assert label == ("1" if number % 3 == 0 else "0")
        seen += numbers
    assert sorted(seen) == list(range(310))
    assert max(int(text.split()[2][1:]) for text in lines_of(sva_data / "raw/train.text")) > 200  # not the first rows


@pytest.mark.slow
def test_sva_serves_the_task(sva_data):
    texts = {split: lines_of(sva_data / f"raw/{split}.text") for split in SPLITS}
    labels = {split: [int(label) for label in lines_of(sva_data / f"raw/{split}.label")] for split in SPLITS}
    assert_classification_task(sva_data / "bin", 2, texts, labels)


def test_sva_seed_decides_the_division():
    assert sva.divide(1000, 1) == sva.divide(1000, 1) != sva.divide(1000, 2)
    for seed in (1, 2):
        assert [sva.divide(1_577, seed).tolist().count(split) for split in range(3)] == [141, 15, 1421]


def test_sva_rows_are_not_kept(tmp_path):
    """The table is read row by row: the peak of memory is far below the size of the file."""
    table = tmp_path / "table.tsv"
    write_table(table, [agreement(number) | {"orig_sentence": "word " * 100} for number in range(10_000)])
    assert table.stat().st_size > 5_000_000
    tracemalloc.start()
    try:
        assert sum(1 for _ in sva.read(table, 1)) == 10_000
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"verb_pos": "VBD"}, "table.tsv:152: verb_pos is VBZ or VBP, found VBD"),
        ({"verb_index": 1}, "table.tsv:152: verb_index 1 is no word with words before it (7 words)"),
        ({"sentence": "the <s> NNP x is"}, "table.tsv:152: the word <s> is a symbol of fairseq's"),
    ],
)
def test_bad_rows_name_file_and_line(tmp_path, change, message):
    rows = [agreement(number) for number in range(200)]
    rows[150] |= change
    write_table(tmp_path / "table.tsv", rows)
    assert_refused(attempt(labelled.prepare_sva, tmp_path / "table.tsv", tmp_path, 1), message)


def test_bad_tables(tmp_path):
    table = tmp_path / "agr_50_mostcommon_10K.tsv"
    assert_refused(attempt(labelled.prepare_sva, table, tmp_path, 1), f"{table}: cannot be read: No such file")
    write_table(table, [agreement(number) for number in range(99)])
    assert_refused(attempt(labelled.prepare_sva, table, tmp_path, 1), f"{table}: 99 rows; at least 100")
    assert_refused(prepare("sva", tmp_path / "out", "--local", tmp_path), f"{table}: 99 rows")
    write_table(table, [agreement(number) for number in range(200)])
    whole = table.read_bytes()
    table.write_bytes(whole.replace(b"verb_pos", b"verbpos"))
    assert_refused(
        attempt(labelled.prepare_sva, table, tmp_path, 1),
        "10K.tsv:1: no column verb_pos in the header; it has sentence,",
    )
    table.write_bytes(whole[:-20])
    assert_refused(
        attempt(labelled.prepare_sva, table, tmp_path, 1), "10K.tsv:201: no newline at the end: the file was cut off"
    )
    lines = whole.split(b"\n")
    lines[100] = b"\t".join(lines[100].split(b"\t")[:-1])
    table.write_bytes(b"\n".join(lines))
    assert_refused(attempt(labelled.prepare_sva, table, tmp_path, 1), f"{table}:101: 17 columns, the header has 18")
