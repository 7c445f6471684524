"""What text may not hold, and what becomes of it: marks, NULs, special tokens, separators, long lines, bombs."""

from __future__ import annotations

import contextlib
import gzip
from pathlib import Path
from typing import Any

import pytest

from corpora.errors import DataError
from corpora.text import bitext, lines, linewise, streams
from support.corpora.prep import assert_refused, attempt, lines_of, prepare, prepare_until


def pair(folder: Path, german: bytes, english: bytes = b"one two\nthree four\n") -> tuple[Path, Path]:
    for name, text in (("a.de", german), ("a.en", english)):
        (folder / name).write_bytes(text)
    return folder / "a.de", folder / "a.en"


def join(one: Path, two: Path, name: str = "out", **rules: Any):
    """Join two files to out.de and out.en beside them."""
    targets = (one.parent / f"{name}.de", one.parent / f"{name}.en")
    return attempt(bitext.join, [(one, two)], targets, bitext.Rules(min_correlation=-1, **rules))


def copy(source: Path, target: Path, **rules: Any):
    return attempt(streams.write, [source], target, streams.Rules(**rules))


# The second line, what is said of it in strict text, and in training text what is said, or what becomes of it in both.
LINES = {
    "a NUL": (b"dr\0ei vier", "a.de:2: a NUL: this is no text", "a.de:2: a NUL: this is no text"),
    "a symbol": (b"drei <pad>", "a.de:2: the word <pad> is a symbol", "a.de:2: the word <pad> is a symbol"),
    "a symbol in full-width space": ("drei\u3000<pad>".encode(), "a.de:2: the word <pad>", "a.de:2: the word <pad>"),
    "an unknown word": (b"drei <unk>", "", "drei <unk>"),
    "a symbol in a word": (b"drei<pad> <S> < pad >", "", "drei<pad> <S> < pad >"),
    "a mark inside": ("drei \ufeffvier".encode(), "", "drei \ufeffvier"),
    "spaces around": (b"  drei vier ", "", "drei vier"),
    "two spaces": (b"drei  vier", "", "drei vier"),
}  # fmt: skip
SPACES = {"U+0009": "\t", "U+00A0": "\u00a0", "U+3000": "\u3000"}
ENDS = {"carriage return": "\r", "U+001C": "\x1c", "U+2028": "\u2028"}
LINES |= {name: (f"drei{each}vier".encode(), "", "drei vier") for name, each in SPACES.items()}
LINES |= {name: (f"drei{each}vier".encode(), f"a.de:2: {name}", "drei vier") for name, each in ENDS.items()}


@pytest.mark.parametrize("name", LINES)
def test_lines_of_tokenised_text(name: str, tmp_path: Path) -> None:
    line, strict, training = LINES[name]
    files = pair(tmp_path, b"eins zwei\n" + line + b"\n")
    found, alone = join(*files, "p", strict=True, words=True), copy(files[0], tmp_path / "s.de", words=True)
    changed = strict or set(line.decode()) & {*SPACES.values()} or b"  " in line.strip()
    for done, out in ((found, tmp_path / "p.de"), (alone, tmp_path / "s.de")):
        if strict:
            assert_refused(done, strict)
            assert not out.exists()
        else:
            assert done.returncode == 0 and lines_of(out) == ["eins zwei", training]
            assert (f"{files[0]}: lines with other white space" in done.stdout) == bool(changed)
    done = join(*files, words=True)
    if training.startswith("a.de"):
        assert_refused(done, training)
        assert not (tmp_path / "out.de").exists()
    else:
        assert lines_of(tmp_path / "out.de") == ["eins zwei", training] and done.returncode == 0
    # Official text and raw text are as they are.
    assert join(*files, words=True, open_end=True).returncode == 0
    assert (tmp_path / "out.de").read_bytes() == files[0].read_bytes()
    if not strict:
        assert copy(files[0], tmp_path / "raw.de").returncode == 0
        assert (tmp_path / "raw.de").read_bytes() == files[0].read_bytes()


@pytest.mark.parametrize("packed", [False, True])
def test_a_mark_at_the_start_is_left_out_with_a_word(tmp_path: Path, packed: bool) -> None:
    text = b"\xef\xbb\xbfeins zwei\n\xef\xbb\xbfdrei vier\n"
    path = tmp_path / ("a.de.gz" if packed else "a.de")
    path.write_bytes(gzip.compress(text) if packed else text)
    for lenient in (False, True):
        done = copy(path, tmp_path / "out", lenient=lenient)
        assert f"{path}: the byte-order mark at its start is left out\n" in done.stdout
        assert (tmp_path / "out").read_bytes() == text[3:]
    (tmp_path / "review.txt").write_bytes(b"\xef\xbb\xbfGood.\n")
    assert lines.read_whole(tmp_path / "review.txt") == "Good.\n"


def test_utf_16_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.de"
    path.write_bytes("eins\nzwei\n".encode("utf-16"))
    assert_refused(copy(path, tmp_path / "out"), "a.de:1: invalid UTF-8 at byte 1", "iconv -f UTF-16")


@pytest.mark.parametrize(("word", "message"), [("<pad>", "the word <pad>"), ("</s>", "the word </s>"), ("\0", "a NUL")])
def test_what_a_step_makes_is_checked_too(tmp_path: Path, word: str, message: str) -> None:
    (tmp_path / "a.en").write_text("one\ntwo\n")
    done = attempt(linewise.change_file, tmp_path / "a.en", tmp_path / "out", lambda: lambda line: word, 1)
    assert_refused(done, f"a.en:1: {message}")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_lines_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    monkeypatch.setattr(lines, "LONGEST", 1000)
    path = tmp_path / f"a{ending}"
    for text, message in (
        (b"x" * 999 + b"\ny\n", ""), (b"y\n" + b"x" * 1000, rf"a{ending}:2: a line of more than 1,000 bytes"),
    ):  # fmt: skip
        path.write_bytes(gzip.compress(text) if ending else text)
        with pytest.raises(DataError, match=message) if message else contextlib.nullcontext():
            assert sum(1 for _ in lines.read_bytes(path, open_end=True)) == 2
    (tmp_path / "review.txt").write_bytes(b"x" * 1001)
    with pytest.raises(DataError, match="review.txt: more than 1,000 bytes"):
        lines.read_whole(tmp_path / "review.txt")


def test_tokenised_text_by_prepare_parallel(tmp_path: Path) -> None:
    """Symbols are refused where words stay as they are, and are text where Moses or SentencePiece reads them."""
    files = pair(tmp_path, b"eins zwei\n<pad> drei\n" * 20, b"one two\nthree four\n" * 20)
    given = ["--source", "de", "--target", "en", "--train", files[0].with_suffix(""), "--min-correlation", "-1"]
    done = prepare("parallel", tmp_path / "out", *given, "--tokenizer", "none", "--bpe", 20)
    assert_refused(done, f"{files[0]}:2: the word <pad> is a symbol of fairseq's; remove or rename it")
    prepare_until("tok", "parallel", tmp_path / "moses", *given, "--bpe", 20)
    assert lines_of(tmp_path / "moses/tokens/train.de")[1] == "&lt; pad &gt; drei"
    files[0].write_bytes(b"\xef\xbb\xbfeins zwei\r\n47\xc2\xa0346\xe2\x80\xa8vier\n" * 20)
    prepare_until("tok", "parallel", tmp_path / "none", *given, "--tokenizer", "none", "--bpe", 20)
    assert lines_of(tmp_path / "none/tokens/train.de")[:3] == ["eins zwei", "47 346 vier", "\ufeffeins zwei"]
