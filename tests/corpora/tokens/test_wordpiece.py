"""BERT's WordPieces: vocabularies, fairseq's dictionary of them, odd text."""

from __future__ import annotations

import sys

import pytest

from support.corpora.prep import assert_refused, attempt, call, lines_of

pytest.importorskip("tokenizers", reason="WordPieces need the package tokenizers")

from corpora.mini import news as mini_news
from corpora.text.lines import write_lines
from corpora.tokens import wordpiece


def test_dictionary_has_exactly_the_vocabulary(tmp_path):
    """BERT's has 30,522 entries, [PAD] first, its special ones not together: so many symbols, in its order."""
    from fairseq.data import Dictionary

    entries = ["[PAD]", *(f"[unused{n}]" for n in range(99)), "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    entries += [f"{'##' if n % 2 else ''}w{n}" for n in range(30_522 - len(entries))]
    write_lines(tmp_path / "given.txt", entries)
    wordpiece.write_vocabulary(wordpiece.read_vocabulary(tmp_path / "given.txt"), tmp_path)
    words = Dictionary.load(str(tmp_path / "dict.txt"))
    assert len(words) == 30_522
    assert words.symbols == ["<s>", "<pad>", "</s>", "<unk>"] + [e for e in entries if e not in wordpiece.SPECIAL]
    assert lines_of(tmp_path / "vocab.txt") == entries


ENTRIES = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "##s", "a"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: [line for line in lines if line != "[SEP]"], "vocab.txt: has no [SEP]: this is no vocabulary"),
        (lambda lines: [line for line in lines if "##" not in line], "vocab.txt: has no entry with ##"),
        (lambda lines: [*lines, "Paris"], "vocab.txt:10: Paris has capital letters: give the vocabulary of an uncased"),
        (lambda lines: [*lines, "the"], "vocab.txt:10: the is in line 7 already"),
        (lambda lines: [*lines, "two words"], "vocab.txt:10: a vocabulary has one entry without spaces a line"),
        (lambda lines: ["", *lines], "vocab.txt:1: a vocabulary has one entry"),
        (lambda lines: [*lines, "</s>"], "vocab.txt:10: </s> is a symbol of fairseq's"),
    ],
)
def test_wrong_vocabulary(tmp_path, change, message):
    write_lines(tmp_path / "vocab.txt", change(ENTRIES))
    assert_refused(attempt(wordpiece.read_vocabulary, tmp_path / "vocab.txt"), message)


def test_vocabulary_of_another_language(tmp_path):
    write_lines(tmp_path / "bpe", ["<unk> a"] * 5)
    done = attempt(wordpiece.check_known, tmp_path / "train.article", tmp_path / "bpe")
    assert_refused(done, "10 pieces, 50.00% of them unknown: the vocabulary is not that of this text")


def test_learned_vocabulary_is_the_same_in_each_run(tmp_path):
    """The tokenizers package alone gives another one in each process, by the order of its hash tables."""
    mini_news.gigaword(tmp_path)
    texts = [tmp_path / f"sumdata/train/train.{side}.txt.gz" for side in ("article", "title")]
    entries = wordpiece.learn(140, texts)
    work = "import sys; from corpora.tokens.wordpiece import *; print(*learn(140, [*map(Path, sys.argv[1:])]))"
    for _ in range(2):
        done = call(sys.executable, "-c", work, *texts)
        assert done.stdout.split() == entries, done.stderr
    assert len(entries) == 140 and entries[:5] == list(wordpiece.LEARNED_SPECIAL)


def test_pieces_have_no_white_space_and_no_special_entries(tmp_path):
    odd = "a\u0085b\u2028c \u00a0d\u3000e\x1cf\u200bg [SEP] [UNK] <s> </s> <pad> <unk> ##a \u4e2d\u6587 caf\u00e9 \x00"
    write_lines(tmp_path / "text", [odd.replace("\u0085", " "), "a b c d e f g sep unk pad s [ ] < > / # \u4e2d cafe"])
    write_lines(tmp_path / "vocab.txt", wordpiece.learn(100, [tmp_path / "text"]))
    encode, words = wordpiece.encoder(tmp_path / "vocab.txt"), wordpiece.splitter(tmp_path / "vocab.txt")
    pieces = encode(odd).split(" ")
    assert pieces == encode(odd).split() and not set(pieces) & {"<s>", "</s>", "<pad>", "<unk>", "[SEP]", "[UNK]"}
    assert " ".join(pieces).replace(" ##", "") == words(odd)
    assert words("Don't, CAF\u00c9! #.## [SEP]") == "don ' t , cafe ! # . # # [ sep ]"
    assert encode("x\u0436y a").split(" ") == ["<unk>", "a"]  # a character that was not learned
    done = attempt(wordpiece.learn, 20, [tmp_path / "text"])
    assert_refused(done, "a vocabulary of 20 has no room for its ", " characters; give at least ")
