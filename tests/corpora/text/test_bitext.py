"""What all preparations of large text share: pairs, lines in several processes, subwords."""

from __future__ import annotations

import functools
import gzip
import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from corpora.errors import DataError
from corpora.mini import translation as mini_translation
from corpora.text import bitext, linewise, markup
from corpora.tokens import moses_tokenize, sentencepieces, subwords
from support.corpora.prep import assert_refused, attempt, encoded, lines_of, wait_for_processes


@pytest.fixture(scope="module")
def sentences() -> tuple[list[str], list[str]]:
    return mini_translation.take(mini_translation.german(3), 600)


def write(path: Path, lines: list[str]) -> Path:
    path.write_bytes("".join(line + "\n" for line in lines).encode())
    return path


@pytest.mark.parametrize(
    ("one", "two", "fits"),
    [
        (2, 3, True), (3, 2, True), (2, 4, False), (4, 2, False), (0, 1, False), (1, 0, False), (175, 176, False),
        (176, 175, False), (117, 175, True), (116, 175, False),
    ],
)  # fmt: skip
def test_limits_are_those_of_clean_corpus(one, two, fits):
    assert bitext.Limits(1, 175, 1.5).fit("w " * one, " w" * two) is fits


def test_a_word_of_more_than_a_thousand_characters_is_left_out():
    assert bitext.Limits().fit("a" * 1000, "b") and not bitext.Limits().fit("a b", "b " + "a" * 1001)
    assert bitext.Limits(0).fit("a b", "b " + "a" * 1001)  # where nothing is to be left out: every n-th of all lines


def test_segments_of_test_sets(tmp_path):
    path = tmp_path / "test.sgm.gz"
    text = '<refset>\n<DOC docid="a">\n<hl>\n<seg id="1"> One &amp; two. </seg>\n</hl>\n<SEG id=2>Line\n broken</SEG>\n'
    path.write_bytes(gzip.compress((text + '<p><seg id="3"></seg></p></DOC></refset>').encode()))
    assert list(markup.read_texts(path)) == [(4, "One &amp; two."), (6, "Line broken"), (8, "")]
    path.write_bytes(gzip.compress((text + '<seg id="3"> cut').encode()))
    with pytest.raises(DataError, match="gz:8: a <seg> without its </seg>"):
        list(markup.read_texts(path))
    path.write_bytes(gzip.compress(b'<seg id="1"> one\n<seg id="2"> two</seg>\n'))
    with pytest.raises(DataError, match="gz:1: a <seg> without its </seg>"):
        list(markup.read_texts(path))


def test_join_and_select_say_what_they_keep(tmp_path):
    texts = {"a.de": ["eins", "zwei zwei"], "b.de": ["drei", "", "vier"], "a.en": ["one", "two two"]}
    for name, lines in (texts | {"b.en": ["three three three", "x", "four"]}).items():
        write(tmp_path / name, lines)
    both = (tmp_path / "all.de", tmp_path / "all.en")
    done = attempt(
        bitext.join, [(tmp_path / f"{name}.de", tmp_path / f"{name}.en") for name in "ab"], both, bitext.Rules(), 5
    )
    assert done.stdout == "a.de: 2 pairs\nb.de: 3 pairs\nall: 5 pairs (published: 5)\n", done.stderr
    select = [bitext.select, both, both, tmp_path, ("de", "en")]
    done = attempt(*select, limits=bitext.Limits(1, None, 1.5), every=2)
    assert done.stdout.endswith("5 pairs before cleaning\ntrain: 2 pairs\nvalid: 1 pairs\n"), done.stderr
    assert lines_of(tmp_path / "train.en") == ["one", "four"] and lines_of(tmp_path / "valid.de") == ["zwei zwei"]
    assert_refused(attempt(*select, limits=bitext.Limits(4)), "all.de: of 5 pairs none is left for train")


def test_shifted_text_is_refused(tmp_path, sentences):
    one, two = mini_translation.odd((list(sentences[0]), list(sentences[1])))
    first, second = tmp_path / "x.de", tmp_path / "x.en"
    targets = (tmp_path / "out.de", tmp_path / "out.en")
    bitext.join([(write(first, one), write(second, two))], targets, bitext.Rules())
    write(first, one[1:] + one[:1])
    with pytest.raises(DataError, match=r"x\.en:1: misaligned with .*x\.de: the lengths of lines 1 to 600"):
        bitext.join([(first, second)], targets, bitext.Rules())
    assert lines_of(targets[0]) == one  # of the first time
    bitext.join([(first, second)], targets, bitext.Rules(min_correlation=-1))


