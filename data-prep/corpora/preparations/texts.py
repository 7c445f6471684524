"""Steps that preparations share: tokens, subwords and binarising of parallel text, binarising of other text."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from corpora.errors import UsageError
from corpora.preparations.fetch import PREP_DIR, obtain_members
from corpora.preparations.options import Given
from corpora.preparations.steps import Step
from corpora.text import bitext
from corpora.text.lines import SPLITS, count_lines, find_file
from corpora.text.linewise import change_file
from corpora.text.watch import run_logged
from corpora.tokens import moses_tokenize, sentencepieces, subwords

READ = "read and check the text"


@dataclass(frozen=True)
class Pair:
    """The two languages of a corpus, and its splits: test, or test, test1, test2 …"""

    source: str
    target: str
    splits: tuple[str, ...] = SPLITS

    @property
    def languages(self) -> tuple[str, str]:
        return self.source, self.target

    def names(self) -> list[tuple[str, str, str]]:
        """Return name, split and language of each file."""
        return [(f"{split}.{lang}", split, lang) for split in self.splits for lang in self.languages]

    def files(self, prefix: Path) -> tuple[Path, Path]:
        """Return PREFIX.SOURCE and PREFIX.TARGET."""
        return Path(f"{prefix}.{self.source}"), Path(f"{prefix}.{self.target}")


class Sources:
    """Parallel files, which are joined in their order. verified: all are from archives that were checked."""

    def __init__(self, given: Given, pair: Pair, verified: bool = True) -> None:
        self.given, self.pair, self.verified = given, pair, verified
        self.files: list[tuple[Path, Path]] = []

    def add(self, folder: Path, first: str, second: str) -> None:
        """Add two files of a folder, plain or .gz."""
        self.files.append((find_file(folder, first), find_file(folder, second)))

    def add_members(self, url: str, first: str, second: str) -> None:
        """Add two members of an archive."""
        folder, verified = obtain_members(self.given, url, first, second)
        self.verified &= verified
        self.add(folder, first.removesuffix(".gz"), second.removesuffix(".gz"))

    def add_pair(self, url: str, prefix: str, ending: str = "") -> None:
        """Add the members PREFIX.SOURCE and PREFIX.TARGET of an archive, followed by `ending`."""
        self.add_members(url, f"{prefix}.{self.pair.source}{ending}", f"{prefix}.{self.pair.target}{ending}")

    def join(
        self, prefix: Path, official: int | None = None, *, markup: bool = False, words: bool = False,
    ) -> None:  # fmt: skip
        """Write the files to PREFIX.SOURCE and PREFIX.TARGET; raises DataError. markup, words: as in bitext.Rules.

        Text of official archives is taken as it is. Of other text the lengths are checked by --min-correlation, and a
        last line without a newline means that the file was cut off, unless that is -1.
        """
        free = self.verified or float(self.given.min_correlation) == -1
        rules = bitext.Rules(
            markup=markup, words=words, open_end=free,
            min_correlation=-1 if free else float(self.given.min_correlation),
        )  # fmt: skip
        bitext.join(self.files, self.pair.files(prefix), rules, official)


def python() -> str:
    """Return the Python for other programs: $PYTHON, or this one."""
    return os.environ.get("PYTHON") or sys.executable


def cleaned(
    given: Given, read: Callable[[Path], None], tokenise: Callable[[Path], None], take: Callable[[Path, Path], None],
    verb: str = "clean",
) -> list[Step]:  # fmt: skip
    """Return the steps up to OUT/raw: text is read and tokenised, and then cleaned by its tokens.

    take: writes the pairs of a folder that are kept into another one. Until OUT/tok and OUT/raw are complete, OUT/text
    has the text of all sources, one after the other, and OUT/tokens its tokens.
    """
    out, until = given.out, ("tok", "raw")
    return [
        Step("text", READ, read, until=until, reads=True),
        Step("tokens", "tokenise", tokenise, resumes=True, until=until),
        Step("tok", f"{verb} the tokens", partial(take, out / "tokens")),
        Step("raw", f"{verb} the text", partial(take, out / "text")),
    ]


def tokenise(
    given: Given, names: Sequence[tuple[str, str, str]], text: Path, part: Path, *,
    test: dict[str, bool] | None = None, **settings: bool,
) -> None:  # fmt: skip
    """Write Moses tokens of files (name, split, language); continues a stopped run.

    settings: those of moses_tokenize.tokenise; test: those of test sets in addition.
    """
    for name, split, lang in names:
        own = settings | (test or {}) if split.startswith("test") else settings
        moses_tokenize.tokenise(text / name, part / name, lang, given.workers, **own)


def take_pairs(pair: Pair, folder: Path, part: Path, *, measured: Path, **how: Any) -> None:
    """Write the pairs of folder/train whose lines in measured/train fit, and the other splits of the folder.

    Splits that held-out pairs have made in `part` are not copied. how: as for bitext.select. Raises
    DataError.
    """
    bitext.select(pair.files(measured / "train"), pair.files(folder / "train"), part, pair.languages, **how)
    for path in sorted(folder.iterdir()):
        if path.name.partition(".")[0] in pair.splits and not (part / path.name).exists():
            shutil.copy(path, part)


def make_subwords(
    given: Given, pair: Pair, text: Path, part: Path, *, kind: str, size: int, joint: bool = True
) -> None:
    """Write a model of the training text, and every split in its subwords; continues a stopped run.

    kind: "codes", BPE with `size` merges, or "pieces", SentencePiece with `size` pieces. joint: of both languages
    together.
    """
    ending, made = {"codes": ("codes", subwords), "pieces": ("model", sentencepieces)}[kind]
    models = {lang: part / f"{lang}.{ending}" for lang in pair.languages}
    if joint:
        models = dict.fromkeys(models, part / {"codes": "codes", "pieces": "sentencepiece.model"}[kind])
    for model in dict.fromkeys(models.values()):
        if not model.exists():
            made.learn([text / f"train.{lang}" for lang in pair.languages if models[lang] == model], model, size)
    for name, _, lang in pair.names():
        encoder = partial(made.encoder, models[lang])
        change_file(text / name, part / name, encoder, given.workers, allow_empty=True)


def bpe(given: Given, pair: Pair, title: str = "joint BPE") -> Step:
    """Return the step of BPE with the codes of both languages' tokens."""
    fill = partial(make_subwords, given, pair, given.out / "tok", kind="codes", size=given.bpe)
    return Step("bpe", f"{title}, {given.bpe} merges", fill, resumes=True)


