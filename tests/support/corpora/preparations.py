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

Damage = tuple[str, Callable[[bytes], bytes] | None, str]  # file, change of its content (None: removed), message


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


def cut_archive(data: bytes) -> bytes:
    """Remove the end of a compressed file."""
    return data[:-90]


@dataclass(frozen=True)
class Case:
    """A preparation and its mini corpus.

    options: {source} stands for the corpus's folder, {url} for its address; stopped_at: file or folder of OUT at which
    the first run is stopped; other: options that the prepared folder is refused with, and what the message names;
    damages: of the corpus as `unpacked` leaves it, which `local` names.
    """

    name: str
    options: tuple[str, ...]
    stopped_at: str
    other: tuple[str, ...]
    damages: tuple[Damage, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    local: tuple[str, ...] = ("--local", "{source}")
    corpus: str = ""
    missing: str = "--local"
    slow: bool = False

    def make(self, folder: Path) -> None:
        """Write the mini corpus."""
        folder.mkdir(parents=True)
        {**known_corpora(), **OWN}[self.corpus or self.name](folder)

    def arguments(self, source: Path, options: tuple[str, ...] | None = None) -> list[str]:
        """Return the command line for a corpus in `source`."""
        words = self.options if options is None else options
        return [word.format(source=source, url=source.as_uri()) for word in words]

    def given(self, source: Path) -> dict[str, str]:
        """Return the environment for a corpus in `source`."""
        return {name: value.format(url=source.as_uri()) for name, value in self.environment}


@dataclass(frozen=True)
class Prepared:
    """A prepared mini corpus: folder of the source, OUT, and what both runs printed."""

    case: Case
    source: Path
    out: Path
    said: str


# Killed for real, by the door, in steps that make a file anew and that go on in one; others are stopped after a step.
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


def unpacked(case: Case, source: Path, target: Path) -> None:
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


def damage(path: Path, change: Callable[[bytes], bytes] | None) -> None:
    """Change the content of a file, plain or .gz, or remove it."""
    if change is None:
        path.unlink()
        return
    data = path.read_bytes()
    if path.suffix == ".gz" and change is not cut_archive:
        path.write_bytes(gzip.compress(change(gzip.decompress(data))))
    else:
        path.write_bytes(change(data))


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

_RELEASE = "1-billion-word-language-modeling-benchmark-r13output"
_TRAINING = f"{_RELEASE}/training-monolingual.tokenized.shuffled/news.en-00007-of-00100"

CASES = {
    case.name: case
    for case in (
        Case("toy", tuple(TOY), "tok.part", ("--bpe", "70", "bpe=60", "bpe=70"), missing=""),
        Case(
            "multi30k", ("--local", "{source}", "--no-checksums", "--lowercase", "--bpe", "60"), "bpe.part/codes",
            ("--bpe", "70", "bpe=60", "bpe=70"),
            (
                ("val.en", line(17, b" \t "), "val.en:17: empty line"),
                ("val.en", None, "val.en: cannot be read: No such file"),
            ),
            local=("--local", "{source}", "--no-checksums"), slow=True,
        ),
        Case(
            "iwslt14", ("--local", "{source}", "--no-checksums", "--bpe", "80"), "tokens.part/train.en.part",
            ("--bpe", "90", "bpe=80", "bpe=90"),
            (
                ("de-en/train.tags.de-en.en", cut, "train.tags.de-en.en:1875: no newline at the end"),
                ("de-en/IWSLT14.TED.tst2010.de-en.de.xml", lambda data: data[:900], "a <seg> without its </seg>"),
                ("de-en/IWSLT14.TED.tst2011.de-en.en.xml", None, "tst2011.de-en.en.xml: cannot be read: No such"),
            ),
            slow=True,
        ),
        Case(
            "wmt14_en_de", ("--local", "{source}", "--no-checksums", "--bpe", "80"), "bpe.part/codes",
            ("--separate-dictionaries", "separate=0", "separate=1"),
            (
                ("training/europarl-v7.de-en.en", cut, "europarl-v7.de-en.en:700: no newline at the end"),
                ("dev/newstest2013.de", line(60, None), "newstest2013.en:60: misaligned: 60 lines here, 59 in"),
            ),
            local=("--local", "{source}", "--no-checksums"), slow=True,
        ),
        Case(
            "wmt14_en_fr", ("--local", "{source}", "--no-checksums", "--bpe", "80", "--every", "25"),
            "subwords.part/codes", ("--valid", "newstest2013", "valid=split", "valid=newstest2013"),
            (
                ("giga-fren.release2.fixed.en.gz", cut, "giga-fren.release2.fixed.en.gz:200: no newline at the end"),
                ("un/undoc.2000.fr-en.fr", line(300, None), "undoc.2000.fr-en.en:300: misaligned: 300 lines here"),
            ),
            local=("--local", "{source}", "--no-checksums"), slow=True,
        ),
        Case(
            "aspec", ("--local", "{source}", "--bpe", "150"), "tokens.part/test.en",
            ("--bpe", "160", "bpe=150", "bpe=160"),
            (
                ("train/train-2.txt", line(7, b"0.5 ||| A"), "train-2.txt:7: 2 fields, 5 wanted"),
                ("train/train-1.txt", None, "train-1.txt: cannot be read: No such file"),
            ),
            slow=True,
        ),
        Case(
            "nist", ("--local", "{source}", "--bpe", "200"), "bpe.part/codes", ("--bpe", "210", "bpe=200", "bpe=210"),
            (("train/news.en", cut, "news.en:900: no newline at the end"),), slow=True,
        ),
        Case(
            "wmt17_zh_en",
            ("--local", "{source}", "--no-checksums", "--bpe", "150", "--max-words", "20", "--joined-dictionary"),
            "tokens.part/test.en", ("--max-words", "30", "max-words=20", "max-words=30"),
            (
                ("neu2017/NEU_en.txt", line(90, None), "NEU_cn.txt:90: misaligned: 90 lines here, 89 in"),
                ("neu2017/NEU_en.txt", None, "NEU_cn.txt: there is no NEU_en.txt beside it"),
            ),
            local=("--local", "{source}", "--no-checksums"), slow=True,
        ),
        Case(
            "cnndm", (*SMALL, "--no-checksums", "--summary-words", "20"), "bpe.part/train.article",
            ("--summary-words", "120", "summary-words=20", "summary-words=120"),
            (
                ("all_val.txt", line(7, b"http://x"), "all_val.txt:7: no story"),
                ("all_test.txt", None, "all_test.txt"),
            ),
            (("CNNDM_URL", "{url}"),), local=("--local", "{source}", "--no-checksums", *SMALL), slow=True,
        ),
        Case(
            "gigaword", ("--local", "{source}", *SMALL), "tok.part", ("--no-checksums", "checksums=1", "checksums=0"),
            (
                ("sumdata/Giga/input.txt", None, "no input.txt, plain or .gz; give the folder sumdata"),
                ("sumdata/Giga/input.txt", line(60, None), "task1_ref0.txt:60: misaligned: 60 lines here, 59 in"),
                ("sumdata/train/train.title.txt.gz", cut_archive, "damaged or cut-off gzip file"),
            ),
            local=("--local", "{source}", *SMALL), slow=True,
        ),
        Case(
            "sst", ("--no-checksums",), "dict", ("--classes", "2", "classes=5", "classes=2"),
            (
                ("dev.txt", line(3, b""), "dev.txt:3: empty line"),
                ("dev.txt", None, "dev.txt: cannot be read: No such file"),
            ),
            (("SST_URL", "{url}/trees.zip"),), slow=True,
        ),
        Case(
            "imdb", ("--local", "{source}", "--valid", "30"), "tok.part", ("--valid", "20", "valid=30", "valid=20"),
            slow=True,
        ),
        Case(
            "sva", ("--local", "{source}"), "dict", ("--seed", "2", "seed=1", "seed=2"),
            (
                ("agr_50_mostcommon_10K.tsv", line(9, b""), "10K.tsv:9: 0 columns, the header has 18"),
                ("agr_50_mostcommon_10K.tsv", None, "10K.tsv: cannot be read: No such file"),
            ),
            slow=True,
        ),
        Case(
            "1bw", ("--local", "{source}", "--words", "4"), "dict", ("--words", "5", "words=4", "words=5"),
            (
                (_TRAINING, cut, "news.en-00007-of-00100:4: no newline at the end"),
                (_TRAINING, None, "news.en-00007-of-00100, plain or .gz: the corpus is not complete"),
            ),
            slow=True,
        ),
        Case(
            "lm", ("--local", "{source}", "--words", "6"), "dict", ("--words", "0", "words=6", "words=0"),
            (
                ("valid.en.gz", line(2, b""), "valid.en.gz:2: empty line"),
                ("test.en", line(2, b"<pad> zwei"), "test.en:2: the word <pad> is a symbol of fairseq's"),
                ("valid.en.gz", None, "valid.en: cannot be read: No such file"),
            ),
        ),
        Case(
            "parallel",
            ("--source", "de", "--target", "en", "--train", "{source}/corpus", "--valid", "{source}/dev",
             "--held-out", "20", "--max", "100", "--bpe", "80"),
            "bpe.part/codes", ("--bpe", "90", "codes=80", "codes=90"),
            (
                ("corpus.de", line(400, None), "corpus.en:400: misaligned: 400 lines here, 399 in"),
                ("dev.de", line(7, b""), "dev.de:7: empty line"),
            ),
            local=("--source", "de", "--target", "en", "--train", "{source}/corpus", "--valid", "{source}/dev"),
            missing="--train", slow=True,
        ),
        Case(
            "probing",
            ("--train", "{source}/train.mrg", "--valid", "{source}/valid.mrg", "--test", "{source}/test.mrg",
             "--bpe", "60"),
            "bpe.part/codes", ("--levels", "2", "levels=3", "levels=2"),
            (
                ("valid.mrg", line(7, b"(ROOT (NN \xff))"), "valid.mrg:7: invalid UTF-8"),
            ),
            local=("--train", "{source}/train.mrg", "--valid", "{source}/valid.mrg", "--test", "{source}/test.mrg"),
            missing="--train", slow=True,
        ),
    )
}  # fmt: skip
