"""Constituency trees in bracketed form, and their partition into phrases (Hao et al., EMNLP 2019, section 3.2).

A bracketing is ``(LABEL TREE …)`` or ``(PART-OF-SPEECH WORD)``, with brackets in words as -LRB- and -RRB-. A file of
trees has one tree a line, in the order of the lines of a text; an empty line is a sentence without a tree.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

EMPTY_ELEMENT = "-NONE-"
# A no-break space belongs to a word.
_TOKEN = re.compile(r"[()]|[^ \t\r\n()]+")
_FUNCTION = re.compile(r"(?<=[^-=])[-=].*")


class TreeError(ValueError):
    """An invalid tree, or a tree that does not fit its sentence; the message is one line."""


@dataclass(slots=True)
class Tree:
    """A constituent with its children, or a preterminal: a part of speech with one word and no children."""

    label: str
    children: list[Tree]
    word: str | None = None

    @property
    def is_preterminal(self) -> bool:
        """Whether this node is a part of speech with its word."""
        return self.word is not None

    def preterminals(self) -> list[Tree]:
        """Return the nodes with a word, left to right."""
        found, waiting = [], [self]
        while waiting:
            node = waiting.pop()
            if node.word is not None:
                found.append(node)
            else:
                waiting.extend(reversed(node.children))
        return found

    def words(self) -> list[str]:
        """Return the words, left to right, as written in the bracketing."""
        return [leaf.word for leaf in self.preterminals() if leaf.word is not None]


class Span(NamedTuple):
    """A phrase of a partition: its number of words, and its tag, a label or part of speech; "" is no tag."""

    words: int
    tag: str


@functools.lru_cache(maxsize=4096)
def strip_function(label: str) -> str:
    """Return a label without function and index: NP for NP-SBJ and NP=2; -LRB-, -RRB- and -NONE- are unchanged."""
    return label if label[:1] in ("-", "=") else _FUNCTION.sub("", label, count=1)


def read_tree(text: str) -> Tree:
    """Return the tree of one bracketing, without functions of labels (:func:`strip_function`) and empty elements.

    A label may be empty, as in ``((S …))``. Nesting may be of any depth. Raises TreeError for unbalanced brackets, a
    node without word and children, a node with both or with two words, a blank text, text after the tree, and a tree
    without words.
    """
    tokens = _TOKEN.findall(text)
    root = Tree("", [])  # parent of the tree
    above: list[Tree] = []
    node, last = root, len(tokens)
    position = 0
    while position < last:
        token = tokens[position]
        position += 1
        if token == "(":
            if node is root and root.children:
                raise TreeError("unbalanced brackets: more follows after the tree")
            above.append(node)
            node = Tree("", [])
            if position < last and tokens[position] not in "()":
                node.label = strip_function(tokens[position])
                position += 1
        elif node is root:
            raise TreeError(_stray(token, bool(root.children)))
        elif token == ")":
            _check(node)
            parent = above.pop()
            parent.children.append(node)
            node = parent
        elif node.word is not None:
            raise TreeError(f"a node with two words or more: ({node.label} {node.word} {token} …")
        else:
            node.word = token
    if node is not root:
        raise TreeError(f"unbalanced brackets: {len(above)} not closed")
    if not root.children:
        raise TreeError("no tree in a blank text")
    return _without_empty_elements(root.children[0]) if EMPTY_ELEMENT in text else root.children[0]


def _stray(token: str, after: bool) -> str:
    """Return the error message for a token outside of all brackets."""
    if token == ")":
        return "unbalanced brackets: one closes that was not opened"
    return f"text after the tree: {token}" if after else f"a tree begins with a bracket, found {token}"


def _check(node: Tree) -> None:
    """Raise TreeError for a closed node that is neither a preterminal nor a constituent."""
    if node.word is None and not node.children:
        raise TreeError(f"an empty node: ({node.label})")
    if node.word is not None and node.children:
        raise TreeError(f"a node with the word {node.word} and subtrees: ({node.label} …")


def _without_empty_elements(tree: Tree) -> Tree:
    """Remove -NONE- and constituents without other words, in place. Raises TreeError where no word remains."""
    nodes = [tree]
    for node in nodes:  # grows while it is read: parents come before their children
        nodes.extend(node.children)
    for node in reversed(nodes):
        node.children = [kept for kept in node.children if kept.children or kept.word is not None]
        if node.label == EMPTY_ELEMENT:
            node.word = None
    if tree.word is None and not tree.children:
        raise TreeError("a tree without words, of nothing but empty elements")
    return tree


def partition(tree: Tree, levels: int = 3) -> list[list[Span]]:
    """Return the phrases of each level, from 1 to ``levels``; each level covers all words and refines the one before.

    - ROOT and any unary chain above the first branching node are left out. Level 1 has the children of that node.
    - Each further level replaces every constituent by its children and keeps words, so that a shallow tree repeats its
      last level.
    - A unary chain below the first branching node is one node with the topmost label. One that ends in a word, as in
      (NP (NNP Bush)), is a phrase NP on every level, as "Bush" is in the paper's Figure 1; the part of speech is the
      tag only of words directly under a branching node.
    - A tree that does not branch is one phrase: its word, with the part of speech as its tag.

    Raises ValueError for ``levels`` < 1, and TreeError for a node without word and children.
    """
    if levels < 1:
        raise ValueError(f"levels must be 1 or more, not {levels}")
    top = _branching(tree)
    frontier = [(top.label, top)]
    result = []
    for _ in range(levels):
        if any(node.word is None for _, node in frontier):
            frontier = [part for label, node in frontier for part in _expand(label, node)]
        result.append([Span(len(node.preterminals()), label) for label, node in frontier])
    return result


def _branching(node: Tree) -> Tree:
    """Return the first node down a unary chain that branches or has a word."""
    while len(node.children) == 1:
        node = node.children[0]
    if node.word is None and not node.children:
        raise TreeError(f"an empty node: ({node.label})")
    return node


def _expand(label: str, node: Tree) -> list[tuple[str, Tree]]:
    """Return (topmost label, last node) of each child's unary chain; a word is returned itself."""
    return [(label, node)] if node.word is not None else [(child.label, _branching(child)) for child in node.children]


def one_word_phrases(words: int, levels: int) -> list[list[Span]]:
    """Return the partition of a sentence without a tree: on each level, every word is a phrase without a tag."""
    return [[Span(1, "")] * words for _ in range(levels)]


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, text without newline) of each line of a UTF-8 file, without a byte-order mark.

    Raises TreeError, with file and line, for a file that cannot be read and for invalid UTF-8.
    """
    number = 0
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, 1):  # noqa: B007  # for the error message
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise TreeError(f"{path}:{number}: invalid UTF-8 at byte {error.start + 1} of the line") from None
    except OSError as error:
        raise TreeError(f"{path}: cannot be read: {error.strerror}") from None
