"""Constituency trees and their phrases: the paper's Figure 1, the rules of projection, and an independent reference."""

from __future__ import annotations

import gzip
import re
import sys
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_localattn.phrases.trees import Span, TreeError, partition, read_lines, read_tree, strip_function
from support.paths import SHARED
from support.trees import FIGURE_1

GUM = SHARED / "constituency"


def phrases(tree: str, levels: int) -> list[list[str]]:
    """Each level's phrases as "TAG: words"."""
    node = read_tree(tree)
    found = []
    for spans in partition(node, levels):
        words = iter(node.words())
        found.append([f"{span.tag}: {' '.join(islice(words, span.words))}" for span in spans])
        assert next(words, None) is None
    return found


def test_figure_1_of_the_paper():
    assert phrases(FIGURE_1, 2) == [
        ["NP: Bush", "VP: held a talk with Sharon"],
        ["NP: Bush", "VBD: held", "NP: a talk", "PP: with Sharon"],
    ]


def test_functions_and_indices_go_and_brackets_stay():
    stripped = {"NP-SBJ": "NP", "NP=2": "NP", "NP-SBJ-1": "NP", "S-NOM-SBJ": "S"}
    stripped |= {label: label for label in ("-LRB-", "-RRB-", "-NONE-", "PRP$", "$", ",", ":", "``", "", "-")}
    assert {label: strip_function(label) for label in stripped} == stripped
    assert phrases("(S (NP-SBJ=2 (DT a) (NN b)) (PRN (-LRB- -LRB-) (CD 1) (-RRB- -RRB-)))", 2) == [
        ["NP: a b", "PRN: -LRB- 1 -RRB-"],
        ["DT: a", "NN: b", "-LRB-: -LRB-", "CD: 1", "-RRB-: -RRB-"],
    ]


def test_empty_elements_are_dropped_with_what_holds_nothing_else():
    tree = "(S (NP-SBJ (-NONE- *)) (VP (TO to) (VP (VB go) (SBAR (-NONE- 0) (S (-NONE- *T*-1))))) (. .))"
    assert read_tree(tree).words() == ["to", "go", "."]
    assert phrases(tree, 2) == [["VP: to go", ".: ."], ["TO: to", "VP: go", ".: ."]]
    assert phrases("(S (-NONE- *) (VP (VB go) (RB on)))", 1) == [["VB: go", "RB: on"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(S (NP (NN a))", "unbalanced brackets: 1 not closed"),
        ("(S (NN a)))", "unbalanced brackets: one closes that was not opened"),
        ("(NN a) (NN b)", "unbalanced brackets: more follows after the tree"),
        ("(NN a) b", "text after the tree: b"),
        ("a b", "a tree begins with a bracket, found a"),
        ("(S (NP) (VB go))", "an empty node: (NP)"),
        ("()", "an empty node: ()"),
        ("(S (NN a b))", "a node with two words or more: (NN a b"),
        ("(S word (VB go))", "a node with the word word and subtrees: (S"),
        ("(S (NP the) cat)", "a node with the word cat and subtrees: (S"),
        ("(S (NP (-NONE- *)))", "a tree without words"),
        (" \t", "no tree in a blank text"),
    ],
)
def test_what_is_no_tree_is_refused(text, message):
    with pytest.raises(TreeError, match=re.escape(message)):
        read_tree(text)


def test_a_file_of_trees_is_read_by_lines_with_errors_of_file_and_line(tmp_path):
    path = tmp_path / "x.tree"
    path.write_bytes(b"\xef\xbb\xbf(NN a)\n\n(NN b\n")  # with a byte-order mark
    assert list(read_lines(path)) == [(1, "(NN a)"), (2, ""), (3, "(NN b")]
    path.write_bytes(b"(NN a)\n(NN \xff)\n")
    with pytest.raises(TreeError, match=rf"^{re.escape(str(path))}:2: invalid UTF-8 at byte 5"):
        list(read_lines(path))
    with pytest.raises(TreeError, match="missing.tree: cannot be read: No such file"):
        list(read_lines(tmp_path / "missing.tree"))


def test_deep_trees_need_no_recursion():
    depth = 4096
    branching = "(X (A a) " * depth + "(B b)" + ")" * depth
    assert depth > sys.getrecursionlimit()
    assert phrases(branching, 2)[1] == ["A: a", "A: a", "X:" + " a" * (depth - 2) + " b"]
    assert partition(read_tree("(X " * depth + "(S (A a) (B b))" + ")" * depth), 1) == [[Span(1, "A"), Span(1, "B")]]
    assert partition(read_tree(branching), 40)[-1] == [Span(1, "A")] * 40 + [Span(depth - 39, "X")]


Node = tuple[str, "str | list[Node]"]


def parse(text: str) -> Node:
    """A bracketing without empty elements, by recursive descent."""
    tokens = re.findall(r"\(|\)|[^\s()]+", text)

    def node(at: int) -> tuple[Node, int]:
        label, at = ("", at + 1) if tokens[at + 1] in "()" else (tokens[at + 1], at + 2)
        if not label.startswith("-"):
            label = re.split("[-=]", label)[0]
        if tokens[at] != "(":
            return (label, tokens[at]), at + 2
        children = []
        while tokens[at] == "(":
            child, at = node(at)
            children.append(child)
        return (label, children), at + 1

    return node(0)[0]


def collapse(node: Node) -> Node:
    """A unary chain as one node: its topmost label, and what is below its end."""
    label, below = node
    while not isinstance(below, str) and len(below) == 1:
        below = below[0][1]
    return label, below


def leaves(node: Node) -> int:
    return 1 if isinstance(node[1], str) else sum(map(leaves, node[1]))


def at_depth(node: Node, depth: int) -> list[Span]:
    """The nodes at a depth below a node, and the words that end higher up."""
    label, below = collapse(node)
    if depth == 0 or isinstance(below, str):
        return [Span(leaves(node), label)]
    return [span for child in below for span in at_depth(child, depth - 1)]


def reference(text: str, levels: int) -> list[list[Span]]:
    top = parse(text)
    while not isinstance(top[1], str) and len(top[1]) == 1:
        top = top[1][0]
    return [at_depth(top, level) for level in range(1, levels + 1)]


words = st.builds("({} {})".format, st.sampled_from(["NN", "VB", "-LRB-", ",", "PRP$"]), st.sampled_from("abc"))
nodes = st.recursive(
    words,
    lambda inner: st.builds(
        lambda label, children: f"({label} {' '.join(children)})",
        st.sampled_from(["NP", "VP-SBJ", "S=1", "", "ROOT"]),
        st.lists(inner, min_size=1, max_size=4),
    ),
    max_leaves=25,
)


@settings(max_examples=200, deadline=None)
@given(nodes, st.integers(1, 6))
def test_partition_of_random_trees_is_the_reference(text, levels):
    assert partition(read_tree(text), levels) == reference(text, levels)


@pytest.mark.skipif(not GUM.is_dir(), reason="no ../shared/data/constituency here")
def test_partition_of_gum_is_the_reference():
    with gzip.open(GUM / "gum.test.mrg.gz", "rt", encoding="utf-8") as stream:
        lines = [line for line in stream if line.strip()]
    assert len(lines) == 1464
    for line in lines:
        assert partition(read_tree(line), 3) == reference(line, 3)
