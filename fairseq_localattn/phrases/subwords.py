"""Projection of phrases from words to subwords.

There are three conventions for subwords. ``subword_nmt`` ends every piece of a word but the last with "@@",
``sentencepiece`` begins the first piece with "▁", and with ``none`` each piece is a word.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Callable, Sequence

from .trees import Span, TreeError

CONTINUED = "@@"
WORD_BEGIN = "\u2581"

#: Lengths in subwords and tags of the phrases of one level; "" is no tag.
Level = tuple[list[int], list[str]]

_BRACKETS = {"-lrb-": "(", "-rrb-": ")", "-lcb-": "{", "-rcb-": "}", "-lsb-": "[", "-rsb-": "]"}
# Applied in this order: quotes of two characters before those of one. @-@ is Moses' form of a hyphen, \/ the Penn
# Treebank's form of a slash.
_REWRITTEN = [
    ("``", '"'), ("''", '"'), ("\u201c", '"'), ("\u201d", '"'), ("\u201e", '"'), ("\u00ab", '"'), ("\u00bb", '"'),
    ("`", "'"), ("\u2018", "'"), ("\u2019", "'"), ("\u201a", "'"),
    ("@-@", "-"), ("@/@", "/"), ("\\/", "/"), ("\\*", "*"),
]  # fmt: skip


def _subword_nmt(pieces: Sequence[str]) -> list[list[str]]:
    """Return the pieces of each word, without their marks; "@@" continues a word."""
    words: list[list[str]] = []
    ended = True
    for piece in pieces:
        if ended:
            words.append([])
        ended = not piece.endswith(CONTINUED)
        words[-1].append(piece if ended else piece[: -len(CONTINUED)])
    return words


def _sentencepiece(pieces: Sequence[str]) -> list[list[str]]:
    """Return the pieces of each word, without their marks; "▁" begins a word."""
    words: list[list[str]] = []
    waiting = 0  # lone pieces "▁" that belong to the next word
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


def _whole_words(pieces: Sequence[str]) -> list[list[str]]:
    """Return each piece as a word."""
    return [[piece] for piece in pieces]


_CONVENTIONS: dict[str, Callable[[Sequence[str]], list[list[str]]]] = {
    "subword_nmt": _subword_nmt, "sentencepiece": _sentencepiece, "none": _whole_words
}  # fmt: skip
CONVENTIONS = tuple(_CONVENTIONS)


def words_of(pieces: Sequence[str], convention: str) -> tuple[list[int], list[str]]:
    """Return the number of pieces of each word, and the words themselves.

    A lone "▁" of sentencepiece belongs to the word that follows, or to the last word at the end of a sentence. The
    numbers add up to len(pieces). Raises ValueError for a convention that is not one of CONVENTIONS.
    """
    if convention not in _CONVENTIONS:
        raise ValueError(f"subwords: {convention} is none of {', '.join(CONVENTIONS)}")
    words = _CONVENTIONS[convention](pieces)
    return [len(word) for word in words], ["".join(word) for word in words]


def project(levels: Sequence[Sequence[Span]], counts: Sequence[int]) -> list[Level]:
    """Return (lengths in subwords, tags) of each level's phrases.

    Args:
        levels: partitions of the same sentence into words (:func:`trees.partition`).
        counts: number of subwords of each word.

    Raises TreeError where a level does not cover exactly the sentence's words.
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
    """Return a word in a form that does not depend on how a text or a treebank escapes it.

    Undoes entities (&apos; &#91;), names of brackets (-LRB-), kinds of quotes, compatibility forms and letter case.
    """
    word = unicodedata.normalize("NFKC", html.unescape(word) if "&" in word else word)
    for written, meant in _REWRITTEN:
        if written in word:
            word = word.replace(written, meant)
    word = word.casefold()
    return _BRACKETS.get(word, word)


def same_words(words: Sequence[str], leaves: Sequence[str]) -> bool:
    """Return whether the normalised words of a sentence and of its tree are equal."""
    pairs = zip(words, leaves, strict=True)
    return all(word == leaf or normalise(word) == normalise(leaf) for word, leaf in pairs)
