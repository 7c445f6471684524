#!/usr/bin/env bash
# BLEU of translations that are the references, word for word.
#
# Guess: 100.
# So:    NLTK's corpus_bleu gives less as soon as one line has fewer than four words: such a line counts as one 4-gram that
#        was missed, and one of fewer than three words as a missed 3-gram too. sacrebleu counts no n-gram there.
# In:    nltk 3.10.4, nltk/translate/bleu_score.py, modified_precision: the denominator is at least 1; sacrebleu 2.6.0
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install nltk==3.10.4 sacrebleu==2.6.0

python - <<'PYTHON' 2>/dev/null | seen "lines                        NLTK    sacrebleu
one of ten words            100.0        100.0
the same, and \"yes .\"        93.9        100.0
half of them short           96.4        100.0"
from nltk.translate.bleu_score import corpus_bleu
from sacrebleu.metrics import BLEU

line, short = "the cat sat on the mat near the old door", "yes ."
print("lines                        NLTK    sacrebleu")
for name, text in (
    ("one of ten words", [line]),
    ('the same, and "yes ."', [line, short]),
    ("half of them short", [line, short] + 9 * [line] + 9 * ["thank you !"]),
):
    words = [each.split() for each in text]
    ours = 100 * corpus_bleu([[each] for each in words], words)
    theirs = BLEU(tokenize="none").corpus_score(text, [text]).score
    print(f"{name:25} {ours:7.1f}      {theirs:7.1f}")
PYTHON