def preprocess(given: Given, part: Path, texts: Sequence[Path], options: Sequence[object]) -> dict[Path, str]:
    """Run fairseq-preprocess, which the plugin lets write more than 2 GB; return what it says of each text.

    Raises UsageError where it has not made as many sentences as a text has lines.
    """
    part.mkdir(parents=True, exist_ok=True)
    log = part / "console.log"
    words = [python(), "-m", "fairseq_cli.preprocess", *map(str, options), "--destdir", str(part)]
    words += ["--workers", str(given.workers), "--user-dir", str(PREP_DIR.parent / "fairseq_localattn")]
    status = run_logged("binarise", part, log, words)
    console = log.read_text("utf-8")
    if status:
        raise UsageError(f"fairseq-preprocess failed: {(console.splitlines() or [''])[-1]}")
    said = {}
    for text in texts:
        lines = count_lines(text)
        found = re.search(rf"{re.escape(str(text))}: ({lines} sents.*)", console)
        if not found:
            raise UsageError(f"fairseq-preprocess has not made {lines} sentences of {text}: see {log}")
        said[text] = found[1]
    log.unlink()  # preprocess.log has the same content
    return said


def prefixes(folder: Path, splits: Sequence[str], ending: str = "") -> list[object]:
    """Return fairseq-preprocess's options with the texts of all splits."""
    tests = ",".join(f"{folder}/{split}{ending}" for split in splits if split.startswith("test"))
    return ["--trainpref", f"{folder}/train{ending}", "--validpref", f"{folder}/valid{ending}", "--testpref", tests]


def binarise(given: Given, pair: Pair, options: Sequence[object] = ("--joined-dictionary",)) -> Step:
    """Return the last step of parallel text.

    options: for fairseq. By default both languages share a dictionary, which serves both directions of translation.
    """

    def fill(part: Path) -> None:
        folder = given.out / "bpe"
        texts = [folder / name for name, _, _ in pair.names()]
        langs = ["--source-lang", pair.source, "--target-lang", pair.target]
        preprocess(given, part, texts, [*langs, *options, *prefixes(folder, pair.splits)])

    return Step("bin", "binarise", fill)
