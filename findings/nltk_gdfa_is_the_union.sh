#!/usr/bin/env bash
# Word alignments of two directions, made one by NLTK's grow_diag_final_and.
#
# Guess: the result is that of Moses (Koehn et al. 2005). It begins with what both directions have, grows to neighbours,
#        and ends with links whose two words have none yet.
# So:    the result is always the union, every link of either direction. The function looks for a word's number among
#        the keys "e" and "f" of a dictionary, not in the sets behind them. So each word counts as unaligned.
# In:    nltk 3.10.4, nltk/translate/gdfa.py, final_and, and grow_diag with the same condition
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install nltk==3.10.4

python - <<'PYTHON' | seen "forward, backward   0-0 1-1 2-2 3-3, 0-0 1-1 2-2 3-0
by the definition   0-0 1-1 2-2 3-3
NLTK                0-0 1-1 2-2 3-0 3-3
of 1000 random pairs of alignments NLTK gives the union 1000 times, the definition 38 times"
import random

from nltk.translate import grow_diag_final_and


def by_definition(forward, backward):
    links, union = forward & backward, forward | backward

    def has_link(link):
        return [link[side] in {each[side] for each in links} for side in (0, 1)]

    before = None
    while before != len(links):
        before = len(links)
        for i, j in sorted(links):
            for link in sorted(union - links):
                if max(abs(link[0] - i), abs(link[1] - j)) == 1 and not all(has_link(link)):
                    links.add(link)
    for link in sorted(forward) + sorted(backward):
        links |= set() if any(has_link(link)) else {link}
    return links


def text(links):
    return " ".join(f"{i}-{j}" for i, j in sorted(links))


def nltk_of(forward, backward):
    return set(grow_diag_final_and(8, 8, text(forward), text(backward)))


forward, backward = {(0, 0), (1, 1), (2, 2), (3, 3)}, {(0, 0), (1, 1), (2, 2), (3, 0)}
print(f"forward, backward   {text(forward)}, {text(backward)}")
print(f"by the definition   {text(by_definition(forward, backward))}")
print(f"NLTK                {text(nltk_of(forward, backward))}")

random.seed(1)
counts = [0, 0]
for _ in range(1000):  # each word is aligned to the one at its place, or near to it
    near = [[min(7, max(0, i + random.choice((-2, -1, 0, 0, 0, 1, 2)))) for i in range(8)] for _ in range(2)]
    forward, backward = set(enumerate(near[0])), {(j, i) for i, j in enumerate(near[1])}
    for which, function in enumerate((nltk_of, by_definition)):
        counts[which] += function(forward, backward) == forward | backward
print(f"of 1000 random pairs of alignments NLTK gives the union {counts[0]} times, the definition {counts[1]} times")
PYTHON
