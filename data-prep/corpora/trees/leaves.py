"""Words in three forms: token of the Moses tokenizer, plain word, and leaf of a tree."""

from __future__ import annotations

# Escapes of the Moses tokenizer; the ampersand is last, as all others contain it.
_ENTITIES = {
    "&apos;": "'", "&quot;": '"', "&lt;": "<", "&gt;": ">", "&#91;": "[", "&#93;": "]", "&#124;": "|", "&amp;": "&"
}  # fmt: skip
_BRACKETS = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}


def unescape(token: str) -> str:
    """Return the word of a Moses token: without entities, and "-" for "@-@"."""
    for entity, character in _ENTITIES.items():
        token = token.replace(entity, character)
    return "-" if token == "@-@" else token


def to_leaf(word: str) -> str:
    """Return a word as a leaf of the Penn Treebank, where brackets, and round ones inside a word, have names."""
    return _BRACKETS.get(word) or word.replace("(", "-LRB-").replace(")", "-RRB-")


def from_leaf(leaf: str) -> str:
    """Return the word of a leaf, without the names of brackets and the escapes `\\/` and `\\*`."""
    for bracket, name in _BRACKETS.items():
        leaf = leaf.replace(name, bracket)
    return leaf.replace("\\/", "/").replace("\\*", "*")
