"""Words in three forms: token of the Moses tokenizer, plain word, and leaf of a tree."""

from __future__ import annotations

import re
from pathlib import Path

from corpora.errors import DataError
from corpora.text.lines import read_text

# Escapes of the Moses tokenizer; the ampersand is last, as all others contain it.
_ENTITIES = {
    "&apos;": "'", "&quot;": '"', "&lt;": "<", "&gt;": ">", "&#91;": "[", "&#93;": "]", "&#124;": "|", "&amp;": "&"
}  # fmt: skip
_LEAF = re.compile(r" ([^\s()]+)\)")
_BRACKETS = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}


def unescape(token: str) -> str:
    """Return the word of a Moses token: without entities, and "-" for "@-@"."""
    for entity, character in _ENTITIES.items():
        token = token.replace(entity, character)
    return "-" if token == "@-@" else token


def to_leaf(word: str) -> str:
    """Return a word as a leaf of the Penn Treebank, where brackets, and round ones inside a word, have names."""
    return _BRACKETS.get(word) or word.replace("(", "-LRB-").replace(")", "-RRB-")


def check_leaves(tokens: Path, trees: Path) -> int:
    """Return the number of lines; raises DataError where the leaves of a tree, in lower case, are not its line's."""
    lines, brackets = ([text for _, text in read_text(path)] for path in (tokens, trees))
    if len(lines) != len(brackets):
        raise DataError(f"{trees}:{min(len(lines), len(brackets)) + 1}: {len(brackets)} trees for {len(lines)} lines")
    for number, (line, tree) in enumerate(zip(lines, brackets, strict=True), 1):
        leaves = _LEAF.findall(tree)
        if tree.count("(") != tree.count(")"):
            raise DataError(f"{trees}:{number}: unbalanced brackets")
        if [leaf.lower() for leaf in leaves] != line.lower().split():
            counts = f"{len(leaves)} leaves, {len(line.split())} tokens in {tokens}:{number}"
            raise DataError(f"{trees}:{number}: the leaves are not the tokens of the line ({counts})")
    return len(lines)
