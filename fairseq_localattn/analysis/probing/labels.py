"""Labels of five probing tasks from a constituency tree (Shi et al. 2016; Table 5 of Hao et al. 2019).

- ``voice``: ``passive`` if a form of *be* is followed by a VBN in the verb chain, else ``active``; none without a verb.
- ``tense``: ``past`` for VBD, ``non-past`` for VBZ, VBP and MD, by the chain's first finite verb; none without one.
- ``tss``, the top sequence: the labels of the main clause's children, without punctuation, joined by ``_``; none for a
  lone word. A sentence without a clause has the sequence below its topmost branching node.
- ``spc``, the smallest phrase: for each word the label of the node above its part of speech.
- ``pos``: for each word its part of speech.

The *main clause* is found from the root: down nodes with one child, and to the first of coordinated clauses (two or
more under a node without a verb of its own). The *verb chain* goes down the main clause from VP to VP and has the first
verb directly in each. It begins with a verb directly in the clause, as in questions ("Did you see it?"); where there is
neither verb nor VP, it continues in a question's inner clause (SQ in SBARQ).

Trees are those of :func:`phrases.trees.read_tree`: labels without functions (``NP`` for ``NP-SBJ``) and without empty
elements.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence

from ...phrases.trees import Tree

SENTENCE_TASKS = ("voice", "tense", "tss")
WORD_TASKS = ("spc", "pos")
TASKS = SENTENCE_TASKS + WORD_TASKS
BALANCED = ("voice", "tense")  # tasks for --balance; nine of ten sentences of a text are active

KEPT_SEQUENCES = 19  # classes of tss: the most frequent in training; all others are one more class
OTHER = "other"

CLAUSES = frozenset({"S", "SINV", "SQ", "SBARQ"})
VERBS = frozenset({"VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "MD"})
TENSES = {"VBD": "past", "VBZ": "non-past", "VBP": "non-past", "MD": "non-past"}
# HYPH and NFP are of the Treebank's later guidelines, PU of the Chinese Treebank.
PUNCTUATION = frozenset({",", ".", ":", "``", "''", "-LRB-", "-RRB-", "HYPH", "NFP", "PU"})
BE = frozenset({"be", "am", "is", "are", "was", "were", "been", "being", "'m", "'re", "'s"})
AFTER_HAS = frozenset({"been", "got", "gotten", "had"})  # before these words, 's is "has"


def _verb(node: Tree) -> Tree | None:
    """Return the first verb directly in the node, or the node itself if it is a verb."""
    nodes = [node] if node.is_preterminal else node.children
    return next((child for child in nodes if child.is_preterminal and child.label in VERBS), None)


def _first(node: Tree, labels: frozenset[str]) -> Tree | None:
    """Return the node's first constituent with one of the labels."""
    return next((child for child in node.children if not child.is_preterminal and child.label in labels), None)


def main_clause(tree: Tree) -> Tree:
    """Return the main clause; without one, the topmost branching node, or the lone word of a sentence."""
    node = tree
    while children := node.children:
        clauses = [child for child in children if child.label in CLAUSES]
        coordinated = len(clauses) > 1 and not _verb(node) and not _first(node, frozenset({"VP"}))
        if len(children) > 1 and not coordinated:
            break
        node = clauses[0] if coordinated else children[0]
    return node


def verb_chain(tree: Tree) -> list[Tree]:
    """Return the preterminals of the verb chain, outermost first; none without a clause, VP or verb."""
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
    """Return whether a verb is a form of *be*, given the next verb."""
    word = (verb.word or "").lower().replace("’", "'")
    return word in BE and not (word == "'s" and follower in AFTER_HAS)


def voice(tree: Tree) -> str | None:
    """Return ``passive``, ``active``, or None for a sentence without a verb chain."""
    chain = verb_chain(tree)
    pairs = zip(chain, chain[1:], strict=False)
    passive = any(two.label == "VBN" and _is_be(one, (two.word or "").lower()) for one, two in pairs)
    return ("passive" if passive else "active") if chain else None


def tense(tree: Tree) -> str | None:
    """Return ``past``, ``non-past``, or None for a sentence whose verb chain has no finite verb."""
    tags = (verb.label for verb in verb_chain(tree))
    return next((TENSES[tag] for tag in tags if tag in TENSES), None)


def top_sequence(tree: Tree) -> str | None:
    """Return the labels under the main clause, such as ``NP_VP``; None where there is only punctuation."""
    labels = [child.label for child in main_clause(tree).children]
    return "_".join(label for label in labels if label not in PUNCTUATION) or None


def smallest_phrases(tree: Tree) -> list[str]:
    """Return for each word the label of its preterminal's parent; ``ROOT`` without a parent or its label."""
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
    """Return for each word the label of its preterminal."""
    return [leaf.label for leaf in tree.preterminals()]


def labels_of(tree: Tree) -> dict[str, list[str]]:
    """Return task → labels: one for each word, or one for the sentence, or none if the task leaves the sentence out."""
    sentence = {"voice": voice(tree), "tense": tense(tree), "tss": top_sequence(tree)}
    return {
        **{task: [] if label is None else [label] for task, label in sentence.items()},
        "spc": smallest_phrases(tree),
        "pos": parts_of_speech(tree),
    }


def balanced(labels: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Return the labels of sentences, none or one each, with all classes reduced to the size of the rarest.

    The choice is random, but the same for the same labels.
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
    """Return the classes of a task, ordered by their frequency in the training labels, then by name.

    ``tss`` has the :data:`KEPT_SEQUENCES` most frequent classes and, if there are more, :data:`OTHER` at the end.
    """
    counts = Counter(training)
    classes = sorted(counts, key=lambda label: (-counts[label], label))
    if task == "tss" and len(classes) > KEPT_SEQUENCES:
        return [*classes[:KEPT_SEQUENCES], OTHER]
    return classes
