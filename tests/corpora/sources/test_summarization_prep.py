"""Preparation of texts with summaries: mini corpora of CNN/DailyMail and Gigaword up to fairseq's task, bad input."""

from __future__ import annotations

import gzip
import hashlib
import itertools
from pathlib import Path

import pytest

from support.corpora.prep import SPLITS, assert_in_subwords, assert_refused, attempt, lines_of, prepare, prepare_until
from support.corpora.preparations import SMALL, prepared, unpacked

pytest.importorskip("tokenizers", reason="WordPieces need the package tokenizers")

from corpora.errors import DataError
from corpora.mini import news as mini_news
from corpora.mini.files import archive
from corpora.sources import cnndm
from corpora.text import overlap
from corpora.text.lines import write_lines
from corpora.tokens import wordpiece
from experiments.measure import rouge

LANGS = ("article", "summary")


def tables(folder: Path, splits: dict[str, int]) -> dict[str, tuple[list[str], list[str]]]:
    """Write {split}.source and .target with this number of pairs; text and summary of a pair share its number."""
    texts = {}
    for split, count in splits.items():
        article = [f"The city of place{n} has a new bridge. It cost {n} coins." for n in range(count)]
        texts[split] = (article, [f"Bridge of place{n} opened ." for n in range(count)])
        for name, lines in zip(("source", "target"), texts[split], strict=True):
            write_lines(folder / f"{split}.{name}", lines)
    return texts


@prepared("cnndm")
def test_cnndm_summaries_are_the_highlights_in_the_order_of_the_list(done, tmp_path):
    raw = done.out / "raw"
    unpacked(done.source, tmp_path / "source")
    texts = {path.stem: path.read_text() for path in (tmp_path / "source").rglob("*.story")}
    for split, name, left_out in (("train", "train", 1), ("valid", "val", 0), ("test", "test", 0)):
        found = [texts[hashlib.sha1(url.encode()).hexdigest()] for url in lines_of(done.source / f"all_{name}.txt")]
        kept = [text.split("@highlight") for text in found if not text.startswith("@highlight")]
        assert len(kept) == len(found) - left_out
        wanted = [" ".join(line.strip().removesuffix(".") + " ." for line in text[1:]) for text in kept]
        assert lines_of(raw / f"{split}.summary") == wanted
        articles = [[word for word in line.split() if word != "."] for line in lines_of(raw / f"{split}.article")]
        assert articles == [text[0].split() for text in kept]
    assert "train: 300 pairs (official: 287,113; paper: 287,226); 1 left out, without text or" in done.said
    whole, sentences = (lines_of(raw / f"test.article{end}") for end in ("", ".sentences"))
    for article, line in zip(whole, sentences, strict=True):
        assert line.replace(".", "").split() == article.replace(".", "").split() and line.endswith(" .")


def test_a_story_that_is_missing_is_named(tmp_path):
    mini_news.cnndm(tmp_path / "source")
    unpacked(tmp_path / "source", folder := tmp_path / "unpacked")
    write_lines(folder / "all_val.txt", ["", "http://x"])
    assert_refused(attempt(list, cnndm.read(folder, [folder])), "all_val.txt:2: no story", "of http://x")


def test_story_as_see_et_al_read_it():
    text = (
        "First  line\twithout an end\r\n\nIt ends.\n\n\u201cSo he said\u201d\n\nReally?\n\n"
        "@highlight\n\nOne thing\n\n@highlight\n\nMade in the U.S.\n\n"
        "@highlight\n\nIs it?\n\n@highlight\n\nAnd so on...\n"
    )
    lines, highlights = cnndm.article_and_highlights(text)
    assert lines == ["First line without an end .", "It ends.", "\u201cSo he said\u201d", "Really?"]
    assert highlights == ["One thing .", "Made in the U.S .", "Is it?", "And so on..."]
    assert cnndm.article_and_highlights("@highlight\n\nOnly this\n") == ([], ["Only this ."])


def test_lead3_is_taken_from_sentences():
    lines = ['Mr. Weber left the U.S. on Monday. He said: "I\'m off." Nobody', "Caption .", "It is over"]
    line = cnndm.sentences(lines)
    assert rouge.lead(line, 2) == 'Mr. Weber left the U.S. on Monday . He said: "I\'m off." .'
    assert rouge.sentences_of(line)[2:] == ["Nobody .", "Caption .", "It is over ."]
    assert cnndm.sentences(["..."]) == "..."


def assert_translation_task(out: Path) -> None:
    """fairseq reads the pieces of OUT/bpe; its two dictionaries are those of the vocabulary."""
    for lang in LANGS:
        assert (out / f"bin/dict.{lang}.txt").read_bytes() == (out / "vocab/dict.txt").read_bytes()
    assert_in_subwords(out, *LANGS)


@prepared("cnndm")
def test_cnndm_pieces_join_to_the_words_and_serve_the_task(done):
    """What MASS does with sed 's/ ##//g', and the tokenizer's own decoder."""
    from tokenizers.decoders import WordPiece

    out, decoder = done.out, WordPiece(cleanup=False)
    make = wordpiece.splitter(out / "vocab/vocab.txt")
    assert_translation_task(out)
    cut = 0
    for split, lang in itertools.product(SPLITS, LANGS):
        raw, encoded = (lines_of(out / f"{step}/{split}.{lang}") for step in ("raw", "bpe"))
        for text, line in zip(raw, encoded, strict=True):
            words = make(text).split(" ")
            if lang == "summary" and split != "test":
                cut += len(words) > 20
                words = words[:20]
            assert line.replace(" ##", "") == decoder.decode(line.split(" ")) == " ".join(words)
    assert cut > 100 and " ##" in (out / "bpe/train.article").read_text("utf-8")


