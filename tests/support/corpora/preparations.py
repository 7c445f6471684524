"""The preparations of data-prep/ with mini corpora, for the contract of all of them and for their own tests."""

from __future__ import annotations

import gzip
import re
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from corpora.mini import translation as mini_translation
from corpora.mini.corpus import known_corpora
from corpora.mini.files import write
from corpora.toy import grammar
from support.corpora.prep import SPLITS, lines_of, prepare, prepare_until, start_and_kill

MULTI30K_NAMES = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
MULTI30K_SIZES = {"train": 150, "valid": 30, "test": 20}
TOY = ["--train", "150", "--valid", "30", "--test", "20", "--bpe", "60"]
SMALL = ["--train-vocab", "140"]  # entries; so few that most words are cut into pieces


def line(number: int, content: bytes | None) -> Callable[[bytes], bytes]:
    """Return the change that replaces a line (from 1) of a file, or removes it."""

    def change(data: bytes) -> bytes:
        lines = data.split(b"\n")
        lines[number - 1 : number] = [] if content is None else [content]
        return b"\n".join(lines)

    return change


def cut(data: bytes) -> bytes:
    """Remove the end of a file."""
    return data[:-3]


@dataclass(frozen=True)
class Case:
    """A preparation and its mini corpus.

    options, variable: {source} stands for the corpus's folder, {url} for its address; stopped_at: file or folder of OUT
    at which the first run is stopped; other: an option that the prepared folder is refused with, and what the message
    names; damage: file of the corpus as `unpacked` leaves it, change of its content (None: removed), and message.
    """

    name: str
    options: str
    stopped_at: str
    other: tuple[str, str]
    damage: tuple[str, Callable[[bytes], bytes] | None, str] | None = None
    variable: str = ""

    def make(self, folder: Path) -> None:
        """Write the mini corpus."""
        folder.mkdir(parents=True)
        {**known_corpora(), **OWN}[self.name](folder)

    def arguments(self, source: Path) -> list[str]:
        """Return the command line for a corpus in `source`."""
        return self.options.format(source=source).split()

    def given(self, source: Path) -> dict[str, str]:
        """Return the environment for a corpus in `source`."""
        return dict([self.variable.format(url=source.as_uri()).split("=")]) if self.variable else {}


@dataclass(frozen=True)
class Prepared:
    """A prepared mini corpus: folder of the source, OUT, and what both runs printed."""

    case: Case
    source: Path
    out: Path
    said: str


# Killed for real, by the script, in steps that make a file anew and that go on in one; others are stopped after a step.
KILLED = ("parallel", "imdb")


def prepare_in_two_runs(case: Case, folder: Path) -> Prepared:
    """Prepare a mini corpus in `folder`: the first run is stopped, the second one completes it."""
    source, out = folder / "source", folder / "out"
    case.make(source)
    given, words = case.given(source), case.arguments(source)
    if case.name in KILLED:
        said = start_and_kill(case.name, out, out / case.stopped_at, *words, **given)
    else:
        said = prepare_until(case.stopped_at.partition(".")[0], case.name, out, *words, **given)
    assert not (out / "bin").exists()
    steps = [path for path in out.iterdir() if path.is_dir() and path.suffix != ".part" and path.name != "download"]
    before = {path: path.stat().st_mtime_ns for step in steps for path in step.rglob("*") if path.is_file()}
    done = prepare(case.name, out, *words, **given)
    assert done.returncode == 0, done.stderr
    # fairseq's own log, when the phrases are binarised, and what new versions say of its calls
    said_to_user = re.sub(
        r"^INFO:fairseq\..*\n|^\S+/site-packages/\S+: \w+Warning: .*\n(  .*\n)?", "", done.stderr, flags=re.M
    )
    assert not said_to_user, done.stderr
    assert done.stdout.endswith(f"ready: {out}/bin\n"), done
    kept = {path: path.stat().st_mtime_ns for path in before if path.exists()}
    assert kept.items() <= before.items(), "a complete step was done again"
    return Prepared(case, source, out, said + done.stdout)


def unpacked(source: Path, target: Path) -> None:
    """Copy a corpus, with what is in its archives in place of them."""
    for path in sorted(source.rglob("*")):
        if path.name.endswith((".tgz", ".tar.gz", ".tar")):
            shutil.unpack_archive(path, target, "tar" if path.suffix == ".tar" else "gztar", filter="data")
        elif path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                archive.extractall(target)
        elif path.is_file():
            (target / path.relative_to(source)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / path.relative_to(source))


def damaged(path: Path, change: Callable[[bytes], bytes] | None) -> None:
    """Change the content of a file, plain or .gz, or remove it."""
    if change is None:
        path.unlink()
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(change(gzip.decompress(path.read_bytes()))))
    else:
        path.write_bytes(change(path.read_bytes()))


