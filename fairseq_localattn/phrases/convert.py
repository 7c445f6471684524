"""Conversion of sentences and their trees to packed phrases: one sentence, or many lines of a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from fairseq.data import Dictionary

from . import store
from .subwords import Level, project, same_words, words_of
from .trees import TreeError, one_word_phrases, partition, read_tree

#: Symbols of every dictionary: <s>, <pad>, </s> and <unk>. A tag of this name would become one of them.
SPECIAL = tuple(Dictionary().symbols)


@dataclass(frozen=True)
class Conversion:
    """How sentences are converted.

    Args:
        levels: number of levels of phrases.
        subwords: the convention of subwords, one of :data:`subwords.CONVENTIONS`.
        known: the tags that are allowed; None allows all.
        dictionary: the file that lists them, for error messages.
    """

    levels: int
    subwords: str
    known: frozenset[str] | None = None
    dictionary: str = ""


@dataclass
class Lines:
    """Consecutive lines of a text and of its trees, with the number (from 1) of the first one and the file of trees."""

    first: int
    texts: list[str]
    trees: list[str]
    tree_file: Path


@dataclass
class Converted:
    """The packed phrases of some lines.

    Args:
        phrases: number of phrases on each level, (levels,).
        numbers: the packed sentences (see store.py), concatenated, with tag ``tags[t]`` as -1 - t.
        sizes: how many of the numbers each sentence has.
        subwords: how many subwords each sentence has.
        tags: the tags, in the order in which they were found.
        counts: how often each tag occurs.
        without_tree: number of sentences without a tree.
        differing: numbers of the lines whose words differ from their tree's.
    """

    phrases: np.ndarray
    numbers: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    sizes: list[int] = field(default_factory=list)
    subwords: list[int] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    without_tree: int = 0
    differing: list[int] = field(default_factory=list)


def phrases(pieces: Sequence[str], tree: str, levels: int, convention: str) -> tuple[list[Level], bool]:
    """Return (lengths in subwords, tags) of each level, and whether the tree has the sentence's words.

    Args:
        pieces: the subwords of the sentence.
        tree: its bracketing; blank for one-word phrases without tags.
        levels: number of levels.
        convention: of the subwords, one of :data:`subwords.CONVENTIONS`.

    Raises TreeError for a tree that cannot be read, has another number of words, or a label that fairseq's dictionaries
    have as a special symbol.
    """
    counts, words = words_of(pieces, convention)
    if not tree.strip():
        return project(one_word_phrases(len(counts), levels), counts), True
    root = read_tree(tree)
    projected = project(partition(root, levels), counts)
    for special in SPECIAL:
        if special in tree and any(special in tags for _, tags in projected):
            raise TreeError(f"the label {special} is a special symbol of fairseq's dictionaries: give it another name")
    return projected, same_words(words, root.words())


def phrases_of_sentence(
    pieces: Sequence[str], tree: str, levels: int, convention: str, *, tags: Dictionary
) -> torch.IntTensor:
    """Return the packed phrases (:func:`store.pack`) of one sentence; see :func:`phrases` for the arguments.

    A tag that the dictionary ``tags`` lacks becomes ``tags.pad()``, no tag. Raises TreeError.
    """
    found, _ = phrases(pieces, tree, levels, convention)
    pad = tags.pad()
    return store.pack(
        [(lengths, [tags.index(tag) if tag in tags else pad for tag in names]) for lengths, names in found]
    )


def convert(conversion: Conversion, lines: Lines) -> Converted:
    """Return the packed phrases of some lines. Raises TreeError with file and line."""
    result = Converted(phrases=np.zeros(conversion.levels, dtype=np.int64))
    tag_numbers: dict[str, int] = {}
    numbers: list[int] = []
    for line, (text, tree) in enumerate(zip(lines.texts, lines.trees, strict=True), lines.first):
        pieces = text.split()
        try:
            found, same = phrases(pieces, tree, conversion.levels, conversion.subwords)
        except TreeError as error:
            raise TreeError(
                f"{lines.tree_file}:{line}: {error}; parse the sentence again (its words are those of --subwords "
                f"{conversion.subwords}), or empty this line to do without its tree"
            ) from None
        if unknown := _unknown_tag(conversion, found):
            raise TreeError(
                f"{lines.tree_file}:{line}: the tag {unknown} is not in {conversion.dictionary}; take the parser that "
                "it was made with, or empty this line to do without its tree"
            )
        item = store.flat(
            [(lengths, [tag_numbers.setdefault(tag, -1 - len(tag_numbers)) for tag in tags]) for lengths, tags in found]
        )
        numbers.extend(item)
        result.sizes.append(len(item))
        result.subwords.append(len(pieces))
        result.counts.update(tag for _, tags in found for tag in tags)
        result.phrases += [len(lengths) for lengths, _ in found]
        result.without_tree += not tree.strip()
        if not same:
            result.differing.append(line)
    result.numbers, result.tags = np.array(numbers, dtype=np.int32), list(tag_numbers)
    return result


def _unknown_tag(conversion: Conversion, levels: Sequence[Level]) -> str:
    """Return the first tag that is not allowed, or ""."""
    if conversion.known is None:
        return ""
    return next((tag for _, tags in levels for tag in tags if tag and tag not in conversion.known), "")
