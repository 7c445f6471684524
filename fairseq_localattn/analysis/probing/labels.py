"""Labels of five probing tasks from a constituency tree (Shi et al. 2016; Table 5 of Hao et al. 2019).

The main clause is found from the root: nodes with one child are descended; of coordinated clauses (two or more under a
node without a verb of its own) the first counts. Its verb chain goes from VP to VP and takes the first verb that stands
directly in each. Before it comes a verb that stands directly in the clause, as in questions ("Did you see it?"), and
a question's clause under its question word (SBARQ over SQ) is descended: without that, questions would have no verb.

- ``voice``: ``passive`` if in the chain a form of *be* is followed by a VBN, else ``active``; none without a verb.
- ``tense``: of the first finite verb, VBD ``past``, VBZ, VBP and MD ``non-past``; none without a finite verb.
- ``tss``: the labels of the main clause's children, without punctuation, joined by ``_``; none for a lone word. A
  sentence without a clause has the sequence below its topmost node that branches.
- ``spc``: for each word the label of the node above its part of speech.
- ``pos``: for each word its part of speech.

Trees are those of ``phrases.trees.read_tree``: labels without functions (``NP-SBJ`` is ``NP``), no empty elements.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence

from ...phrases.trees import Tree

SENTENCE_TASKS = ("voice", "tense", "tss")
WORD_TASKS = ("spc", "pos")
TASKS = SENTENCE_TASKS + WORD_TASKS
BALANCED = ("voice", "tense")  # on request; in text as it comes nine sentences of ten are active

KEPT_SEQUENCES = 19  # of tss: the most frequent ones in training; all others are one class more
OTHER = "other"

CLAUSES = frozenset({"S", "SINV", "SQ", "SBARQ"})
VERBS = frozenset({"VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "MD"})
TENSES = {"VBD": "past", "VBZ": "non-past", "VBP": "non-past", "MD": "non-past"}
# HYPH, NFP: of the Treebank's later guidelines; PU: of the Chinese Treebank.
PUNCTUATION = frozenset({",", ".", ":", "``", "''", "-LRB-", "-RRB-", "HYPH", "NFP", "PU"})
BE = frozenset({"be", "am", "is", "are", "was", "were", "been", "being", "'m", "'re", "'s"})
HAS_BEFORE = frozenset({"been", "got", "gotten", "had"})  # before these, 's is "has"


def _verb(node: Tree) -> Tree | None:
    """The first verb that stands directly in the node, or is it."""
    nodes = [node] if node.is_preterminal else node.children
    return next((child for child in nodes if child.is_preterminal and child.label in VERBS), None)


def _first(node: Tree, labels: frozenset[str]) -> Tree | None:
    return next((child for child in node.children if not child.is_preterminal and child.label in labels), None)


def main_clause(tree: Tree) -> Tree:
    """The node of the main clause, or the topmost branching node of a sentence without one; a lone word is itself."""
    node = tree
    while children := node.children:
        clauses = [child for child in children if child.label in CLAUSES]
        coordinated = len(clauses) > 1 and not _verb(node) and not _first(node, frozenset({"VP"}))
        if len(children) > 1 and not coordinated:
            break
        node = clauses[0] if coordinated else children[0]
    return node


def verb_chain(tree: Tree) -> list[Tree]:
    """The preterminals of the main clause's verbs, outermost first; empty where the sentence has no clause."""
    chain: list[Tree] = []
    clause = main_clause(tree)
    node: Tree | None = clause
    if not clause.is_preterminal and clause.label not in CLAUSES | {"VP"}:
        return chain
    while node is not None:
        verb = _verb(node)
        if verb is not None:
            chain.append(verb)
        follows = _first(node, frozenset({"VP"}))
        node = _first(node, frozenset({"SQ"})) if follows is None and not chain else follows
    return chain


def _is_be(verb: Tree, follower: str) -> bool:
    word = (verb.word or "").lower().replace("’", "'")
    return word in BE and not (word == "'s" and follower in HAS_BEFORE)


def voice(tree: Tree) -> str | None:
    """``passive``, ``active``, or None for a sentence without a verb chain."""
    chain = verb_chain(tree)
    pairs = zip(chain, chain[1:], strict=False)
    passive = any(two.label == "VBN" and _is_be(one, (two.word or "").lower()) for one, two in pairs)
    return ("passive" if passive else "active") if chain else None


def tense(tree: Tree) -> str | None:
    """``past``, ``non-past``, or None for a sentence whose verb chain has no finite verb."""
    tags = (verb.label for verb in verb_chain(tree))
    return next((TENSES[tag] for tag in tags if tag in TENSES), None)


def top_sequence(tree: Tree) -> str | None:
    """The labels under the main clause, as ``NP_VP``; None where there are none but punctuation."""
    labels = [child.label for child in main_clause(tree).children]
    return "_".join(label for label in labels if label not in PUNCTUATION) or None


def smallest_phrases(tree: Tree) -> list[str]:
    """For each word the label of its preterminal's parent; ``ROOT`` where the parent has no label or is none."""
    found: list[str] = []
    stack: list[tuple[Tree, str]] = [(tree, "ROOT")]  # no recursion: a tree may be deeper than Python's stack
    while stack:
        node, parent = stack.pop()
        if not node.is_preterminal:
            stack += [(child, node.label or "ROOT") for child in reversed(node.children)]
        else:
            found.append(parent)
    return found


def parts_of_speech(tree: Tree) -> list[str]:
    """For each word the label of its preterminal."""
    return [leaf.label for leaf in tree.preterminals()]


def labels_of(tree: Tree) -> dict[str, list[str]]:
    """Task → labels: none (the sentence is left out) or one of a task of sentences, one a word of a task of words."""
    sentence = {"voice": voice(tree), "tense": tense(tree), "tss": top_sequence(tree)}
    return {
        **{task: [] if label is None else [label] for task, label in sentence.items()},
        "spc": smallest_phrases(tree),
        "pos": parts_of_speech(tree),
    }


def balanced(labels: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """The labels of sentences, none or one each, of which each class keeps as many as the rarest class has.

    Which ones is random, but always the same for the same labels.
    """
    of_class: dict[str, list[int]] = {}
    for number, found in enumerate(labels):
        for label in found:
            of_class.setdefault(label, []).append(number)
    rarest = min(map(len, of_class.values()), default=0)
    draw = random.Random(1)
    kept = {number for label in sorted(of_class) for number in draw.sample(of_class[label], rarest)}
    return [found if number in kept else [] for number, found in enumerate(labels)]


def classes_of(task: str, training: Iterable[str]) -> list[str]:
    """The classes of a task in the order of their frequency in the training labels, then of the alphabet.

    Those of ``tss`` are the :data:`KEPT_SEQUENCES` most frequent and, last, :data:`OTHER`, where there are more.
    """
    counts = Counter(training)
    classes = sorted(counts, key=lambda label: (-counts[label], label))
    if task == "tss" and len(classes) > KEPT_SEQUENCES:
        return [*classes[:KEPT_SEQUENCES], OTHER]
    return classes
