"""How a word is written: as a token of the Moses tokenizer, plainly, and as the leaf of a tree."""

from __future__ import annotations

# The Moses tokenizer's escapes; the ampersand last, as it is part of the others.
_ENTITIES = {
    "&apos;": "'", "&quot;": '"', "&lt;": "<", "&gt;": ">", "&#91;": "[", "&#93;": "]", "&#124;": "|", "&amp;": "&"
}  # fmt: skip
_BRACKETS = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}


def unescape(token: str) -> str:
    """Return a Moses token as the word that it was: without entities, and "-" for the tokenizer's "@-@"."""
    for entity, character in _ENTITIES.items():
        token = token.replace(entity, character)
    return "-" if token == "@-@" else token


def to_leaf(word: str) -> str:
    """Return a word as a leaf of the Penn Treebank: a bracket by its name, and no round bracket inside a word."""
    return _BRACKETS.get(word) or word.replace("(", "-LRB-").replace(")", "-RRB-")
