"""Chinese-English corpora: their preparations from end to end, on mini corpora, and what they refuse."""

from __future__ import annotations

import gzip
import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from corpora.mini.trees import write_trees
from corpora.sources import nist, sgm
from corpora.tokens import segment
from corpora.tokens.moses_tokenize import Tokenizer
from support.corpora.prep import assert_in_subwords, assert_refused, attempt, lines_of
from support.corpora.preparations import CASES, prepared

NIST_SETS = {"valid": "02", "test": "03", "test1": "04", "test2": "05", "test3": "06"}


@pytest.fixture()
def nist_corpus(tmp_path) -> Path:
    CASES["nist"].make(tmp_path / "nist")
    return tmp_path / "nist"


def segments(path: Path) -> list[str]:
    """The segments of a mini test set, read without the code under test."""
    return [html.unescape(text.strip()) for text in re.findall(r"<seg [^>]*>(.*?)</seg>", path.read_text("utf-8"))]


@prepared("nist")
def test_nist_test_sets_and_references(done):
    moses = Tokenizer("en")
    for split, year in NIST_SETS.items():
        chinese, english = (segments(done.source / f"mt{year}_chinese_evlset_v0-{x}.sgm") for x in ("src", "ref"))
        raw, tok, count = done.out / "raw", done.out / "tok", len(chinese)
        assert lines_of(raw / f"{split}.zh") == chinese and len(english) == 4 * count
        for number in range(4):
            reference = english[number * count : (number + 1) * count]
            assert lines_of(raw / f"{split}.en.ref{number}") == reference
            assert lines_of(tok / f"{split}.en.ref{number}") == [moses(line) for line in reference]  # cased
        assert lines_of(raw / f"{split}.en") == english[:count]
        assert [line.replace(" ", "") for line in lines_of(tok / f"{split}.zh")] == chinese
    splits = ("train", *NIST_SETS)
    assert [len(lines_of(tok / f"{split}.zh")) for split in splits] == [1600, 100, 60, 50, 40, 30]
    assert_in_subwords(done.out, "zh", "en", splits)
    assert (done.out / "bin/dict.zh.txt").read_bytes() != (done.out / "bin/dict.en.txt").read_bytes()


@prepared("nist")
def test_nist_with_trees(done, tmp_path):
    out, trees = shutil.copytree(done.out, tmp_path / "out"), tmp_path / "trees"
    write_trees(out / "tok", "zh", trees)
    made = done.prepare(out, "--trees", "zh", "--tree-files", trees)
    assert made.returncode == 0, made.stderr
    assert len(list((out / "bin").glob("*.zh-en.zh.phrases.idx"))) == 6


def read_nist(folder: Path, raw: Path, encoding: str = "utf-8") -> subprocess.CompletedProcess[str]:
    raw.mkdir(exist_ok=True)
    return attempt(nist.prepare, folder, raw, encoding)


def replace(path: Path, pattern: str, by: str, count: int = 1) -> None:
    text = path.read_text("utf-8")
    changed = re.sub(pattern, by, text, count=count, flags=re.DOTALL)
    assert changed != text
    path.write_text(changed, "utf-8")


SRC, REF = "mt03_chinese_evlset_v0-src.sgm", "mt03_chinese_evlset_v0-ref.sgm"


@pytest.mark.parametrize(
    ("name", "damage", "parts"),
    [
        (REF, lambda p: replace(p, r'<doc docid="MINI00010" sysid="E04">.*?</doc>\n', ""),
         [f"{REF}:", "document MINI00010 has 3 references, 4 wanted"]),
        (REF, lambda p: replace(p, r'<seg id="4">[^\n]*\n', ""), [f"{REF}:2: misaligned: ", "has no segment 4"]),
        (REF, lambda p: replace(p, r'id="4"', 'id="3"'), [f"{REF}:7: segment 3 of document MINI00000 is there twice"]),
        (SRC, lambda p: replace(p, r'(<seg id="2">).*?(</seg>)', r"\1  \2"), [f"{SRC}:5: segment 2", "is empty"]),
        (SRC, lambda p: p.write_bytes(p.read_bytes()[:-400]), [f"{SRC}:", "the file was cut off"]),
        (SRC, lambda p: p.write_bytes(p.read_text("utf-8").encode("gb18030")), [f"{SRC}:4: invalid UTF-8", "gb18030"]),
        (SRC, lambda p: p.unlink(), ["the source of MT03 should be below"]),
        (SRC, lambda p: shutil.copy(p, p.with_name("mt03.sgm")), ["which has the source of MT03?"]),
        ("train/news.zh", lambda p: p.write_text("".join(sorted(p.read_text("utf-8").splitlines(True))), "utf-8"),
         ["news.en:1: misaligned", "do not go together"]),
        ("train/news.en", lambda p: p.unlink(), ["news.zh: its English side is missing"]),
    ],
)  # fmt: skip
def test_bad_nist_names_file_and_line(nist_corpus, tmp_path, name, damage, parts):
    damage(nist_corpus / name)
    assert_refused(read_nist(nist_corpus, tmp_path / "raw"), *parts)
    assert not (tmp_path / "raw/train.zh").exists()


