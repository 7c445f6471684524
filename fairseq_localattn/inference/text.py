"""From raw text to the words of a model and back: the training's tokeniser and subwords, by fairseq's names."""

from __future__ import annotations

import re
from argparse import BooleanOptionalAction
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import UsageError

TOKENIZERS = ("moses", "space", "none")
FILES = {"bpe_codes": "subword_nmt", "sentencepiece_model": "sentencepiece"}  # option → the subwords that have it
SUBWORDS = (*FILES.values(), "none")
OPTIONS = ("tokenizer", "lowercase", "bpe", *FILES)  # that commands take
DASH = "@-@"  # a hyphen that Moses' rules split off
PACKAGES = {"sacremoses": "sacremoses", "subword_nmt.apply_bpe": "subword-nmt", "sentencepiece": "sentencepiece"}
Step = Callable[[str], str]


def _same(text: str) -> str:
    return text


@dataclass(frozen=True)
class Text:
    """The steps between a raw line and the words of a model; each maps a string to a string.

    Args:
        tokenize, detokenize: between a raw line and tokens joined by spaces.
        split, join: between tokens and subwords, joined by spaces.
    """

    tokenize: Step = _same
    detokenize: Step = _same
    split: Step = _same
    join: Step = _same

    def words(self, line: str) -> list[str]:
        """Return the words, or subwords, of a line."""
        return self.split(self.tokenize(line)).split()

    def line(self, words: list[str]) -> str:
        """Return the line of words, or subwords."""
        return self.detokenize(self.join(" ".join(words)))


def add_text_flags(add: Callable[..., Any]) -> None:
    """Add the flags of dictionaries, languages and :data:`OPTIONS` by ``add``, a parser's ``add_argument``."""
    add("--data", metavar="DIR", help="folder of dict.XX.txt (default: the checkpoint's, then the training's)")
    add("--source-lang", metavar="XX", help="default: as the checkpoint or the names of the files in DIR say")
    add("--target-lang", metavar="YY", help="likewise")
    add("--tokenizer", choices=TOKENIZERS, help="default: as the checkpoint says")
    add("--lowercase", action=BooleanOptionalAction, help="default: if no word of the source has a capital letter")
    add("--bpe", choices=SUBWORDS, help="default: as the checkpoint says")
    add("--bpe-codes", metavar="FILE", help="of --bpe subword_nmt")
    add("--sentencepiece-model", metavar="FILE", help="of --bpe sentencepiece")


def chosen(options: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a training with those given in their place; None is not given.

    Raises UsageError for a given file that the subwords do not read.
    """
    given = {name: value for name, value in given.items() if value is not None}
    found = {**options, **given}
    for name, bpe in FILES.items():
        if name in given and found.get("bpe") != bpe:
            raise UsageError(f"--{name.replace('_', '-')}: give --bpe {bpe} as well")
    return found


def text_of(options: Mapping[str, Any], words: Collection[str] | None = None) -> Text:
    """Return the steps that options name.

    Args:
        options: by fairseq's names ``tokenizer`` (space, or moses with ``source_lang``, ``target_lang``,
            ``moses_no_dash_splits``, ``moses_no_escape``) and ``bpe`` (subword_nmt with ``bpe_codes``,
            ``bpe_separator``, or sentencepiece with ``sentencepiece_model``); and ``lowercase``.
        words: of the source's dictionary. Where options do not say it, moses splits hyphens if one of these has
            :data:`DASH`, and text becomes lower case if none of these has a capital letter.

    Raises UsageError for another name, a missing file and a package that is not installed.
    """
    tokenizer, bpe = (str(options.get(name) or "none") for name in ("tokenizer", "bpe"))
    for flag, name, known in (("--tokenizer", tokenizer, TOKENIZERS), ("--bpe", bpe, SUBWORDS)):
        if name not in known:
            raise UsageError(f"{flag} {name}: choose from {', '.join(known)}; or give the text as the training had it")
    steps: dict[str, Step] = {}
    if tokenizer == "space":
        steps["tokenize"] = lambda line: re.sub(r"\s+", " ", line)
    elif tokenizer == "moses":
        steps |= _moses(options, words)
    lowercase = options.get("lowercase")
    if words is not None and lowercase is None:
        lowercase = all(word == word.lower() for word in words)
    if lowercase:
        tokenize = steps.get("tokenize", _same)
        steps["tokenize"] = lambda line: tokenize(line).lower()
    if bpe == "subword_nmt":
        steps |= _subword_nmt(options)
    elif bpe == "sentencepiece":
        steps |= _sentencepiece(options)
    return Text(**steps)


def _moses(options: Mapping[str, Any], words: Collection[str] | None) -> dict[str, Step]:
    sacremoses = _package("sacremoses", "--tokenizer moses")
    tokenizer = sacremoses.MosesTokenizer(options.get("source_lang") or "en")
    detokenizer = sacremoses.MosesDetokenizer(options.get("target_lang") or "en")
    whole = options.get("moses_no_dash_splits")
    splits = words is None or any(DASH in word for word in words) if whole is None else not whole
    given = {"aggressive_dash_splits": splits, "escape": not options.get("moses_no_escape")}
    return {
        "tokenize": lambda line: tokenizer.tokenize(line, return_str=True, **given),
        "detokenize": lambda line: detokenizer.detokenize(line.split()),
    }


def _subword_nmt(options: Mapping[str, Any]) -> dict[str, Step]:
    path = _file(options.get("bpe_codes"), "--bpe-codes")
    apply_bpe = _package("subword_nmt.apply_bpe", "--bpe subword_nmt")
    separator = str(options.get("bpe_separator") or "@@")
    try:
        with open(path, encoding="utf-8") as codes:
            for number, line in enumerate(codes.read().rstrip("\n").split("\n"), start=1):
                if len(line.strip("\r ").split(" ")) != 2 and not (number == 1 and line.startswith("#version:")):
                    raise ValueError(f"line {number} is not two subwords")
            bpe = apply_bpe.BPE(codes, separator=separator)
    except ValueError as error:
        raise UsageError(f"--bpe-codes {path}: holds no codes of subword-nmt ({error})") from None
    return {
        "split": bpe.process_line,
        "join": lambda line: f"{line} ".replace(f"{separator} ", "").rstrip(),
    }


def _sentencepiece(options: Mapping[str, Any]) -> dict[str, Step]:
    path = _file(options.get("sentencepiece_model"), "--sentencepiece-model")
    sentencepiece = _package("sentencepiece", "--bpe sentencepiece")
    try:
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(path))
    except (OSError, RuntimeError) as error:
        raise UsageError(f"--sentencepiece-model {path}: is no model of SentencePiece ({error})") from None
    return {
        "split": lambda line: " ".join(pieces.encode(line, out_type=str)),
        "join": lambda line: line.replace(" ", "").replace("\u2581", " ").strip(),
    }


def _package(name: str, flag: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise UsageError(f"{flag}: needs a package: pip install {PACKAGES[name]}") from None


def _file(name: Any, flag: str) -> Path:
    if not name:
        raise UsageError(f"{flag} is missing: give the file of the training")
    if not Path(name).is_file():
        raise UsageError(f"{flag} {name}: no such file; give the one of the training")
    return Path(name)
