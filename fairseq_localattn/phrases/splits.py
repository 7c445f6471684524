"""The splits of a data folder whose phrases are to be written: their files, their sentences and checks of both."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

import numpy as np
from fairseq.data import data_utils

from ..errors import UsageError
from .convert import Converted, Lines
from .trees import TreeError, read_lines


@dataclass
class Split:
    """A split of a data folder: its files, and counts that grow while its phrases are written.

    Args:
        name: ``train``, ``valid``, ``test1``, ….
        prefix: path of the binarised source without ``.idx``.
        text, trees: files with one sentence, and one tree, a line.
        lengths: subwords of each sentence without </s>, (sentences,).
    """

    name: str
    prefix: Path
    text: Path
    trees: Path
    lengths: np.ndarray
    sentences: int = 0
    without_tree: int = 0
    #: Sentences whose words differ from their tree's, and the line of the first.
    differing: int = 0
    first_differing: int = 0
    #: Number of phrases on each level.
    phrases: np.ndarray = field(default_factory=lambda: np.zeros((), dtype=np.int64))
    tags: Counter[str] = field(default_factory=Counter)

    def file(self, kind: str) -> Path:
        """Return the path of the phrases; ``kind`` is bin or idx."""
        return self.prefix.with_name(f"{self.prefix.name}.phrases.{kind}")

    def count(self, chunk: Converted) -> None:
        """Add the counts of converted sentences, the next ones of the split."""
        self.sentences += len(chunk.sizes)
        self.without_tree += chunk.without_tree
        if chunk.differing:
            self.first_differing = self.first_differing or chunk.differing[0]
            self.differing += len(chunk.differing)
        self.phrases = self.phrases + chunk.phrases
        self.tags.update(chunk.counts)


def find_splits(data: Path, lang: str, texts: Path, trees: Path) -> list[Split]:
    """Return the splits of ``data``, training first. Raises UsageError where one is missing or has no text or trees."""
    pattern = re.compile(rf"((?:train|valid|test)\d*)\.[^.]+-[^.]+\.{re.escape(lang)}\.idx")
    found = [(match[1], path) for path in sorted(data.glob("*.idx")) if (match := pattern.fullmatch(path.name))]
    if not found:
        raise UsageError(
            f"{data}: no binarised {lang}, such as train.{lang}-xx.{lang}.idx; run fairseq-preprocess first"
        )
    splits = []
    for name, path in sorted(found, key=lambda item: (not item[0].startswith("train"), item[0], item[1])):
        text, tree = texts / f"{name}.{lang}", trees / f"{name}.{lang}.tree"
        if not text.is_file():
            raise UsageError(f"{text}: no such file; --texts is the folder of the text that fairseq-preprocess read")
        if not tree.is_file():
            raise UsageError(f"{tree}: no such file; parse {text.name}, or take {path.stem} out of {data}")
        prefix = path.with_suffix("")
        splits.append(Split(name, prefix, text, tree, lengths=source_lengths(prefix)))
    return splits


def source_lengths(prefix: Path) -> np.ndarray:
    """Return the subwords of each sentence of a binarised text, (sentences,), without </s>.

    Raises UsageError for a text that is missing, damaged, or has no sentences.
    """
    source = data_utils.load_indexed_dataset(str(prefix))
    if source is None:
        raise UsageError(f"{prefix}.bin: no such file; run fairseq-preprocess again")
    return np.array(source.sizes, dtype=np.int64) - 1


def read_chunks(split: Split, size: int) -> Iterator[Lines]:
    """Yield the lines of a text and its trees, ``size`` at a time. Raises TreeError where one file has fewer lines."""
    chunk = Lines(1, [], [], split.trees)
    for text, tree in zip_longest(read_lines(split.text), read_lines(split.trees)):
        if text is None or tree is None:
            shorter, longer = (split.text, split.trees) if text is None else (split.trees, split.text)
            number = (text or tree)[0]
            raise TreeError(
                f"{shorter}:{number}: no such line, {longer} has more; they must be line by line beside each other: "
                "parse this text again"
            )
        chunk.texts.append(text[1])
        chunk.trees.append(tree[1])
        if len(chunk.texts) == size:
            yield chunk
            chunk = Lines(text[0] + 1, [], [], split.trees)
    if chunk.texts:
        yield chunk


def check_lengths(split: Split, subwords: Sequence[int]) -> None:
    """Raise TreeError unless the text's next sentences have as many subwords as the binarised source's."""
    begin = split.sentences
    binarised = split.lengths[begin : begin + len(subwords)]
    differing = np.flatnonzero(np.array(subwords[: len(binarised)]) != binarised)
    again = "give the --texts that fairseq-preprocess read, or run it again"
    if differing.size:
        at = int(differing[0])
        raise TreeError(
            f"{split.text}:{begin + at + 1}: {subwords[at]} subwords, {split.prefix}.idx has {binarised[at]}; {again}"
        )
    if len(binarised) < len(subwords):
        total = len(split.lengths)
        raise TreeError(f"{split.text}:{total + 1}: {split.prefix}.idx has {total} sentences only; {again}")


def check_complete(split: Split) -> None:
    """Raise TreeError where the text ended before the binarised source."""
    if split.sentences < len(split.lengths):
        raise TreeError(
            f"{split.text}:{split.sentences + 1}: no such line, {split.prefix}.idx has {len(split.lengths)} sentences; "
            "give the --texts that fairseq-preprocess read, or run it again"
        )
