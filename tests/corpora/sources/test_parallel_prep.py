"""Parallel text of one's own: what is cleaned and held out, its tokens, and the four kinds of subwords."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import sentencepiece

from corpora.toy import grammar
from support.corpora.prep import SPLITS, assert_in_subwords, assert_refused, lines_of, prepare
from support.corpora.preparations import Prepared

GIVEN = ("--source", "de", "--target", "en")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("parallel")]


def test_cleaned_and_held_out(done: Prepared):
    """Pairs with an empty or a long side are left out; every 19th of the others is a test pair, in both languages."""
    german, english = (lines_of(done.source / f"corpus.{lang}") for lang in ("de", "en"))
    kept = [pair for pair in zip(german, english, strict=True) if all(pair) and max(map(len, pair)) < 700]
    assert 0 < len(german) - len(kept) == 20 and "tok: 400 pairs before cleaning" in done.said
    for side, lang in enumerate(("de", "en")):
        expected = [pair[side] for number, pair in enumerate(kept, 1) if number % 20 == 0]
        assert lines_of(done.out / f"raw/test.{lang}") == expected
        assert len(lines_of(done.out / f"raw/train.{lang}")) == len(kept) - len(expected)
        assert len(lines_of(done.out / f"raw/valid.{lang}")) == 30


def test_tokens_and_subwords_are_those_of_fairseq_interactive(done: Prepared):
    """A raw sentence becomes the same subwords by --tokenizer moses --bpe subword_nmt as in the training text."""
    from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig
    from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE, SubwordNMTBPEConfig

    bpe = SubwordNMTBPE(SubwordNMTBPEConfig(bpe_codes=str(done.out / "bpe/codes")))
    for lang in ("de", "en"):
        tokenizer = MosesTokenizer(MosesTokenizerConfig(source_lang=lang, target_lang=lang))
        raw = lines_of(done.out / f"raw/valid.{lang}")
        assert [bpe.encode(tokenizer.encode(line)) for line in raw] == lines_of(done.out / f"bpe/valid.{lang}")
    assert_in_subwords(done.out, "de", "en")
    assert (done.out / "bin/dict.de.txt").read_bytes() == (done.out / "bin/dict.en.txt").read_bytes()


def test_two_splits_are_held_out_and_pieces_join_to_the_raw_text(done: Prepared, tmp_path: Path):
    text = shutil.copytree(done.source, tmp_path / "text")
    words = ("parallel", tmp_path / "out", *GIVEN, "--train", text / "corpus", "--held-out", 40, "--pieces", 90)
    made = prepare(*words)
    assert made.returncode == 0, made.stderr
    train, valid, test = (lines_of(tmp_path / f"out/raw/{split}.en") for split in SPLITS)
    assert len(valid) == len(test) == 38 and len({*train, *valid, *test}) == len({*train}) + 76
    pieces = lines_of(tmp_path / "out/bpe/valid.en")
    assert [line.replace(" ", "").replace("▁", " ").strip() for line in pieces] == valid
    model = sentencepiece.SentencePieceProcessor(model_file=f"{tmp_path}/out/bpe/sentencepiece.model")
    assert model.get_piece_size() == 90
    with (text / "corpus.de").open("a") as file:
        file.write("noch ein Satz\n")
    assert_refused(prepare(*words), f"{text}/corpus.de is not the text of which {tmp_path}/out was prepared; give")
    shutil.rmtree(text)
    assert prepare(*words).returncode == 0, "the text is not needed again"


def test_separate_subwords_and_dictionaries(done: Prepared, tmp_path: Path):
    assert done.prepare(tmp_path, "--separate").returncode == 0
    for name in ("bpe/{}.codes", "bin/dict.{}.txt"):
        one, two = (tmp_path / name.format(lang) for lang in ("de", "en"))
        assert one.read_bytes() != two.read_bytes()


def test_phrases_of_ones_own_trees_go_with_pieces(tmp_path: Path):
    grammar.write(tmp_path / "text", 5, {"train": 150, "valid": 20, "test": 20})
    text = [word for split in SPLITS for word in (f"--{split}", tmp_path / "text" / split)]
    kind = ["--pieces", 70, "--tokenizer", "moses", "--trees", "en", "--tree-files", tmp_path / "text"]
    done = prepare("parallel", tmp_path / "out", *GIVEN, *text, *kind)
    assert done.returncode == 0 and "train.de-en.en: 150 sentences, 0 without" in done.stdout, done.stderr
    assert (tmp_path / "out/bin/test.de-en.en.phrases.idx").exists()
