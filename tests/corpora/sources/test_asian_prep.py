"""English-Japanese corpora, and words of Japanese and Chinese: preparations on mini corpora, and what they refuse."""

from __future__ import annotations

import gzip
import re
import shutil
import sys
from itertools import islice
from pathlib import Path

import pytest

from corpora.errors import DataError
from corpora.sources import aspec
from corpora.tokens import segment
from corpora.tokens.moses_tokenize import Tokenizer
from support.corpora.prep import (
    assert_refused,
    assert_translation_data,
    attempt,
    lines_of,
    prepare,
    prepare_until,
)
from support.corpora.preparations import CASES
from support.paths import SHARED

TANAKA = SHARED / "tanaka_enja"
SEPARATOR = " ||| "


@pytest.fixture(scope="module")
def aspec_corpus(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("corpus") / "aspec"
    CASES["aspec"].make(folder)
    return folder


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
    done, texts = prepare("aspec", tmp_path, "--local", aspec_corpus, "--pieces", "90"), aspec_lines(aspec_corpus)
    assert done.returncode == 0, done.stderr
    assert len(texts["train"]["en"]) == 1500 and not (tmp_path / "tok").exists()
    for split, sides in texts.items():
        for lang, lines in sides.items():
            assert lines_of(tmp_path / f"raw/{split}.{lang}") == lines
    english, japanese = (lines_of(tmp_path / f"bin/dict.{lang}.txt") for lang in ("en", "ja"))
    assert "▁book" in {line.split()[0] for line in english} and all(line.replace("▁", "").isascii() for line in english)
    assert "を" in {line.split()[0] for line in japanese}
    assert_translation_data(
        tmp_path / "bin", "en", "ja", {"test": texts["test"], "valid": texts["valid"]}, "sentencepiece"
    )
    for count in ("train: 1,500 pairs (published: 2,000,000)", "valid: 100 pairs (published: 1,790)", "1,812"):
        assert count in done.stdout


@pytest.mark.slow
@pytest.mark.xdist_group("aspec")
def test_aspec_in_words_and_bpe(preparation):
    """English by Moses, Japanese by MeCab as sacreBLEU calls it; the words come back from the BPE both ways."""
    sacrebleu_mecab = pytest.importorskip("sacrebleu.tokenizers.tokenizer_ja_mecab", reason="needs sacrebleu[ja]")
    done = preparation("aspec")
    aspec_bpe = done.out
    texts, mecab, moses = aspec_lines(done.source), sacrebleu_mecab.TokenizerJaMecab(), Tokenizer("en")
    words = {
        split: {"ja": [mecab(line) for line in sides["ja"]], "en": [moses(line) for line in sides["en"]]}
        for split, sides in texts.items()
    }
    for split, sides in words.items():
        for lang, lines in sides.items():
            assert lines_of(aspec_bpe / f"raw/{split}.{lang}") == texts[split][lang]
            assert lines_of(aspec_bpe / f"tok/{split}.{lang}") == lines
    assert "公園 で" in "\n".join(words["train"]["ja"])
    assert "@@ " in (aspec_bpe / "bpe/train.en").read_text("utf-8")
    assert_translation_data(aspec_bpe / "bin", "ja", "en", {"test": words["test"]}, "subword_nmt")
    assert not (aspec_bpe / "tokens").exists() and not (aspec_bpe / "text").exists()


def change_line(path: Path, number: int, change) -> None:
    lines = path.read_text("utf-8").split("\n")
    lines[number - 1] = change(lines[number - 1])
    path.write_text("\n".join(lines), "utf-8")


@pytest.mark.parametrize(
    ("name", "damage", "parts"),
    [
        ("train/train-2.txt", lambda p: change_line(p, 7, lambda line: line.rsplit(SEPARATOR, 1)[0]),
         ["train-2.txt:7: 4 fields, 5 wanted", "score ||| id ||| number ||| Japanese ||| English"]),
        ("dev/dev.txt", lambda p: change_line(p, 3, lambda line: f"0.5{SEPARATOR}{line}"), ["dev.txt:3: '0.5' is a"]),
        ("train/train-1.txt", lambda p: change_line(p, 5, lambda line: "x" + line), ["train-1.txt:5: 'x", "no score"]),
        ("test/test.txt", lambda p: change_line(p, 2, lambda line: SEPARATOR.join([*line.split(SEPARATOR)[:3], ""])),
         ["test.txt:2: the English is empty"]),
    ],
    ids=["field", "scored", "no score", "empty"],
)  # fmt: skip
def test_bad_aspec_names_file_and_line(aspec_corpus, tmp_path, name, damage, parts):
    path = tmp_path / Path(name).name
    shutil.copyfile(aspec_corpus / name, path)
    damage(path)
    targets = (tmp_path / "x.ja", tmp_path / "x.en")
    assert_refused(attempt(aspec.prepare, [path], targets, 0, scored=name.startswith("train")), *parts)
    assert not targets[0].exists()


def test_aspec_training_pairs_without_a_side_are_left_out(tmp_path):
    source = tmp_path / "train-1.txt"
    source.write_text("0.9 ||| A-1 ||| 1 ||| 日本 ||| Japan ||| or so\n0.8 ||| A-1 ||| 2 |||  ||| Nothing\n", "utf-8")
    done = attempt(aspec.prepare, [source], (tmp_path / "x.ja", tmp_path / "x.en"), 2, scored=True)
    assert done.stdout.startswith("x: 1 pairs (published: 2)\nx: 1 more pairs have an empty side")
    assert lines_of(tmp_path / "x.ja") == ["日本"] and lines_of(tmp_path / "x.en") == ["Japan ||| or so"]


@pytest.mark.slow
@pytest.mark.skipif(not TANAKA.is_dir(), reason="no ../shared/data/tanaka_enja here")
def test_tanaka_goes_the_same_way(tmp_path):
    """Real text: its Japanese words are joined to raw text, which comes back from the pieces."""
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for name, count in (("train", 1500), ("dev", 100), ("test", 100)):
        for lang in ("en", "ja"):
            with gzip.open(TANAKA / f"{name}.{lang}.gz", "rb") as text:
                (corpus / f"{name}.{lang}.gz").write_bytes(gzip.compress(b"".join(islice(text, count))))
    out = tmp_path / "out"
    options = ["--pairs", corpus, "--join-ja", "--pieces", "1000"]
    prepare_until("bpe", "aspec", out, *options)
    raw = {lang: lines_of(out / f"raw/test.{lang}") for lang in ("en", "ja")}
    words = gzip.decompress((corpus / "test.ja.gz").read_bytes()).decode()
    assert raw["ja"] == words.replace(" ", "").split("\n")[:-1]
    assert [len(lines_of(out / f"raw/{split}.ja")) for split in ("train", "valid", "test")] == [1500, 100, 100]
    lines = [line.replace(" ", "").replace("▁", "") for line in lines_of(out / "bpe/test.ja")]
    assert sum(line == text for line, text in zip(lines, raw["ja"], strict=True)) > 90


# segment.py


def test_words_of_chinese():
    pytest.importorskip("jieba", reason="needs the extra zh")
    cut = segment.chinese()
    assert cut("我们在北京的公园看书。") == "我们 在 北京 的 公园 看书 。"
    assert cut("中国 人民　银行") == cut("中国人民银行")  # spaces between Chinese characters are not trusted
    assert cut("GDP 3.5 percent\r") == "GDP 3.5 percent"


def test_words_are_joined():
    assert segment.join("彼 は New York で 買 っ た 。") == "彼はNew Yorkで買った。"
    assert segment.join(" 12 歳 　 に ") == "12歳に"


@pytest.mark.parametrize(("lang", "module", "part"), [("zh", "jieba", ".[zh]"), ("ja", "MeCab", ".[ja]")])
def test_missing_library_is_named(monkeypatch, lang, module, part):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DataError, match=re.escape(part)):
        segment.SEGMENTERS[lang]()


def test_line_without_words_is_an_error_but_in_training(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "train.ja").write_text("日本 です\n\u3000\n", "utf-8")
    segment.words_of_folder(folder, tmp_path / "out", True, 1)
    assert lines_of(tmp_path / "out/train.ja") == ["日本 です", ""]
    (folder / "train.ja").rename(folder / "test.ja")
    with pytest.raises(DataError, match=r"test\.ja:2: "):
        segment.words_of_folder(folder, tmp_path / "out", True, 1)
