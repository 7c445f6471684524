"""From words to subwords: how many each word has, and the partition of a sentence in subwords.

The conventions: subword_nmt marks every piece of a word but the last with "@@" at its end; sentencepiece marks the
first piece with "▁" at its beginning; with none, each piece is a word.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Callable, Sequence

from .trees import Span, TreeError

CONTINUED = "@@"
WORD_BEGIN = "\u2581"

# Lengths in subwords and tags of one level; "" is no tag.
Level = tuple[list[int], list[str]]

_BRACKETS = {"-lrb-": "(", "-rrb-": ")", "-lcb-": "{", "-rcb-": "}", "-lsb-": "[", "-rsb-": "]"}
# In this order: the two characters of a quote before the one. @-@ is how Moses splits hyphens, \/ how the Penn
# Treebank writes a slash.
_REWRITTEN = [
    ("``", '"'), ("''", '"'), ("\u201c", '"'), ("\u201d", '"'), ("\u201e", '"'), ("\u00ab", '"'), ("\u00bb", '"'),
    ("`", "'"), ("\u2018", "'"), ("\u2019", "'"), ("\u201a", "'"),
    ("@-@", "-"), ("@/@", "/"), ("\\/", "/"), ("\\*", "*"),
]  # fmt: skip


def _subword_nmt(pieces: Sequence[str]) -> list[list[str]]:
    words: list[list[str]] = []
    ended = True
    for piece in pieces:
        if ended:
            words.append([])
        ended = not piece.endswith(CONTINUED)
        words[-1].append(piece if ended else piece[: -len(CONTINUED)])
    return words


def _sentencepiece(pieces: Sequence[str]) -> list[list[str]]:
    words: list[list[str]] = []
    waiting = 0  # pieces "▁" whose word follows
    for piece in pieces:
        if piece == WORD_BEGIN:
            waiting += 1
        elif waiting or piece.startswith(WORD_BEGIN) or not words:
            words.append([""] * waiting + [piece.removeprefix(WORD_BEGIN)])
            waiting = 0
        else:
            words[-1].append(piece)
    if waiting and words:
        words[-1].extend([""] * waiting)
    elif waiting:
        words.append([""] * waiting)
    return words


def _whole(pieces: Sequence[str]) -> list[list[str]]:
    return [[piece] for piece in pieces]


_CONVENTIONS: dict[str, Callable[[Sequence[str]], list[list[str]]]] = {
    "subword_nmt": _subword_nmt, "sentencepiece": _sentencepiece, "none": _whole
}  # fmt: skip
CONVENTIONS = tuple(_CONVENTIONS)


def words_of(pieces: Sequence[str], convention: str) -> tuple[list[int], list[str]]:
    """Return the number of pieces of each word, and the words put together again.

    A lone "▁" of sentencepiece belongs to the word that follows it, or to the last word at the end of a sentence. The
    numbers add up to len(pieces). Raises ValueError for a convention that is not one of CONVENTIONS.
    """
    if convention not in _CONVENTIONS:
        raise ValueError(f"subwords: {convention} is none of {', '.join(CONVENTIONS)}")
    words = _CONVENTIONS[convention](pieces)
    return [len(word) for word in words], ["".join(word) for word in words]


def project(levels: Sequence[Sequence[Span]], counts: Sequence[int]) -> list[Level]:
    """Return (lengths in subwords, tags) of each level's phrases, from lengths in words.

    levels: partitions of the same sentence (`trees.partition`). counts: subwords of each word; a word's subwords follow
    the word. Raises TreeError where a level does not cover exactly the sentence's words.
    """
    projected = []
    for phrases in levels:
        leaves = sum(phrase.words for phrase in phrases)
        if leaves != len(counts):
            raise TreeError(f"the tree has {leaves} leaves, the sentence {len(counts)} words")
        lengths, begin = [], 0
        for phrase in phrases:
            lengths.append(sum(counts[begin : begin + phrase.words]))
            begin += phrase.words
        projected.append((lengths, [phrase.tag for phrase in phrases]))
    return projected


def normalise(word: str) -> str:
    """Return what a word of a text and the leaf of a tree have in common, however each of them was escaped.

    Entities (&apos; &#91;), names of brackets (-LRB-), kinds of quotes, compatibility forms and letter case are undone.
    """
    word = unicodedata.normalize("NFKC", html.unescape(word) if "&" in word else word)
    for written, meant in _REWRITTEN:
        if written in word:
            word = word.replace(written, meant)
    word = word.casefold()
    return _BRACKETS.get(word, word)


def same_words(words: Sequence[str], leaves: Sequence[str]) -> bool:
    """Whether the words of a sentence are those of its tree, but for what `normalise` undoes."""
    pairs = zip(words, leaves, strict=True)
    return all(word == leaf or normalise(word) == normalise(leaf) for word, leaf in pairs)
