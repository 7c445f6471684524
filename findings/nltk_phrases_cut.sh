#!/usr/bin/env bash
# Phrase pairs that NLTK takes from a sentence pair and its word alignment, up to a length.
#
# Guess: max_phrase_length leaves out the pairs with a longer phrase.
# So:    it does for source phrases. A longer target phrase is cut after that many words and stays in its pair:
#        "not smoke" becomes "ne fume", without "pas". Where every phrase fits, the pairs are right.
# In:    nltk 3.10.4, nltk/translate/phrase_based.py, extract, its min(f_end, f_start + max_phrase_length - 1)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install nltk==3.10.4

python - <<'PYTHON' 2>/dev/null | seen "limit  pairs  by definition  wrong
none   14     14
3      11     11
2      9      7              not smoke = ne fume; today he = aujourd'hui ,"
from nltk.translate.phrase_based import phrase_extraction

source, target = "today he does not smoke", "aujourd'hui , il ne fume pas"
alignment = [(0, 0), (1, 2), (3, 3), (3, 5), (4, 4)]  # the comma and "does" have no partner


def spans(text, limit):
    length = len(text.split())
    return [(i, j) for i in range(length) for j in range(i + 1, length + 1) if j - i <= limit]


def by_definition(limit):
    """Pairs of spans with at least one link inside, and no link from inside to outside."""
    pairs = set()
    for a in spans(source, limit):
        for b in spans(target, limit):
            inside = [(a[0] <= i < a[1], b[0] <= j < b[1]) for i, j in alignment]
            if (True, True) in inside and all(x == y for x, y in inside):
                pairs.add((a, b))
    return pairs


print("limit  pairs  by definition  wrong")
for limit in (0, 3, 2):
    theirs, right = phrase_extraction(source, target, alignment, limit), by_definition(limit or 99)
    wrong = sorted(f"{x} = {y}" for a, b, x, y in theirs if (a, b) not in right)
    print(f"{limit or 'none':<6} {len(theirs):<6} {len(right):<14} {'; '.join(wrong)}".rstrip())
PYTHON