def test_plain_nist_in_another_encoding(nist_corpus, tmp_path):
    plain, marked_up, raw = (tmp_path / name for name in ("plain", "marked_up", "raw"))
    plain.mkdir()

    def write(name: str, text: str) -> None:
        (plain / name).write_bytes((gzip.compress if name.endswith(".gz") else bytes)(text.encode("gb18030")))

    done = read_nist(nist_corpus, marked_up)
    for part in ("test: MT03, 60 segments, 4 references (published: 919)", "train: 1,600 pairs (published: 1,250,000)"):
        assert part in done.stdout
    endings = ("zh", *(f"en.ref{number}" for number in range(4)))
    for split, year in NIST_SETS.items():
        for end in endings:
            text = (marked_up / f"{split}.{end}").read_text("utf-8")
            write(f"mt{year}.{end}" + (".gz" if year == "05" and end != "zh" else ""), text)
    write("train.zh", (nist_corpus / "train/news.zh").read_text("utf-8") + "空\n")
    write("train.en", (nist_corpus / "train/news.en").read_text("utf-8") + "\n")
    done = read_nist(plain, raw, "gb18030")
    assert done.returncode == 0, done.stderr
    for name in (f"{split}.{end}" for split in NIST_SETS for end in ("en", *endings)):
        assert (raw / name).read_bytes() == (marked_up / name).read_bytes()
    assert len(lines_of(raw / "train.zh")) == 900 and "1 more pairs have an empty side" in done.stdout
    shutil.copy(plain / "mt03.en.ref0", plain / "mt04.en.ref3")
    assert_refused(read_nist(plain, raw, "gb18030"), "mt04.en.ref3:51: misaligned: 60 lines here, 50 in")
    (plain / "mt04.en.ref3").unlink()
    assert_refused(read_nist(plain, raw, "gb18030"), "mt04.zh: has 3 references, 4 wanted")
    assert_refused(read_nist(plain, raw, "gb-18"), "--encoding gb-18")


def test_sets_as_nist_writes_them(tmp_path):
    """Upper-case tags, no quotes, a text over two lines, an & as it is, entities, documents in another order."""
    src = '<srcset setid="x" srclang=Chinese>\n<DOC docid=A sysid=x>\n<seg id=1>甲\n乙</seg>\n<seg id=2>丙</seg>'
    src += "</DOC>\n<DOC docid=B><hl><seg id=1> 丁 </seg></hl></DOC></srcset>"
    ref = (
        '<?xml version="1.0"?>\n<!DOCTYPE mteval SYSTEM "x.dtd">\n<mteval>\n<refset refid="r1">'
        '<doc docid="B"><seg id="1">AT&T &amp; a <b</seg></doc>\n'
        '<doc docid="A"><seg id="2">c</seg><seg id="1">a b</seg></doc></refset>\n<refset refid="r2">'
        '<doc docid="A"><seg id="1">A B</seg><seg id="2">C</seg></doc>'
        '<doc docid="B"><seg id="1">D</seg></doc></refset></mteval>\n'
    )
    for name, text in (("src.sgm", src), ("ref.xml", ref)):
        (tmp_path / name).write_text(text, "utf-8")
    lines, references = sgm.read_set(tmp_path / "src.sgm", tmp_path / "ref.xml", 2)
    assert lines == ["甲 乙", "丙", "丁"]
    assert references == [["a b", "c", "AT&T & a <b"], ["A B", "C", "D"]]


@prepared("wmt17_zh_en")
def test_wmt17_reads_every_corpus_and_cleans_it(done):
    """Text and words stay beside each other, no side is longer than 20 words, and words in a corpus do not count."""
    moses, cut = Tokenizer("en"), segment.chinese()
    for part in ("UNv1.0.en-zh.zh: 500 pairs", "casict-B_ch.txt: 90 pairs", "Book2_cn.txt: 90 pairs", "NEU_cn.txt: 90"):
        assert part in done.said
    assert "raw: 1,520 pairs before cleaning" in done.said and "(published: 20,620,000)" in done.said
    raw, words = ([lines_of(done.out / f"{folder}/train.{x}") for x in ("zh", "en")] for folder in ("raw", "tok"))
    assert max(len(line.split()) for lines in words for line in lines) == 20 and 500 < len(raw[0]) < 1520
    assert any(" " in line for line in raw[0])
    assert words == [[cut(line.replace(" ", "")) for line in raw[0]], [moses(line) for line in raw[1]]]
    assert len(lines_of(done.out / "tok/valid.zh")) == len(lines_of(done.out / "tok/test.zh")) == 100
    assert_in_subwords(done.out, "zh", "en")
    assert (done.out / "bin/dict.zh.txt").read_bytes() == (done.out / "bin/dict.en.txt").read_bytes()