def test_large_text_is_not_held_in_memory(tmp_path, capsys):
    first, second = tmp_path / "x.de.gz", tmp_path / "x.en"
    first.write_bytes(gzip.compress(b"ein Satz von sehr vielen in diesem Korpus .\n" * 9_000))
    second.write_bytes(b"one of very many sentences in this corpus .\n" * 9_000)
    targets = (tmp_path / "all.de", tmp_path / "all.en")
    tracemalloc.start()
    bitext.join([(first, second)], targets, bitext.Rules())
    bitext.select(targets, targets, tmp_path, ("de", "en"), limits=bitext.Limits(1, 80, 9), every=1333)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000
    assert "9,000 pairs before cleaning\ntrain: 8,994 pairs\nvalid: 6 pairs\n" in capsys.readouterr().out


def upper() -> Callable[[str], str]:
    return str.upper


@pytest.mark.parametrize("workers", [1, 3])
def test_stopped_work_goes_on_in_the_file(tmp_path, workers):
    lines = [f"Zeile {number}: ein Satz" for number in range(2000)]
    source, target = write(tmp_path / "in", lines), tmp_path / "out"
    part = tmp_path / "out.part"
    part.write_text("".join(f"kept {number}\n" for number in range(1200)) + "Zeile 12")
    linewise.change_file(source, target, upper, workers)
    assert lines_of(target) == [f"kept {number}" for number in range(1200)] + [line.upper() for line in lines[1200:]]
    target.write_text("mine\n")
    linewise.change_file(source, target, upper, workers)
    assert target.read_text() == "mine\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


class Dies:
    """What the operating system does to a process when memory is short."""

    def __call__(self, line: str) -> str:
        if line.endswith(" 1700"):
            os.kill(os.getpid(), signal.SIGKILL)
        return line


def test_a_killed_worker_ends_the_work(tmp_path):
    source = write(tmp_path / "in", [f"line {number}" for number in range(2000)])
    with pytest.raises(DataError, match="a process was killed.*fewer --workers"):
        linewise.change_file(source, tmp_path / "out", Dies, 2)
    assert not (tmp_path / "out").exists() and (tmp_path / "out.part").exists()


def test_workers_end_with_a_killed_parent(tmp_path):
    source = write(tmp_path / "in", ["a line"] * 2000)
    work = "import sys, time; from corpora.text.linewise import *; source, target = map(Path, sys.argv[1:]); "
    work += "change_file(source, target, lambda: lambda line: time.sleep(0.01) or line, 2)"
    parent = subprocess.Popen([sys.executable, "-c", work, source, tmp_path / "out"])
    wait_for_processes(3, source)
    parent.kill()
    assert parent.wait() == -signal.SIGKILL
    wait_for_processes(0, source)


def test_what_every_worker_would_lack_is_said_once(tmp_path):
    source = write(tmp_path / "in", ["a line"])
    codes = write(tmp_path / "codes", ["#version: 0.2", "a b c"])
    with pytest.raises(DataError, match=f"{codes}: no codes of subword-nmt: invalid line 2 in BPE codes file: a b c"):
        linewise.change_file(source, tmp_path / "out", functools.partial(subwords.encoder, codes), 2)


def test_empty_lines_stay_where_they_are_allowed(tmp_path):
    source = write(tmp_path / "in", ["Ein Satz.", "", "\x01"])
    command = [moses_tokenize.tokenise, source, tmp_path / "out", "de", 1]
    assert_refused(attempt(*command), "in:2: no token left")
    (tmp_path / "out.part").unlink()
    assert attempt(*command, allow_empty=True).returncode == 0
    assert lines_of(tmp_path / "out") == ["Ein Satz .", "", ""]


def test_codes_with_a_mark_and_a_full_cache_split_the_same(tmp_path, monkeypatch, sentences):
    """The mark would hide the version, without which subword-nmt splits otherwise; the cache does not grow."""
    codes, lines = tmp_path / "codes", sentences[0]
    subwords.learn([write(tmp_path / "text", lines)], codes, 50)
    expected = encoded(codes, lines)
    codes.write_bytes(b"\xef\xbb\xbf" + codes.read_bytes())
    monkeypatch.setattr(subwords, "_CACHED", 5)
    encode = subwords.encoder(codes)
    assert [encode(line) for line in lines] == expected
    (bpe,) = (cell.cell_contents for cell in encode.__closure__ or ())
    assert len(bpe.cache) < 60


def test_too_little_text_for_codes_and_pieces(tmp_path):
    text = write(tmp_path / "text", ["abc abc"])
    learn = [subwords.learn, [text], tmp_path / "codes", 9]
    done = attempt(*learn)
    assert done.returncode == 0 and "2 merges, not 9" in done.stdout, done.stderr
    write(text, ["a b c"])
    assert_refused(attempt(*learn), "text: no word has two characters")
    done = attempt(sentencepieces.learn, [text], tmp_path / "model", 30_000)
    assert_refused(done, "text: no model of 30,000 pieces can be trained on it")
