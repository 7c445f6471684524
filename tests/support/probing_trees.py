"""Trees for the tests of probing."""

from __future__ import annotations

import random


def make_trees(count: int, seed: int) -> list[str]:
    """Return trees of sentences whose tense, voice and top sequence can be learned from their words."""
    draw = random.Random(seed)
    trees = []
    for _ in range(count):
        subject = draw.choice(["(NP-SBJ (PRP it))", "(NP-SBJ (DT the) (NN house))", "(NP (DT the) (NN mountain))"])
        front = draw.choice(["", "(ADVP (RB now)) ", "(PP (IN in) (NP (NNP May))) (, ,) "])
        verb = draw.choice(
            ["(VP (VBD was) (VP (VBN seen)))", "(VP (VBZ is) (VP (VBN seen)))", "(VP (VBD fell))", "(VP (VBZ falls))"]
        )
        trees.append(f"(ROOT (S {front}{subject} {verb} (. .)))")
    return [*trees, "(ROOT (NP (NN mountain)))", "(ROOT (S (VP (VB Go)) (`` \u201c) (NP (NN A&B)) ('' \u201d)))"]
