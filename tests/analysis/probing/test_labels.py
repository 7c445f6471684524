"""Labels of the probing tasks (Shi et al. 2016): from trees, and their classes."""

from __future__ import annotations

import pytest

from fairseq_localattn.analysis.probing.data import number_labels
from fairseq_localattn.analysis.probing.labels import balanced, classes_of, labels_of
from fairseq_localattn.phrases.trees import read_tree

# What is wanted of each tree: voice, tense, tss; "" is none.
SENTENCES = {
    "simple past": ("(ROOT (S (NP (NNP Bush)) (VP (VBD held) (NP (NNS talks))) (. .)))", "active", "past", "NP_VP"),
    "passive": (
        "(ROOT (S (NP (PRP It)) (VP (VBD was) (VP (VBN held) (PP (IN in) (NP (NNP May))))) (. .)))",
        "passive", "past", "NP_VP",
    ),
    "perfect passive": (
        "(S (NP (PRP It)) (VP (VBZ has) (VP (VBN been) (VP (VBN held)))))", "passive", "non-past", "NP_VP",
    ),
    "short for is": ("(S (NP (PRP It)) (VP (VBZ 's) (VP (VBN made))))", "passive", "non-past", "NP_VP"),
    "short for has": ("(S (NP (PRP It)) (VP (VBZ ’s) (VP (VBN been) (NP (NN May)))))", "active", "non-past", "NP_VP"),
    "modal": ("(S (NP (PRP It)) (VP (MD will) (VP (VB be) (VP (VBN held)))))", "passive", "non-past", "NP_VP"),
    "not the main clause's passive": (
        "(S (NP (PRP He)) (VP (VBZ says) (SBAR (S (NP (PRP it)) (VP (VBD was) (VP (VBN held)))))))",
        "active", "non-past", "NP_VP",
    ),
    "first of coordinated clauses": (
        "(ROOT (S (S (NP (PRP He)) (VP (VBD came))) (, ,) (CC and) (S (ADVP (RB now)) (NP (PRP he)) (VP (VBZ goes)))))",
        "active", "past", "NP_VP",
    ),
    "coordination goes down again": (
        "(ROOT (S (S (S (NP (PRP a)) (VP (VBD b)))) (CC or) (S (VP (VBZ c)))))", "active", "past", "NP_VP",
    ),
    "coordinated verb phrases": (
        "(S (NP (PRP He)) (VP (VP (VBD was) (VP (VBN seen))) (CC and) (VP (VBZ goes))))", "passive", "past", "NP_VP",
    ),
    "a subordinate clause in front is not coordinated": (
        "(S (S (VP (VBG Seeing) (NP (PRP him)))) (, ,) (S (VP (VBN tired))) (NP (PRP she)) (VP (VBD left)) (. .))",
        "active", "past", "S_S_NP_VP",
    ),
    "unary chain below the root": ("(ROOT (S (S (VP (VB Go) (ADVP (RB away))))))", "active", "", "VB_ADVP"),
    "imperative is not finite": ("(ROOT (S (VP (VB Go)) (. !)))", "active", "", "VP"),
    "question": (
        "(ROOT (SQ (VBD Did) (NP (PRP he)) (VP (VB see) (NP (PRP it))) (. ?)))", "active", "past", "VBD_NP_VP",
    ),
    "question word": (
        "(ROOT (SBARQ (WHADVP (WRB Why)) (SQ (VBZ is) (NP (PRP it)) (VP (VBN held))) (. ?)))",
        "passive", "non-past", "WHADVP_SQ",
    ),
    "no clause": ("(ROOT (NP (NP (DT the) (NN man)) (VP (VBN seen) (ADVP (RB here)))))", "", "", "NP_VP"),
    "one word": ("(ROOT (NP (NN English)))", "", "", ""),
    "punctuation is left out": ("(ROOT (NP (-LRB- -LRB-) (NN Song) (. .) (-RRB- -RRB-)))", "", "", "NN"),
}  # fmt: skip


@pytest.mark.parametrize("name", SENTENCES)
def test_labels_of_sentences(name):
    text, *wanted = SENTENCES[name]
    found = labels_of(read_tree(text))
    assert [found[task] for task in ("voice", "tense", "tss")] == [[label] if label else [] for label in wanted]


def test_labels_of_words():
    tree = read_tree(
        "(S (NP-SBJ (NNP Bush)) (VP (VBD held) (NP (NP (DT a) (NN talk)) (PP (IN with) (NP (NNP Sharon))))) (. .))"
    )
    found = labels_of(tree)
    assert found["spc"] == ["NP", "VP", "NP", "NP", "PP", "NP", "S"]
    assert found["pos"] == ["NNP", "VBD", "DT", "NN", "IN", "NNP", "."]
    assert labels_of(read_tree("((NN word))"))["spc"] == ["ROOT"]
    empty = labels_of(read_tree("(S (NP (-NONE- *)) (VP (VB Go) (PRT (RP on))))"))
    assert empty["pos"] == ["VB", "RP"] and empty["spc"] == ["VP", "PRT"]


def test_classes_of_sequences_are_nineteen_and_other():
    training = [f"X{n:02}" for n in range(25) for _ in range(30 - n)]
    classes = classes_of("tss", training)
    assert classes == [f"X{n:02}" for n in range(19)] + ["other"]
    labels = number_labels([["X00"], [], ["X24"], ["never seen"]], classes)
    assert labels.numbers == [0, 2, 3] and labels.flat.tolist() == [0, 19, 19] and labels.left_out == 1
    assert classes_of("tss", ["b", "b", "c", "a"]) == ["b", "a", "c"]
    assert len(classes_of("pos", training)) == 25
    unseen = number_labels([["a", "z"]], classes_of("pos", ["a", "b"]))
    assert unseen.flat.tolist() == [0, 2], "a label that training has not is a class that is never predicted"


def test_balanced_keeps_as_many_of_each_class():
    labels = [["active"], [], ["passive"], ["active"], ["active"], ["passive"], ["active"]]
    kept = balanced(labels)
    assert [found for found in kept if found].count(["active"]) == 2 and kept == balanced(labels)
    assert kept[1] == [] and kept[2] == kept[5] == ["passive"]
    assert all(found in ([], labels[number]) for number, found in enumerate(kept))
