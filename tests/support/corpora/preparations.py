"""The preparations of data-prep/ with mini corpora, for the contract of all of them and for their own tests."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from corpora.mini import translation as mini_translation
from corpora.mini.corpus import known_corpora
from corpora.mini.files import archive, write
from corpora.toy import grammar
from support.corpora.prep import change_line, command, files_of, kill_when, lines_of, prepare, prepare_until

# Of extras; the preparations of other corpora need none.
LIBRARIES = {"nist": "jieba", "wmt17_zh_en": "jieba", "aspec": "MeCab", "cnndm": "tokenizers", "gigaword": "tokenizers"}
MULTI30K_NAMES = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
MULTI30K_SIZES = {"train": 150, "valid": 30, "test": 20}
SMALL = ["--train-vocab", "140"]  # entries; so few that most words are cut into pieces


@dataclass(frozen=True)
class Case:
    """A preparation and its mini corpus.

    options, variable: {source} stands for the corpus's folder, {url} for its address; stopped_at: file or folder of OUT
    at which the first run is stopped; other: an option that the prepared folder is refused with, and what the message
    names; damage: file of the corpus as `unpacked` leaves it, what damages it, and message.
    """

    name: str
    options: str
    stopped_at: str
    other: tuple[str, str]
    damage: tuple[str, Callable[[Path], object], str] | None = None
    variable: str = ""

    def make(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        {**known_corpora(), **OWN}[self.name](folder)

    def arguments(self, source: Path) -> list[str]:
        """Return the command line for a corpus in `source`."""
        return self.options.format(source=source).split()

    def given(self, source: Path) -> dict[str, str]:
        """Return the environment for a corpus in `source`."""
        return dict([self.variable.format(url=source.as_uri()).split("=")]) if self.variable else {}

    def prepare(self, source: Path, out: Path, *more: object) -> subprocess.CompletedProcess[str]:
        """Prepare a corpus in `source`, with further options."""
        return prepare(self.name, out, *self.arguments(source), *more, **self.given(source))


@dataclass(frozen=True)
class Prepared:
    """A prepared mini corpus: folder of the source, OUT, and what both runs printed."""

    case: Case
    source: Path
    out: Path
    said: str

    def arguments(self) -> list[str]:
        return self.case.arguments(self.source)

    def prepare(self, out: Path, *more: object) -> subprocess.CompletedProcess[str]:
        """Prepare the corpus in another folder, or with further options."""
        return self.case.prepare(self.source, out, *more)


def prepared(name: str) -> Callable[[Callable], Callable]:
    """Mark a test of a prepared mini corpus, the fixture `done`: one worker runs all tests of a corpus."""
    return lambda test: pytest.mark.slow(pytest.mark.xdist_group(name)(test))


# Killed for real, by the script, in steps that make a file anew and that go on in one; others are stopped after a step.
KILLED = ("parallel", "imdb")


def prepare_in_two_runs(case: Case, folder: Path) -> Prepared:
    """Prepare a mini corpus in `folder`: the first run is stopped, the second one completes it."""
    source, out = folder / "source", folder / "out"
    case.make(source)
    if case.name in KILLED:
        said = kill_when(command(case.name, out, *case.arguments(source)), (out / case.stopped_at).exists)
    else:
        step = case.stopped_at.partition(".")[0]
        said = prepare_until(step, case.name, out, *case.arguments(source), **case.given(source))
    assert not (out / "bin").exists()
    steps = [path for path in out.iterdir() if path.is_dir() and path.suffix != ".part" and path.name != "download"]
    before = {path: time for step in steps for path, time in files_of(step).items()}
    done = case.prepare(source, out)
    assert done.returncode == 0, done.stderr
    # fairseq's own log, when the phrases are binarised, and what new versions say of its calls
    said_to_user = re.sub(
        r"^INFO:fairseq\..*\n|^\S+/site-packages/\S+: \w+Warning: .*\n(  .*\n)?", "", done.stderr, flags=re.M
    )
    assert not said_to_user, done.stderr
    assert done.stdout.endswith(f"ready: {out}/bin\n"), done
    kept = {path: time for path, time in files_of(out).items() if path in before}
    assert kept.items() <= before.items(), "a complete step was done again"
    return Prepared(case, source, out, said + done.stdout)


def unpacked(source: Path, target: Path) -> None:
    """Copy a corpus, with what is in its archives in place of them."""
    shutil.copytree(source, target)
    for path in sorted(target.rglob("*")):
        if path.name.endswith((".tgz", ".tar.gz", ".tar", ".zip")):
            shutil.unpack_archive(path, target)
            path.unlink()


def _multi30k(folder: Path) -> None:
    """Write toy sentences, and trees of the English, where one training sentence has none."""
    grammar.write(folder, 1, {name: MULTI30K_SIZES[split] for split, name in MULTI30K_NAMES.items()})
    for split, name in MULTI30K_NAMES.items():
        trees = lines_of(folder / f"{name}.en.tree")
        if split == "train":
            trees[1] = ""
        write(folder / (f"trees/{split}.en.tree" + (".gz" if split == "test" else "")), trees)


def _parallel(folder: Path) -> None:
    """Write toy sentences as somebody's own files: cleaning removes some training pairs; there is no test set."""
    pairs = mini_translation.german(18)
    for name, count in (("corpus", 400), ("dev", 30)):
        sides = mini_translation.take(pairs, count)
        for lang, lines in zip(("de", "en"), mini_translation.odd(sides) if name == "corpus" else sides, strict=True):
            write(folder / (f"{name}.{lang}.gz" if (name, lang) == ("dev", "en") else f"{name}.{lang}"), lines)


