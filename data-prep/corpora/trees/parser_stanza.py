"""stanza's constituency parser for tokenised lines: tokens are kept, and a sentence that fails affects no other."""

from __future__ import annotations

import functools
import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import stanza
import torch
from stanza.models.constituency.parse_tree import Tree
from stanza.resources.common import DEFAULT_MODEL_DIR

from corpora.errors import DataError
from corpora.trees.leaves import to_leaf, unescape
from fairseq_localattn.parallel import cores

PROCESSORS = "tokenize,pos,constituency"


@dataclass(frozen=True)
class Settings:
    """Settings of a Parser.

    models: a folder of stanza's, None: the one to which stanza downloads; batch: sentences parsed together; max_words:
    longer sentences are not parsed; cpu: use no GPU.
    """

    lang: str
    models: Path | None = None
    batch: int = 250
    max_words: int = 200
    cpu: bool = False


def bracketing(tree: Tree) -> str:
    """Return the tree on one line."""
    parts: list[str] = []
    stack: list[Tree | None] = [tree]
    while stack:
        node = stack.pop()
        if node is None:
            parts.append(")")
        elif node.is_preterminal():
            parts.append(f" ({node.label} {to_leaf(node.children[0].label)})")
        else:
            parts.append(f" ({node.label}")
            stack.append(None)
            stack.extend(reversed(node.children))
    return "".join(parts).strip()


def fingerprint(lang: str, models: Path | None) -> str:
    """Return a hash of stanza's version and of name, size and time of each model of a language."""
    folder = Path(models or DEFAULT_MODEL_DIR) / lang
    files = sorted((str(path.relative_to(folder)), path.stat()) for path in folder.rglob("*.pt"))
    text = stanza.__version__ + "".join(f"\n{name} {found.st_size} {found.st_mtime_ns}" for name, found in files)
    return hashlib.sha256(text.encode()).hexdigest()


class Parser:
    """Parses lines of Moses tokens. Raises DataError where the models are missing."""

    def __init__(self, settings: Settings) -> None:
        self.max_words = settings.max_words
        lang = settings.lang
        logging.getLogger("stanza").setLevel(logging.ERROR)
        folder = settings.models or Path(DEFAULT_MODEL_DIR)
        missing = (
            f"no models to parse {lang} with in {folder}: download stanza's (python -c \"import stanza;"
            f" stanza.download('{lang}', processors='{PROCESSORS}')\"), or train some (data-prep/train_parser.py) and"
            " give their folder (--parser of a preparation, --models of parse.py)"
        )
        if not (folder / "resources.json").exists():
            raise DataError(missing)
        try:
            self._pipeline = stanza.Pipeline(
                lang, dir=str(folder), processors=PROCESSORS, tokenize_pretokenized=True, download_method=None,
                constituency_batch_size=settings.batch, use_gpu=not settings.cpu and torch.cuda.is_available(),
                logging_level="ERROR",
            )  # fmt: skip
        except Exception as error:  # of many types: no such language, a missing or damaged file
            raise DataError(f"{missing} (stanza: {' '.join(str(error).split()) or type(error).__name__})") from None
        if "constituency" not in self._pipeline.processors:
            raise DataError(f"stanza has no constituency parser for {lang} in {folder}; train one, or bring the trees")

    def __call__(self, lines: Sequence[str]) -> list[str]:
        """Return a bracketing for each line, "" for a blank one and a sentence that cannot be parsed."""
        trees, tokens = [""] * len(lines), [line.split() for line in lines]
        sentences = {
            number: [unescape(token) for token in words]
            for number, words in enumerate(tokens)
            if 0 < len(words) <= self.max_words
        }
        found = self._parse(list(sentences.values()))
        for (number, words), tree in zip(sentences.items(), found, strict=True):
            if tree is None:  # another sentence may be the cause
                tree = self._parse([words])[0]
            trees[number] = bracketing(tree) if tree is not None else ""
        return trees

    def _parse(self, sentences: list[list[str]]) -> list[Tree | None]:
        """Return the trees, with None where the leaves are not the words, and everywhere if stanza fails."""
        if not sentences:  # stanza fails on no sentences
            return []
        try:
            found = [sentence.constituency for sentence in self._pipeline(sentences).sentences]
        except Exception:  # of any type; single sentences may still be parsed
            return [None] * len(sentences)
        if len(found) != len(sentences):
            return [None] * len(sentences)
        return [
            tree if tree is not None and tree.leaf_labels() == words else None
            for tree, words in zip(found, sentences, strict=True)
        ]


def maker(settings: Settings, workers: int) -> tuple[Callable[[], Parser], int]:
    """Return what makes the parser of a process, and the number of processes: one where they would share a GPU."""
    if torch.cuda.is_available() and not settings.cpu:
        workers = 1
    threads = max(1, cores() // workers) if workers > 1 else 0
    return functools.partial(_parser, settings, threads), workers


def _parser(settings: Settings, threads: int) -> Parser:
    if threads:
        torch.set_num_threads(threads)
    return Parser(settings)
