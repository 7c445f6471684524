#!/usr/bin/env bash
# METEOR by NLTK of a translation with a word that the reference has twice.
#
# Guess: of several ways to match the words, the one with the fewest crossings counts, as align_words documents it.
# So:    from the end on, a word takes its last free place in the reference. "the dog" is torn apart where another "the"
#        comes later, and has half of its score. "dog saw the" beats "the dog saw". Without repeats scores are right.
# In:    nltk 3.10.4, nltk/translate/meteor_score.py, _match_enums
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install nltk==3.10.4

python - <<'PYTHON' 2>/dev/null | seen "reference                translation             NLTK   fewest crossings
my dog saw the cat       my dog                  0.399  0.399
the dog saw the cat      the dog                 0.213  0.399
the dog saw the cat      dog saw the             0.613  0.613
the dog saw the cat      the dog saw             0.532  0.613
the cat and the dog sat  the cat and a dog sat   0.743  0.807"
from itertools import product

from nltk.translate.meteor_score import single_meteor_score


class NoSynonyms:
    def synsets(self, word):
        return []


def by_definition(reference, translation):
    """Equal words only: the most matches, then the fewest crossings; NLTK's alpha 0.9, beta 3 and gamma 0.5."""
    ways, places = [], [[None, *(j for j, x in enumerate(reference) if x == word)] for word in translation]
    for way in product(*places):
        pairs = [(i, j) for i, j in enumerate(way) if j is not None]
        if len(pairs) == len({j for _, j in pairs}):
            crossings = sum(a[1] > b[1] for n, a in enumerate(pairs) for b in pairs[n:])
            chunks = 1 + sum((b[0] - a[0], b[1] - a[1]) != (1, 1) for a, b in zip(pairs, pairs[1:]))
            ways.append((-len(pairs), crossings, chunks))
    matches, _, chunks = min(ways)
    precision, recall = -matches / len(translation), -matches / len(reference)
    return precision * recall / (0.9 * precision + 0.1 * recall) * (1 - 0.5 * (chunks / -matches) ** 3)


print(f"{'reference':24} {'translation':23} NLTK   fewest crossings")
for reference, translation in (
    ("my dog saw the cat", "my dog"),
    ("the dog saw the cat", "the dog"),
    ("the dog saw the cat", "dog saw the"),
    ("the dog saw the cat", "the dog saw"),
    ("the cat and the dog sat", "the cat and a dog sat"),
):
    lists = reference.split(), translation.split()
    score = single_meteor_score(*lists, wordnet=NoSynonyms())
    print(f"{reference:24} {translation:23} {score:.3f}  {by_definition(*lists):.3f}")
PYTHON