def lm_sentence(number: int) -> str:
    """Return words of falling frequency (a in each, b in every second sentence …) and a unique word."""
    return " ".join([word for place, word in enumerate("abcdefgh", 1) if number % place == 0] + [f"n{number}", "é"])


LM_NUMBERS = {"train": range(1, 61), "valid": range(30, 33), "test": range(100, 105)}


def _lm(folder: Path) -> None:
    for split, numbers in LM_NUMBERS.items():
        write(folder / (f"{split}.en" + (".gz" if split == "valid" else "")), map(lm_sentence, numbers))


def _sst(folder: Path) -> None:
    """Write the trees, and the archive for a download."""
    known_corpora()["sst"](folder)
    trees = {f"trees/{name}.txt": (folder / f"{name}.txt").read_bytes() for name in ("train", "dev", "test")}
    archive(folder / "trees.zip", trees)


OWN: dict[str, Callable[[Path], None]] = {
    "toy": lambda _: None, "multi30k": _multi30k, "lm": _lm, "sst": _sst, "parallel": _parallel,
}  # fmt: skip

UNCHECKED = "--local {source} --no-checksums"
PROBING = "--train {source}/train.mrg --valid {source}/valid.mrg --test {source}/test.mrg"
RELEASE = "1-billion-word-language-modeling-benchmark-r13output"
BILLION = f"{RELEASE}/training-monolingual.tokenized.shuffled/news.en-00007-of-00100"

CASES = {
    case.name: case
    for case in (
        Case("toy", "--train 150 --valid 30 --test 20 --bpe 60", "tok.part", ("--bpe 70", "bpe=70")),
        Case("multi30k", f"{UNCHECKED} --lowercase --bpe 60", "bpe.part/codes", ("--bpe 70", "bpe=70")),
        Case("iwslt14", f"{UNCHECKED} --bpe 80", "tokens.part/train.en.part", ("--bpe 90", "bpe=90")),
        Case("wmt14_en_de", f"{UNCHECKED} --bpe 80", "bpe.part/codes", ("--separate-dictionaries", "separate=1")),
        Case(
            "wmt14_en_fr", f"{UNCHECKED} --bpe 80 --every 25", "subwords.part/codes",
            ("--valid newstest2013", "valid=newstest2013"),
            ("commoncrawl.fr-en.en", lambda file: file.write_bytes(b"no newline"), "fr-en.en:1: no newline at the end"),
        ),
        Case("aspec", "--local {source} --bpe 150", "tokens.part/test.en", ("--bpe 160", "bpe=160")),
        Case("nist", "--local {source} --bpe 200", "bpe.part/codes", ("--bpe 210", "bpe=210")),
        Case(
            "wmt17_zh_en", f"{UNCHECKED} --bpe 150 --max-words 20 --joined-dictionary", "tokens.part/test.en",
            ("--max-words 30", "max-words=30"),
            ("neu2017/NEU_en.txt", Path.unlink, "NEU_cn.txt: there is no NEU_en.txt beside it"),
        ),
        Case(
            "cnndm", f"{' '.join(SMALL)} --no-checksums --summary-words 20", "bpe.part/train.article",
            ("--summary-words 120", "summary-words=120"), variable="CNNDM_URL={url}",
        ),
        Case(
            "gigaword", f"--local {{source}} {' '.join(SMALL)}", "tok.part", ("--no-checksums", "checksums=0"),
            ("sumdata/Giga/input.txt", Path.unlink, "no input.txt, plain or .gz; give the folder sumdata"),
        ),
        Case("sst", "--no-checksums", "dict", ("--classes 2", "classes=2"), variable="SST_URL={url}/trees.zip"),
        Case("imdb", "--local {source} --valid 30", "tok.part", ("--valid 20", "valid=20")),
        Case("sva", "--local {source}", "dict", ("--seed 2", "seed=2")),
        Case(
            "1bw", "--local {source} --words 4", "dict", ("--words 5", "words=5"),
            (BILLION, Path.unlink, "news.en-00007-of-00100, plain or .gz: the corpus is not complete"),
        ),
        Case(
            "lm", "--local {source} --words 6", "dict", ("--words 0", "words=0"),
            ("test.en", partial(change_line, number=2, to="<pad> zwei"), "test.en:2: the word <pad> is a symbol of"),
        ),
        Case(
            "parallel",
            "--source de --target en --train {source}/corpus --valid {source}/dev --held-out 20 --max 100 --bpe 80",
            "bpe.part/codes", ("--bpe 90", "codes=90"),
            ("dev.de", partial(change_line, number=7, to=""), "dev.de:7: empty line"),
        ),
        Case("probing", f"{PROBING} --bpe 60", "bpe.part/codes", ("--levels 2", "levels=2")),
    )
}  # fmt: skip
