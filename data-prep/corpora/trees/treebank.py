"""Treebanks for training a parser: reading, cleaning, the text for a tagger, and scores."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from stanza.models.constituency import tree_reader
from stanza.models.constituency.parse_tree import Tree

from corpora.errors import DataError
from corpora.text.lines import read_lines

ROOT = "ROOT"
PUNCTUATION = {",", ".", ":", "``", "''"}  # tags that COLLINS.prm of evalb leaves out
_SAME = {"PRT": "ADVP"}  # labels that COLLINS.prm takes as equal


def read_treebank(path: Path) -> list[Tree]:
    """Return the trees of a file of bracketings, plain or .gz, under one root each.

    Function labels (`NP-SBJ` → `NP`) and empty elements (`-NONE-`) are removed; blank lines are skipped.
    Raises DataError with the file, and the line of the first tree that cannot be read.
    """
    text = "\n".join(line for _, line in read_lines(path, open_end=True))
    try:
        trees = [_clean(path, n, tree) for n, tree in enumerate(tree_reader.read_trees(text, use_tqdm=False), 1)]
    except ValueError as error:
        raise DataError(f"{path}:{getattr(error, 'line_num', 0) + 1}: {error}") from None
    except RecursionError:
        raise DataError(f"{path}: a tree of more than {sys.getrecursionlimit()} levels; remove it") from None
    if not trees:
        raise DataError(f"{path}: no tree in it; give bracketings such as (ROOT (NP (DT The) (NN end)))")
    return trees


def _clean(path: Path, number: int, tree: Tree) -> Tree:
    kept = tree.prune_none()
    if kept is None:
        raise DataError(f"{path}: tree {number} has no words, but empty elements alone; remove it")
    kept = kept.simplify_labels()
    return kept if kept.label == ROOT else Tree(ROOT, [kept])


def to_conllu(trees: Iterable[Tree]) -> Iterator[str]:
    """Yield the lines of CoNLL-U with the words and their tags (as UPOS and XPOS); heads have no meaning."""
    for tree in trees:
        for number, node in enumerate(tree.yield_preterminals(), 1):
            tag = node.label
            yield f"{number}\t{node.children[0].label}\t_\t{tag}\t{tag}\t_\t{number - 1}\tdep\t_\t_"
        yield ""


def brackets(tree: Tree, tags: Sequence[str]) -> Counter[tuple[str, int, int]]:
    """Return the labelled spans of the constituents as evalb counts them by COLLINS.prm.

    tags: of the words, for finding punctuation. Root, tags and punctuation are not counted, and PRT is counted as ADVP.
    Spans are in words without punctuation.
    """
    found: Counter[tuple[str, int, int]] = Counter()
    position = 0
    words = iter(tags)
    stack: list[tuple[Tree, int | None]] = [(tree, None)]
    while stack:
        node, start = stack.pop()
        if start is not None:
            if position > start:
                found[_SAME.get(node.label, node.label), start, position] += 1
        elif node.is_preterminal():
            position += next(words) not in PUNCTUATION
        else:
            if node.label != ROOT:
                stack.append((node, position))
            stack.extend((child, None) for child in reversed(node.children))
    return found


def bracket_f1(gold: Sequence[Tree], predicted: Sequence[Tree]) -> float:
    """Return F1 of the labelled brackets of a whole treebank, from 0 to 1; gold tags mark punctuation."""
    matched = total = 0
    for one, other in zip(gold, predicted, strict=True):
        tags = [node.label for node in one.yield_preterminals()]
        expected, found = brackets(one, tags), brackets(other, tags)
        matched += (expected & found).total()
        total += expected.total() + found.total()
    return 2 * matched / total if total else 0.0


def tag_accuracy(gold: Sequence[Tree], predicted: Sequence[Tree]) -> float:
    """Return the share of the words with the gold tag, from 0 to 1."""
    pairs = [
        (one.label, other.label)
        for trees in zip(gold, predicted, strict=True)
        for one, other in zip(*(tree.yield_preterminals() for tree in trees), strict=True)
    ]
    return sum(one == other for one, other in pairs) / len(pairs)
