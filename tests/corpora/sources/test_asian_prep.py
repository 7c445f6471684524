"""English-Japanese corpora, and words of Japanese and Chinese: preparations on mini corpora, and what they refuse."""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path

import pytest

from corpora.errors import DataError
from corpora.mini.corpus import known_corpora
from corpora.mini.files import write
from corpora.sources import aspec
from corpora.tokens import segment
from corpora.tokens.moses_tokenize import Tokenizer
from support.corpora.prep import assert_in_subwords, assert_refused, attempt, change_line, lines_of, prepare_until
from support.corpora.preparations import CASES, prepared

SEPARATOR = " ||| "


@pytest.fixture()
def aspec_corpus(tmp_path) -> Path:
    CASES["aspec"].make(tmp_path / "aspec")
    return tmp_path / "aspec"


def aspec_lines(corpus: Path) -> dict[str, dict[str, list[str]]]:
    """Return the text of the files, read without the code under test."""
    files = {"train": ["train/train-1", "train/train-2"], "valid": ["dev/dev"], "test": ["test/test"]}
    rows = {
        split: [line.split(SEPARATOR) for name in names for line in lines_of(corpus / f"{name}.txt")]
        for split, names in files.items()
    }
    return {split: {"ja": [row[-2] for row in of], "en": [row[-1] for row in of]} for split, of in rows.items()}


@pytest.mark.slow
def test_aspec_in_pieces(aspec_corpus, tmp_path):
    """The raw text is that of the first two sections, and comes back from the pieces; each language has its own."""
    out, texts = tmp_path / "out", aspec_lines(aspec_corpus)
    said = prepare_until("bin", "aspec", out, "--local", aspec_corpus, "--pieces", "90")
    assert len(texts["train"]["en"]) == 1500 and not (out / "tok").exists()
    for split, sides in texts.items():
        for lang, lines in sides.items():
            assert lines_of(out / f"raw/{split}.{lang}") == lines
    english, japanese = ((out / f"bin/dict.{lang}.txt").read_text("utf-8") for lang in ("en", "ja"))
    assert "▁book " in english and "\nを " in japanese and "\nを " not in english
    assert_in_subwords(out, "en", "ja")
    pieces = [line.replace(" ", "").replace("▁", " ").strip() for line in lines_of(out / "bpe/test.en")]
    assert pieces == texts["test"]["en"]
    for count in ("train: 1,500 pairs (published: 2,000,000)", "valid: 100 pairs (published: 1,790)", "1,812"):
        assert count in said


@prepared("aspec")
def test_aspec_in_words_and_bpe(done):
    """English by Moses, Japanese by MeCab as sacreBLEU calls it; the words come back from the BPE both ways."""
    sacrebleu_mecab = pytest.importorskip("sacrebleu.tokenizers.tokenizer_ja_mecab", reason="needs sacrebleu[ja]")
    split_words = {"ja": sacrebleu_mecab.TokenizerJaMecab(), "en": Tokenizer("en")}
    for split, sides in aspec_lines(done.source).items():
        for lang, lines in sides.items():
            assert lines_of(done.out / f"raw/{split}.{lang}") == lines
            assert lines_of(done.out / f"tok/{split}.{lang}") == [split_words[lang](line) for line in lines]
    assert "公園 で" in (done.out / "tok/train.ja").read_text("utf-8")
    assert_in_subwords(done.out, "en", "ja")


@pytest.mark.parametrize(
    ("name", "number", "change", "message"),
    [
        ("train/train-2", 7, lambda line: line.rsplit(SEPARATOR, 1)[0],
         "train-2.txt:7: 4 fields, 5 wanted: score ||| id ||| number ||| Japanese ||| English"),
        ("dev/dev", 3, lambda line: f"0.5{SEPARATOR}{line}", "dev.txt:3: '0.5' is a"),
        ("train/train-1", 5, lambda line: "x" + line, "train-1.txt:5: 'x0.999500' is no score"),
        ("test/test", 2, lambda line: SEPARATOR.join([*line.split(SEPARATOR)[:3], ""]), "test.txt:2: the English is"),
    ],
)  # fmt: skip
def test_bad_aspec_names_file_and_line(aspec_corpus, tmp_path, name, number, change, message):
    path, targets = aspec_corpus / f"{name}.txt", (tmp_path / "x.ja", tmp_path / "x.en")
    change_line(path, number, change)
    assert_refused(attempt(aspec.prepare, [path], targets, 0, scored=name.startswith("train")), message)
    assert not targets[0].exists()


def test_aspec_training_pairs_without_a_side_are_left_out(tmp_path):
    source = tmp_path / "train-1.txt"
    source.write_text("0.9 ||| A-1 ||| 1 ||| 日本 ||| Japan ||| or so\n0.8 ||| A-1 ||| 2 |||  ||| Nothing\n", "utf-8")
    done = attempt(aspec.prepare, [source], (tmp_path / "x.ja", tmp_path / "x.en"), 2, scored=True)
    assert done.stdout.startswith("x: 1 pairs (published: 2)\nx: 1 more pairs have an empty side")
    assert lines_of(tmp_path / "x.ja") == ["日本"] and lines_of(tmp_path / "x.en") == ["Japan ||| or so"]


def test_words_of_tanaka_are_joined_to_raw_text(tmp_path):
    known_corpora()["tanaka_enja"](tmp_path)
    prepare_until("raw", "aspec", tmp_path / "out", "--pairs", tmp_path, "--join-ja", "--pieces", 90)
    for name, split in (("train", "train"), ("dev", "valid"), ("test", "test")):
        words = gzip.decompress((tmp_path / f"{name}.ja.gz").read_bytes()).decode()
        assert " " in words and lines_of(tmp_path / f"out/raw/{split}.ja") == words.replace(" ", "").split("\n")[:-1]


def test_words():
    assert segment.join("彼 は New York で 買 っ た 。") == "彼はNew Yorkで買った。"
    assert segment.join(" 12 歳 　 に ") == "12歳に"
    pytest.importorskip("jieba", reason="needs the extra zh")
    cut = segment.chinese()
    assert cut("我们在北京的公园看书。") == "我们 在 北京 的 公园 看书 。"
    assert cut("中国 人民　银行") == cut("中国人民银行")  # spaces between Chinese characters are not trusted
    assert cut("GDP 3.5 percent\r") == "GDP 3.5 percent"


@pytest.mark.parametrize(("lang", "module", "part"), [("zh", "jieba", ".[zh]"), ("ja", "MeCab", ".[ja]")])
def test_missing_library_is_named(monkeypatch, lang, module, part):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DataError, match=re.escape(part)):
        segment.SEGMENTERS[lang]()


def test_line_without_words_is_an_error_but_in_training(tmp_path):
    write(tmp_path / "in/train.ja", ["日本 です", "\u3000"])
    segment.words_of_folder(tmp_path / "in", tmp_path / "out", True, 1)
    assert lines_of(tmp_path / "out/train.ja") == ["日本 です", ""]
    (tmp_path / "in/train.ja").rename(tmp_path / "in/test.ja")
    done = attempt(segment.words_of_folder, tmp_path / "in", tmp_path / "out", True, 1)
    assert_refused(done, "test.ja:2: no token left")
