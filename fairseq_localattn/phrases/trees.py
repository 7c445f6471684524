"""Constituency trees in bracketed form, and their partition into phrases (Hao et al., EMNLP 2019, section 3.2).

A bracketing is ``(LABEL TREE …)`` or ``(PART-OF-SPEECH WORD)``, brackets in words as -LRB- and -RRB-. A file of trees
has one a line beside the lines of a text; an empty line there is a sentence without a tree.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

EMPTY_ELEMENT = "-NONE-"
# A no-break space is not where a word ends.
_TOKEN = re.compile(r"[()]|[^ \t\r\n()]+")
_FUNCTION = re.compile(r"(?<=[^-=])[-=].*")


class TreeError(ValueError):
    """What is wrong with a tree, or with a tree and its sentence, in one line."""


@dataclass(slots=True)
class Tree:
    """A constituent with its children, or a preterminal: a part of speech with one word and no children."""

    label: str
    children: list[Tree]
    word: str | None = None

    @property
    def is_preterminal(self) -> bool:
        """Whether this is a part of speech with its word."""
        return self.word is not None

    def preterminals(self) -> list[Tree]:
        """The nodes that carry a word, left to right."""
        found, waiting = [], [self]
        while waiting:
            node = waiting.pop()
            if node.word is not None:
                found.append(node)
            else:
                waiting.extend(reversed(node.children))
        return found

    def words(self) -> list[str]:
        """The words, left to right, as the bracketing writes them."""
        return [leaf.word for leaf in self.preterminals() if leaf.word is not None]


class Span(NamedTuple):
    """A phrase of a partition: its number of words, and its label or part of speech; "" is no tag."""

    words: int
    tag: str


@functools.lru_cache(maxsize=4096)
def strip_function(label: str) -> str:
    """Return a label without function and index: NP-SBJ and NP=2 are NP; -LRB-, -RRB- and -NONE- stay."""
    return label if label[:1] in ("-", "=") else _FUNCTION.sub("", label, count=1)


def read_tree(text: str) -> Tree:
    """Return the tree of one bracketing, labels without functions (`strip_function`), empty elements dropped.

    A label may be empty: ``((S …))``. Nesting may be of any depth. Raises TreeError for unbalanced brackets, a node
    without word and children, one with both or with two words, a blank text, text after the tree, and a tree that has
    no word.
    """
    tokens = _TOKEN.findall(text)
    root = Tree("", [])  # holds the tree
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
    """What is wrong with a token outside of all brackets."""
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
    """Drop -NONE- and the constituents of nothing else, in place. Raises TreeError where nothing remains."""
    nodes = [tree]
    for node in nodes:  # grows: parents before their children
        nodes.extend(node.children)
    for node in reversed(nodes):
        node.children = [kept for kept in node.children if kept.children or kept.word is not None]
        if node.label == EMPTY_ELEMENT:
            node.word = None
    if tree.word is None and not tree.children:
        raise TreeError("a tree without words, of nothing but empty elements")
    return tree


def partition(tree: Tree, levels: int = 3) -> list[list[Span]]:
    """Return the phrases of each level, 1 to `levels`, top down: complete, contiguous, each refining the one before.

    ROOT and any unary chain above the first branching node are stripped. Level 1 is that node's children; each next
    level replaces every constituent of the one before by its children and keeps the words, so that a shallow tree
    repeats its last level. A unary chain below is one node, which has the chain's topmost label; one that ends in a
    word, as in (NP (NNP Bush)), is therefore a phrase NP that is never expanded: it stays NP on every level, and the
    part of speech is the tag only of a word that stands directly under a branching node (the paper's Figure 1 gives
    "Bush" on both levels, and a branch that ends higher up keeps its deepest node). A tree that does not branch is
    stripped down to its word, which is one phrase with its part of speech.

    Raises ValueError for `levels` < 1, and TreeError for a node without word and children.
    """
    if levels < 1:
        raise ValueError(f"levels must be 1 or more, not {levels}")
    top = _branching(tree)
    frontier = [(top.label, top)]
    result = []
    for _ in range(levels):
        if any(node.word is None for _, node in frontier):
            frontier = [part for label, node in frontier for part in _expand(label, node)]
        result.append([Span(1 if node.word is not None else _count(node), label) for label, node in frontier])
    return result


def _branching(node: Tree) -> Tree:
    """The first node that branches or carries a word, down a unary chain."""
    while len(node.children) == 1:
        node = node.children[0]
    if node.word is None and not node.children:
        raise TreeError(f"an empty node: ({node.label})")
    return node


def _expand(label: str, node: Tree) -> list[tuple[str, Tree]]:
    """(topmost label, node at the end of the unary chain) of each child; of a word, itself."""
    return [(label, node)] if node.word is not None else [(child.label, _branching(child)) for child in node.children]


def _count(node: Tree) -> int:
    """Words under a node."""
    words, waiting = 0, list(node.children)
    while waiting:
        below = waiting.pop()
        words += below.word is not None
        waiting.extend(below.children)
    return words


def one_word_phrases(words: int, levels: int) -> list[list[Span]]:
    """Return the partition of a sentence without a tree: on each level every word on its own, without tag."""
    return [[Span(1, "")] * words for _ in range(levels)]


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, text without newline) of each line of a UTF-8 file.

    Raises TreeError for a file that cannot be read, and for invalid UTF-8, with file and line.
    """
    number = 0
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, 1):  # noqa: B007  # told by the error below
                yield number, line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise TreeError(f"{path}:{number}: invalid UTF-8 at byte {error.start + 1} of the line") from None
    except OSError as error:
        raise TreeError(f"{path}: cannot be read: {error.strerror}") from None


def read_trees(path: Path) -> Iterator[tuple[int, Tree | None]]:
    """Yield (line number from 1, tree) of a file of trees; None is a sentence without a tree.

    Raises TreeError with file and line.
    """
    for number, line in read_lines(path):
        try:
            tree = read_tree(line) if line.strip() else None
        except TreeError as error:
            raise TreeError(f"{path}:{number}: {error}") from None
        yield number, tree
