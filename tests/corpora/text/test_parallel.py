"""Checks of parallel text, Moses tokens, and the preparations of the toy corpus and of Multi30k."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from corpora.errors import DataError
from corpora.mini.files import write
from corpora.text import alignment, bitext, lines
from corpora.tokens import moses_tokenize
from corpora.toy import grammar as toy_grammar
from support.corpora import prep
from support.corpora.prep import assert_refused, attempt, call, change_line, lines_of, prepare, prepare_until
from support.corpora.preparations import CASES, MULTI30K_NAMES, prepared
from support.paths import DATA_PREP, SHARED

# They end a line for str.splitlines, and not for the shell.
SEPARATORS = ["\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


def pair(one: Path, two: Path, **rules: Any) -> subprocess.CompletedProcess[str]:
    """Write two files, which are read strictly, to out.de and out.en beside the second one."""
    targets = (two.with_name("out.de"), two.with_name("out.en"))
    return attempt(bitext.join, [(one, two)], targets, bitext.Rules(strict=True, **rules))


@pytest.fixture()
def files(tmp_path) -> tuple[Path, Path]:
    toy_grammar.write(tmp_path, 3, {"train": 400})
    return tmp_path / "train.de", tmp_path / "train.en"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda de, en: de.unlink(), "train.de: cannot be read: No such file"),
        (lambda de, en: change_line(en, 17, b""), "train.en:17: empty line"),
        (lambda de, en: change_line(de, 19, b"Stra\xdfe."), "train.de:19: invalid UTF-8 at byte 5"),
        (lambda de, en: de.write_bytes(de.read_bytes()[:-3]), "train.de:400: no newline at the end: the file was "
         "cut off; get it again, or end its last line"),
        (lambda de, en: de.write_bytes(b""), "train.de: is empty"),
        (lambda de, en: change_line(de, 400, None), "train.en:400: misaligned: 400 lines here, 399 in"),
        (lambda de, en: change_line(de, 210, None), "the lengths of lines 201 to 300 do not go together"),
        (lambda de, en: write(de, (text := lines_of(de))[:100] + text[101:] + text[:1]), "train.en:101: misaligned"),
    ],
    ids=["missing", "empty", "utf8", "cut off", "no content", "short", "line lost", "shifted"],
)  # fmt: skip
def test_bad_pair_names_file_and_line(files, tmp_path, damage, message):
    damage(*files)
    out = tmp_path / "out.de"
    out.write_text("mine\n")
    assert_refused(pair(*files), message)
    assert out.read_text() == "mine\n" and not (tmp_path / "out.en").exists()


def test_gzip_is_read_and_a_cut_names_the_line(files, tmp_path):
    german, english = files
    packed, data = tmp_path / "packed.de.gz", gzip.compress(german.read_bytes())
    packed.write_bytes(data)
    assert pair(packed, english).returncode == 0
    assert (tmp_path / "out.de").read_bytes() == german.read_bytes()
    packed.write_bytes(data[: len(data) // 2])
    done = pair(packed, english)
    assert_refused(done, "damaged or cut-off gzip file")
    assert 50 < int(done.stderr.partition(".gz:")[2].partition(":")[0]) < 350


def test_text_with_a_checksum(files, tmp_path):
    """Separators of lines in it are spaces, for which other text is refused; other lines are."""
    german, english = files
    line = lines_of(english)[6]
    change_line(english, 7, line + "".join(f" a{each}b" for each in SEPARATORS) + "\r")
    manifest = tmp_path / "manifest"
    rows = [f"{hashlib.sha256(path.read_bytes()).hexdigest()} 400 {path.name}\n" for path in files]
    manifest.write_text("# comment\n" + "".join(rows))
    assert_refused(pair(german, english), "train.en:7: carriage return")
    done = pair(german, english, manifest=manifest)
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "out.en").read_text("utf-8").splitlines()
    assert len(written) == 400 and written[6] == line + " a b" * len(SEPARATORS) + " "
    change_line(english, 7, "Another line.")
    assert_refused(pair(german, english, manifest=manifest), "train.en: wrong checksum: expected sha256")
    change_line(english, 7, None)
    assert_refused(pair(german, english, manifest=manifest), "train.en:400: expected 400 lines, found 399")
    manifest.write_text(rows[0])
    assert_refused(pair(german, english, manifest=manifest), "train.en: the manifest does not name this file")


@pytest.mark.skipif(not (SHARED / "multi30k").is_dir(), reason="no ../shared/data/multi30k here")
def test_alignment_check_is_robust_on_multi30k():
    """No block of real data comes near the limit; shifted by one line, the first block tells."""
    german, english = (SHARED / f"multi30k/train.{lang}.gz" for lang in ("de", "en"))
    rules = bitext.Rules(strict=True, manifest=DATA_PREP / "multi30k.manifest")
    one, two = zip(*bitext.read_pair(german, english, rules), strict=True)

    def judged(one: Sequence[lines.Line], minimum: float | None = None) -> int:
        together = zip(one, two, strict=False)
        return sum(1 for _ in alignment.check_lengths(Path("de"), Path("en"), together, minimum, small=True))

    assert judged(one, 0.75) == 29_000
    for place in (0, 5000):
        with pytest.raises(DataError, match=rf"^en:{place + 1}: misaligned with de: "):
            judged(one[:place] + one[place + 1 :])
    with pytest.raises(DataError, match="; --min-correlation -1 takes them as they are"):
        judged(one[1:], 0.3)


def test_tokenizer_settings():
    assert moses_tokenize.Tokenizer("en")("He doesn't like “rock & roll”.") == (
        "He doesn &apos;t like &quot; rock &amp; roll . &quot;"
    )
    assert moses_tokenize.Tokenizer("de", lowercase=True)("Ein rot-weißer Ball, z.B.") == "ein rot-weißer ball , z.b."
    assert moses_tokenize.Tokenizer("de", aggressive_dash_splits=True)("rot-weiß") == "rot @-@ weiß"
    # Since 7 November 2018 the Perl script splits these: 96 . and p.m .
    assert moses_tokenize.Tokenizer("de")("Ein Spieler mit der Nummer 96.") == "Ein Spieler mit der Nummer 96."
    assert moses_tokenize.Tokenizer("en")("At four p.m.") == "At four p.m."
    text = "Er sagte: „Wie geht’s“ – x-y"
    assert moses_tokenize.Tokenizer("de", normalise=False)(text) == "Er sagte : „ Wie geht ’ s “ – x-y"
    plain = moses_tokenize.Tokenizer("de", aggressive_dash_splits=True, normalise=False, plain_apostrophes=True)
    assert plain(text) == "Er sagte : „ Wie geht &apos; s “ – x @-@ y"


@prepared("toy")
def test_toy_layout(done):
    out = done.out
    prep.assert_in_subwords(out, "de", "en")
    for split, count in (("train", 150), ("valid", 30), ("test", 20)):
        pair = bitext.read_pair(out / f"raw/{split}.de", out / f"raw/{split}.en", bitext.Rules(strict=True))
        assert sum(1 for _ in pair) == len(lines_of(out / f"tok/{split}.de")) == count
    assert (out / "bin/dict.de.txt").read_bytes() == (out / "bin/dict.en.txt").read_bytes()


def test_foreign_folder_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    assert_refused(prepare("toy", tmp_path), "was not made by this script")
    # fairseq-preprocess takes test sets by a list with commas.
    assert_refused(prepare("toy", tmp_path / "a,b"), "a,b: no comma in the output folder, please")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_missing_python(tmp_path):
    done = call("bash", DATA_PREP / "prepare_toy.sh", tmp_path / "out", PYTHON="/nowhere/python")
    assert_refused(done, "no Python at '/nowhere/python'")


@prepared("multi30k")
def test_multi30k_lower_cased(done):
    tokenize = moses_tokenize.Tokenizer("de", lowercase=True)
    for split, name in MULTI30K_NAMES.items():
        original = lines_of(done.source / f"{name}.de")
        assert lines_of(done.out / f"raw/{split}.de") == [line.lower() for line in original]
        assert lines_of(done.out / f"raw/cased/{split}.de") == original
        assert lines_of(done.out / f"tok/{split}.de") == [tokenize(line) for line in original]
    prep.assert_in_subwords(done.out, "de", "en")


def test_options_can_be_mended_until_a_step_is_complete(tmp_path):
    """After an error of the checksums one adds --no-checksums in the same folder; after a complete step no more."""
    CASES["multi30k"].make(tmp_path / "source")
    out, options = tmp_path / "out", ["--local", tmp_path / "source", "--bpe", "60"]
    assert_refused(prepare("multi30k", out, *options), "train.de:151: expected 29000 lines, found 150")
    assert not (out / "raw").exists()
    prepare_until("raw", "multi30k", out, *options, "--no-checksums")
    assert "checksums=0" in (out / "options.txt").read_text()
    assert_refused(prepare("multi30k", out, *options), "was prepared with", "checksums=0", "give another folder")
