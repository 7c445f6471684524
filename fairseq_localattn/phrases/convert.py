"""Phrases of sentences from their subwords and trees, packed: one line, or many of a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from fairseq.data import Dictionary

from . import store
from .subwords import Level, project, same_words, words_of
from .trees import TreeError, one_word_phrases, partition, read_tree


@dataclass(frozen=True)
class Settings:
    """What is made of a sentence; known: the tags that there may be, None for any, and the file that lists them."""

    levels: int
    subwords: str
    known: frozenset[str] | None = None
    dictionary: str = ""


@dataclass
class Lines:
    """Consecutive lines of a text and its trees; first: the number of the first, from 1; tree_file: for errors."""

    first: int
    texts: list[str]
    trees: list[str]
    tree_file: Path


@dataclass
class Converted:
    """The packed phrases of some lines: items one after the other, the tag tags[t] in them as -1 - t."""

    numbers: np.ndarray
    sizes: list[int]
    subwords: list[int]
    tags: list[str]
    counts: Counter[str]
    phrases: np.ndarray
    without_tree: int
    differing: list[int]


def phrases(pieces: Sequence[str], tree: str, levels: int, convention: str) -> tuple[list[Level], bool]:
    """Return (lengths in subwords, tags) of each level, and whether the tree has the sentence's words.

    pieces: the subwords; tree: its bracketing, or blank for one-word phrases without tags. Raises TreeError for a tree
    that cannot be read or has another number of words.
    """
    counts, words = words_of(pieces, convention)
    if not tree.strip():
        return project(one_word_phrases(len(counts), levels), counts), True
    root = read_tree(tree)
    projected = project(partition(root, levels), counts)
    return projected, same_words(words, root.words())


def phrases_of_line(
    subwords: Sequence[str], tree: str, levels: int, convention: str, tags: Dictionary
) -> torch.IntTensor:
    """Return the packed phrases (`store.pack`) of one sentence, for interactive use; the arguments are those of
    `phrases`. A tag that the dictionary does not have becomes its pad(), which is no tag. Raises TreeError.
    """
    found, _ = phrases(subwords, tree, levels, convention)
    pad = tags.pad()
    return store.pack(
        [(lengths, [tags.index(tag) if tag in tags else pad for tag in names]) for lengths, names in found]
    )


def convert(settings: Settings, lines: Lines) -> Converted:
    """Pack the phrases of some lines. Raises TreeError with file and line."""
    result = Converted(np.empty(0), [], [], [], Counter(), np.zeros(settings.levels, dtype=np.int64), 0, [])
    marks: dict[str, int] = {}
    numbers: list[int] = []
    for line, (text, tree) in enumerate(zip(lines.texts, lines.trees, strict=True), lines.first):
        pieces = text.split()
        try:
            found, same = phrases(pieces, tree, settings.levels, settings.subwords)
        except TreeError as error:
            raise TreeError(
                f"{lines.tree_file}:{line}: {error}; parse the sentence again (its words are those of --subwords "
                f"{settings.subwords}), or empty this line to do without its tree"
            ) from None
        if unknown := _unknown(settings, found):
            raise TreeError(
                f"{lines.tree_file}:{line}: the tag {unknown} is not in {settings.dictionary}; take the parser that "
                "it was made with, or empty this line to do without its tree"
            )
        marked = [(lengths, [marks.setdefault(tag, -1 - len(marks)) for tag in tags]) for lengths, tags in found]
        item = store.flat(marked)
        numbers.extend(item)
        result.sizes.append(len(item))
        result.subwords.append(len(pieces))
        result.counts.update(tag for _, tags in found for tag in tags)
        result.phrases += [len(lengths) for lengths, _ in found]
        result.without_tree += not tree.strip()
        if not same:
            result.differing.append(line)
    result.numbers, result.tags = np.array(numbers, dtype=np.int32), list(marks)
    return result


def _unknown(settings: Settings, levels: Sequence[Level]) -> str:
    """The first tag that a given dictionary does not have, or ""."""
    if settings.known is None:
        return ""
    return next((tag for _, tags in levels for tag in tags if tag and tag not in settings.known), "")
