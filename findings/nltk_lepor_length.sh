#!/usr/bin/env bash
# LEPOR by NLTK of translations that are too short or too long.
#
# Guess: a copy of the reference has the highest score, 1. One factor of LEPOR is a penalty of the length (Han et al.
#        2012): with r words in the reference and c in the translation exp(1 - r/c) where c is below r, and exp(1 - c/r)
#        where it is above.
# So:    NLTK swaps the two. The penalty is a bonus between 1 and 2.72: a sentence said five times beats the copy, and a
#        translation of which 4 words in 10 are missing has nearly three times its score. Of several places of a word in
#        the reference, NLTK takes the farthest and not the nearest: where phrases repeat, a copy is below 1.
# In:    nltk 3.10.4, nltk/translate/lepor.py, length_penalty and alignment; the same in lepor 0.1.0
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install nltk==3.10.4 lepor==0.1.0

python - <<'PYTHON' 2>/dev/null | seen "                               NLTK  lepor  by the definition
a copy                         1.00   1.00  1.00
its first 8 words of 10        0.97   0.97  0.62
its first 6 words              0.89   0.89  0.30
its first 2 words              0.41   0.41  0.00
the copy twice                 1.71   1.71  0.21
the copy five times            2.75   2.75  0.01
a copy with repeated phrases   0.67   0.67  1.00"
from math import exp

from lepor.sentence_level import sentence_lepor as lepor
from nltk.translate.lepor import sentence_lepor as nltk_lepor


def by_definition(reference, translation):
    """The penalty of the length, and the whole score: both for equal weights of precision and recall."""
    r, c = len(reference), len(translation)
    penalty = exp(1 - max(r / c, c / r))
    places, matches, distance = list(enumerate(reference)), 0, 0
    for i, word in enumerate(translation):
        free = [j for j, other in places if other == word]
        if free:
            j = min(free, key=lambda j: abs((i + 1) / c - (j + 1) / r))
            places.remove((j, word))
            matches += 1
            distance += abs((i + 1) / c - (j + 1) / r)
    return penalty * exp(-distance / c) * 2 * matches / (r + c)


sentence, repeated = "we saw a small house near the old stone bridge", "the man saw the dog and the man saw the cat"
print("                               NLTK  lepor  by the definition")
for name, reference, words in (
    ("a copy", sentence, sentence.split()),
    ("its first 8 words of 10", sentence, sentence.split()[:8]),
    ("its first 6 words", sentence, sentence.split()[:6]),
    ("its first 2 words", sentence, sentence.split()[:2]),
    ("the copy twice", sentence, sentence.split() * 2),
    ("the copy five times", sentence, sentence.split() * 5),
    ("a copy with repeated phrases", repeated, repeated.split()),
):
    translation = " ".join(words)
    scores = nltk_lepor([reference], translation, tokenizer=str.split)[0], lepor(reference, translation)
    print(f"{name:30} {scores[0]:.2f}   {scores[1]:.2f}  {by_definition(reference.split(), words):.2f}")
PYTHON