@pytest.mark.slow
def test_bart_s_form_is_read_as_well(tmp_path):
    """One text a line; its sentences are found in the line. The vocabulary is one that is there."""
    texts = tables(tmp_path / "in", {"train": 120, "val": 60, "test": 60})
    vocabulary = tmp_path / "in/vocab.txt"
    write_lines(vocabulary, wordpiece.learn(140, [tmp_path / "in/train.source", tmp_path / "in/train.target"]))
    plain, out = tmp_path / "in/train.source", tmp_path / "out"
    plain.with_name("train.source.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    prepare_until("bpe", "cnndm", out, "--local", tmp_path / "in", "--vocab", vocabulary)
    for split, name in cnndm.FILES.items():
        assert (lines_of(out / f"raw/{split}.article"), lines_of(out / f"raw/{split}.summary")) == texts[name]
    assert lines_of(out / "raw/test.article.sentences")[7] == "The city of place7 has a new bridge . It cost 7 coins ."
    assert lines_of(out / "vocab/vocab.txt") == lines_of(vocabulary)
    done = prepare("cnndm", tmp_path / "other", "--local", tmp_path / "in")
    assert_refused(done, "vocab.txt is not the official file")
    vocabulary.unlink()
    done = prepare("cnndm", tmp_path / "none", "--local", tmp_path / "in")
    assert_refused(done, "in has no vocab.txt: get it from", "--vocab FILE")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda lines: lines[:-1], "train.source:60: misaligned: 60 lines here, 59 in"),
        (lambda lines: lines[1:] + lines[:1], "train.target:1: misaligned with"),
        (lambda lines: lines[-1:] + lines[:-1], "train.target:1: misaligned with"),
    ],
)
def test_bad_tables_name_file_and_line(tmp_path, damage, message):
    tables(tmp_path / "in", {"train": 60, "val": 5, "test": 5})
    target = tmp_path / "in/train.target"
    write_lines(target, damage(lines_of(target)))
    assert_refused(attempt(list, cnndm.read(tmp_path / "in", [])), message)


def test_official_tables_and_those_that_are_forced(tmp_path):
    """The official number of lines may end without newline; pairs of another order can be taken as they are."""
    tables(tmp_path, {"val": 60})
    pair = (tmp_path / "val.source", tmp_path / "val.target")
    write_lines(pair[1], lines_of(pair[1])[::-1])
    with pytest.raises(DataError, match="in lines 1 to 60 the summaries have"):
        list(overlap.aligned(*pair, official=60))
    pair[1].write_bytes(pair[1].read_bytes()[:-1])
    assert len(list(overlap.aligned(*pair, official=60, judge=False))) == 60
    with pytest.raises(DataError, match="val.target:60: no newline at the end"):
        list(overlap.aligned(*pair, official=61, judge=False))


@prepared("gigaword")
def test_gigaword_text_stays_as_it_comes_and_serves_the_task(done):
    sumdata, raw = done.source / "sumdata", done.out / "raw"
    train = gzip.decompress((sumdata / "train/train.article.txt.gz").read_bytes())
    assert (raw / "train.article").read_bytes() == train and b"#.## million" in train and b" <unk> said" in train
    assert (raw / "test.article").read_bytes() == (sumdata / "Giga/input.txt").read_bytes()
    assert (raw / "test.summary").read_bytes() == (sumdata / "Giga/task1_ref0.txt").read_bytes()
    assert not list(raw.glob("*.sentences"))
    assert " says < unk >" in (done.out / "tok/valid.summary").read_text()
    assert " says unk\n" in (done.out / "tok/test.summary").read_text()
    assert_translation_task(done.out)
    # <unk> of the text is text to the tokenizer, as it was to the authors', and not fairseq's symbol
    assert "<unk>" not in (done.out / "bpe/train.article").read_text()


@prepared("gigaword")
def test_gigaword_as_unilm_gives_it(done, tmp_path):
    raw = done.out / "raw"
    names = {f"{split}.{lang}": f"org_data/{'dev' if split == 'valid' else split}.{side}.txt"
             for split in SPLITS for lang, side in zip(LANGS, ("src", "tgt"), strict=True)}  # fmt: skip
    members = {theirs: (raw / ours).read_bytes() for ours, theirs in names.items()}
    archive(tmp_path / "ggw_data.zip", members | {"unilm_tokenized/train.src": b"not wanted"})
    url = tmp_path.as_uri()
    assert_refused(prepare("gigaword", tmp_path / "out", *SMALL, GIGAWORD_URL=url), "expected 578402958 bytes")
    prepare_until("raw", "gigaword", tmp_path / "out", *SMALL, "--no-checksums", GIGAWORD_URL=url)
    for name in names:
        assert (tmp_path / "out/raw" / name).read_bytes() == (raw / name).read_bytes()
    assert not (tmp_path / "out/download/unpacked").exists()