def _multi30k(folder: Path) -> None:
    """Write toy sentences in the layout of Multi30k, and their trees: the second one of training is empty."""
    grammar.write(folder / "raw", 1, MULTI30K_SIZES)
    (folder / "trees").mkdir()
    for split, name in MULTI30K_NAMES.items():
        for lang in ("de", "en"):
            shutil.copyfile(folder / f"raw/{split}.{lang}", folder / f"{name}.{lang}")
        trees = lines_of(folder / f"raw/{split}.en.tree")
        if split == "train":
            trees[1] = ""
        text = "".join(tree + "\n" for tree in trees).encode()
        if split == "test":
            (folder / "trees/test.en.tree.gz").write_bytes(gzip.compress(text))
        else:
            (folder / f"trees/{split}.en.tree").write_bytes(text)


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
    for split in SPLITS:
        text = "".join(lm_sentence(number) + "\n" for number in LM_NUMBERS[split]).encode()
        if split == "valid":
            (folder / "valid.en.gz").write_bytes(gzip.compress(text))
        else:
            (folder / f"{split}.en").write_bytes(text)


def _sst(folder: Path) -> None:
    """Write the trees, and the archive for a download."""
    known_corpora()["sst"](folder)
    with zipfile.ZipFile(folder / "trees.zip", "w") as archive:
        for name in ("train", "dev", "test"):
            archive.write(folder / f"{name}.txt", f"trees/{name}.txt")


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
        Case("toy", " ".join(TOY), "tok.part", ("--bpe 70", "bpe=70")),
        Case("multi30k", f"{UNCHECKED} --lowercase --bpe 60", "bpe.part/codes", ("--bpe 70", "bpe=70")),
        Case(
            "iwslt14", f"{UNCHECKED} --bpe 80", "tokens.part/train.en.part", ("--bpe 90", "bpe=90"),
            ("de-en/IWSLT14.TED.tst2010.de-en.de.xml", lambda data: data[:900], "a <seg> without its </seg>"),
        ),
        Case("wmt14_en_de", f"{UNCHECKED} --bpe 80", "bpe.part/codes", ("--separate-dictionaries", "separate=1")),
        Case(
            "wmt14_en_fr", f"{UNCHECKED} --bpe 80 --every 25", "subwords.part/codes",
            ("--valid newstest2013", "valid=newstest2013"),
            ("giga-fren.release2.fixed.en.gz", cut, "giga-fren.release2.fixed.en.gz:200: no newline at the end"),
        ),
        Case("aspec", "--local {source} --bpe 150", "tokens.part/test.en", ("--bpe 160", "bpe=160")),
        Case("nist", "--local {source} --bpe 200", "bpe.part/codes", ("--bpe 210", "bpe=210")),
        Case(
            "wmt17_zh_en", f"{UNCHECKED} --bpe 150 --max-words 20 --joined-dictionary", "tokens.part/test.en",
            ("--max-words 30", "max-words=30"),
            ("neu2017/NEU_en.txt", None, "NEU_cn.txt: there is no NEU_en.txt beside it"),
        ),
        Case(
            "cnndm", f"{' '.join(SMALL)} --no-checksums --summary-words 20", "bpe.part/train.article",
            ("--summary-words 120", "summary-words=120"), variable="CNNDM_URL={url}",
        ),
        Case(
            "gigaword", f"--local {{source}} {' '.join(SMALL)}", "tok.part", ("--no-checksums", "checksums=0"),
            ("sumdata/Giga/input.txt", None, "no input.txt, plain or .gz; give the folder sumdata"),
        ),
        Case("sst", "--no-checksums", "dict", ("--classes 2", "classes=2"), variable="SST_URL={url}/trees.zip"),
        Case("imdb", "--local {source} --valid 30", "tok.part", ("--valid 20", "valid=20")),
        Case("sva", "--local {source}", "dict", ("--seed 2", "seed=2")),
        Case(
            "1bw", "--local {source} --words 4", "dict", ("--words 5", "words=5"),
            (BILLION, None, "news.en-00007-of-00100, plain or .gz: the corpus is not complete"),
        ),
        Case(
            "lm", "--local {source} --words 6", "dict", ("--words 0", "words=0"),
            ("test.en", line(2, b"<pad> zwei"), "test.en:2: the word <pad> is a symbol of fairseq's"),
        ),
        Case(
            "parallel",
            "--source de --target en --train {source}/corpus --valid {source}/dev --held-out 20 --max 100 --bpe 80",
            "bpe.part/codes", ("--bpe 90", "codes=90"), ("dev.de", line(7, b""), "dev.de:7: empty line"),
        ),
        Case(
            "probing", f"{PROBING} --bpe 60", "bpe.part/codes", ("--levels 2", "levels=2"),
            ("valid.mrg", line(7, b"(ROOT (NN \xff))"), "valid.mrg:7: invalid UTF-8"),
        ),
    )
}  # fmt: skip
