"""stanza's constituency parser for tokenised lines: tokens stay as they are, and no sentence can stop the others."""

from __future__ import annotations

import hashlib
import logging
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import stanza
import torch
from stanza.models.constituency.parse_tree import Tree
from stanza.resources.common import DEFAULT_MODEL_DIR

from corpora.text.parallel import DataError
from corpora.trees.leaves import to_leaf, unescape

PROCESSORS = "tokenize,pos,constituency"


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
    """Return what tells one set of models from another: stanza's version, and name, size and time of every file."""
    folder = Path(models or DEFAULT_MODEL_DIR) / lang
    files = sorted((str(path.relative_to(folder)), path.stat()) for path in folder.rglob("*.pt"))
    text = stanza.__version__ + "".join(f"\n{name} {found.st_size} {found.st_mtime_ns}" for name, found in files)
    return hashlib.sha256(text.encode()).hexdigest()


class Parser:
    """Parses lists of Moses tokens.

    models: a folder of stanza's, None: where stanza downloads to; batch: sentences parsed together; max_words: longer
    sentences are not parsed. Raises DataError where the models are missing.
    """

    def __init__(self, lang: str, models: Path | None, batch: int, max_words: int, cpu: bool) -> None:
        self.max_words = max_words
        logging.getLogger("stanza").setLevel(logging.ERROR)
        folder = models or Path(DEFAULT_MODEL_DIR)
        missing = (
            f"no models to parse {lang} with in {folder}: download stanza's (python -c \"import stanza;"
            f" stanza.download('{lang}', processors='{PROCESSORS}')\"), or train some (data-prep/train_parser.py) and"
            " give their folder (--models)"
        )
        if not (folder / "resources.json").exists():
            raise DataError(missing)
        try:
            self._pipeline = stanza.Pipeline(
                lang, dir=str(folder), processors=PROCESSORS, tokenize_pretokenized=True, download_method=None,
                constituency_batch_size=batch, use_gpu=not cpu and torch.cuda.is_available(), logging_level="ERROR",
            )  # fmt: skip
        except Exception as error:  # of many kinds: no such language, a file is missing, a file is damaged
            raise DataError(f"{missing} (stanza: {' '.join(str(error).split()) or type(error).__name__})") from None
        if "constituency" not in self._pipeline.processors:
            raise DataError(f"stanza has no constituency parser for {lang} in {folder}; train one, or bring the trees")

    def __call__(self, lines: Sequence[Sequence[str]]) -> list[str]:
        """Return a bracketing for each list of tokens; "" for an empty one, and where none could be made."""
        trees = [""] * len(lines)
        sentences = {
            number: [unescape(token) for token in line]
            for number, line in enumerate(lines)
            if 0 < len(line) <= self.max_words
        }
        found = self._parse(list(sentences.values()))
        for (number, words), tree in zip(sentences.items(), found, strict=True):
            if tree is None:  # maybe another sentence's fault
                tree = self._parse([words])[0]
            trees[number] = bracketing(tree) if tree is not None else ""
        return trees

    def _parse(self, sentences: list[list[str]]) -> list[Tree | None]:
        """Return the trees; None for all where stanza fails, and for those whose leaves are not the words."""
        if not sentences:  # stanza cannot do nothing
            return []
        try:
            found = [sentence.constituency for sentence in self._pipeline(sentences).sentences]
        except Exception:  # whatever it is, sentences alone may still go through
            return [None] * len(sentences)
        if len(found) != len(sentences):
            return [None] * len(sentences)
        return [
            tree if tree is not None and tree.leaf_labels() == words else None
            for tree, words in zip(found, sentences, strict=True)
        ]


def parse_blocks(
    blocks: Sequence[list[list[str]]],
    lang: str,
    models: Path | None,
    batch: int,
    max_words: int,
    cpu: bool,
    workers: int,
) -> Iterator[list[str]]:
    """Yield what a Parser makes of each block, in order; `workers` processes share the work."""
    settings = (lang, models, batch, max_words, cpu)
    if torch.cuda.is_available() and not cpu:
        workers = 1  # they would only share the GPU
    if workers == 1 or len(blocks) <= 1:
        parser = Parser(*settings)
        yield from map(parser, blocks)
        return
    # Not forked: a process that has used a GPU, or threads, must not be.
    with multiprocessing.get_context("spawn").Pool(min(workers, len(blocks)), _start, (settings, workers)) as pool:
        yield from pool.imap(_work, blocks)


_settings: tuple[str, Path | None, int, int, bool]  # of a worker process
_parser: Parser | None = None


def _start(settings: tuple[str, Path | None, int, int, bool], workers: int) -> None:
    """Set a worker up; what may fail is left to the first block: a pool restarts workers that fail here, for ever."""
    global _settings
    _settings = settings
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))
    threading.Thread(target=_die_with, args=(os.getppid(),), daemon=True).start()


def _die_with(parent: int) -> None:
    """End this process when its parent was killed: nobody else would."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _work(block: list[list[str]]) -> list[str]:
    global _parser
    if _parser is None:
        _parser = Parser(*_settings)
    return _parser(block)
