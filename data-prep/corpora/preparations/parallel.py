"""Parallel text of any two languages."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from corpora.errors import UsageError
from corpora.preparations import texts, trees
from corpora.preparations.options import Given, Options
from corpora.preparations.steps import Preparation, Step
from corpora.preparations.texts import Pair
from corpora.text import bitext
from corpora.text.bitext import Limits
from corpora.text.lines import SPLITS, count_lines, find_file


def parallel(options: Options, words: Sequence[object]) -> Preparation:
    """OUT/bpe has the subwords' model: codes or sentencepiece.model, with --separate LANG.codes or LANG.model. Needed
    are the first three options."""
    options.add("source", "LANG", "the ending of the files, code of a language such as de", "")
    options.add("target", "LANG", "likewise", "")
    options.add("train", "PREFIX", "PREFIX.LANG, a sentence a line, plain or .gz; empty sides are left out", "")
    options.add("valid", "PREFIX", "validation text, complete as it is; without: pairs of the training text", "")
    options.add("test", "PREFIX", "test text, likewise", "")
    options.number("held-out", 1000, "about N pairs for each missing split, at most a tenth, at even distances")
    kinds = "moses, as fairseq-interactive --tokenizer moses does; or none (moses; with --pieces none)"
    options.add("tokenizer", "NAME", kinds, None, ["moses", "none"])
    options.number("bpe", None, "BPE (subword-nmt) with N merges (10000)")
    options.number("pieces", None, "instead: SentencePiece with N pieces")
    options.flag("separate", "subwords and a dictionary for each language; else both languages share them")
    options.number("max", 250, "no training sentence with more tokens")
    options.ratio(None, "no training pair with a side X times as long, in tokens (any)")
    options.min_correlation()
    options.trees("LANG")
    given = options.read(words)
    _check(given)
    pair, files = Pair(given.source, given.target), {}
    for split in SPLITS:
        if getattr(given, split):
            files[split] = _find(getattr(given, split), pair.source), _find(getattr(given, split), pair.target)
    trees.check(given, *pair.languages)
    kind, size = ("pieces", given.pieces) if given.pieces else ("codes", given.bpe or 10000)
    given.tokenizer = given.tokenizer or ("none" if given.pieces else "moses")
    read = partial(_read, given, files, words=given.tokenizer == "none" and kind == "codes")
    tokenise = partial(_tokenise, given, pair)
    make = partial(texts.make_subwords, given, pair, given.out / "tok", kind=kind, size=size, joint=not given.separate)
    steps = [
        *texts.cleaned(given, read, tokenise, partial(_divide, given, pair), verb="clean and divide"),
        Step("bpe", f"subwords, {size} {kind}", make, resumes=True),
        texts.binarise(given, pair, () if given.separate else ("--joined-dictionary",)),
        *trees.steps(given, pair, kind="sentencepiece" if given.pieces else "subword_nmt"),
    ]
    sides = "separate" if given.separate else "joint"
    note = f"parallel {pair.source}-{pair.target} tokenizer={given.tokenizer} {kind}={size} sides={sides}"
    note += f" max={given.max} ratio={given.ratio or ''} held-out={given.held_out}"
    for split in SPLITS:
        prefix = getattr(given, split)
        note += f" {split}={Path(prefix).resolve() if prefix else ''}"
    given_texts = [path for both in files.values() for path in both]
    return Preparation(given, note, steps, texts=given_texts, trees=trees.origin(given))


def _find(prefix: str, lang: str) -> Path:
    return find_file(Path(prefix).parent, f"{Path(prefix).name}.{lang}")


def _check(given: Given) -> None:
    """Raise UsageError for options that do not go together."""
    for side in ("source", "target"):
        if not re.fullmatch("[A-Za-z0-9_]+", value := getattr(given, side)):
            raise UsageError(f"--{side} needs the ending of its files, such as de, got '{value}'")
    if given.source == given.target:
        raise UsageError(f"--source and --target are both '{given.source}'")
    if not given.train:
        text = f"PREFIX.{given.source} and PREFIX.{given.target} are the training text"
        raise UsageError(f"--train PREFIX is missing: {text}")
    for split in SPLITS:
        prefix = getattr(given, split)
        for lang in (given.source, given.target) if prefix and not (given.out / "raw").is_dir() else ():
            if not _find(prefix, lang).exists():
                both = f"--{split} is what both names have in common"
                raise UsageError(f"no file {prefix}.{lang}, nor one with .gz: {both}")
    if given.bpe and given.pieces:
        raise UsageError("--bpe or --pieces, please, not both")


def _read(given: Given, files: dict[str, tuple[Path, Path]], part: Path, words: bool) -> None:
    """Read the given text. Test and validation text must have no empty line, so that nothing of it is lost."""
    pair = Pair(given.source, given.target)
    for split, sources in files.items():
        rules = bitext.Rules(strict=split != "train", words=words, min_correlation=float(given.min_correlation))
        bitext.join([sources], pair.files(part / split), rules)


def _tokenise(given: Given, pair: Pair, part: Path) -> None:
    """Write OUT/text in tokens, as fairseq-interactive makes them of raw sentences."""
    text = given.out / "text"
    if given.tokenizer == "none":
        for path in text.iterdir():
            shutil.copy(path, part)
        return
    names = [each for each in pair.names() if (text / each[0]).exists()]
    texts.tokenise(given, names, text, part, allow_empty=True, normalise=False, aggressive_dash_splits=True)


def _divide(given: Given, pair: Pair, folder: Path, part: Path) -> None:
    """Take the pairs whose tokens have the right lengths, without those that are held out."""
    held_out, measured = [split for split in ("valid", "test") if not getattr(given, split)], given.out / "tokens"
    lines = count_lines(measured / f"train.{given.source}")
    every = max(10, lines // given.held_out) if held_out else 0
    limits = Limits(1, given.max, float(given.ratio or "inf"))
    texts.take_pairs(pair, folder, part, measured=measured, limits=limits, every=every, held_out=held_out)
