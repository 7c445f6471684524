#!/usr/bin/env bash
# BLEU by compare-mt, where no sequence of four words is right.
#
# Guess: BLEU is a geometric mean of four precisions, and 0 if one of them is 0 (Papineni et al. 2002).
# So:    compare-mt takes a precision of 0 for 1. A translation that loses its last right sequence of four words gains.
#        A reference in reverse order has 100. There is no warning.
#        Where no precision is 0, as in large test sets, the score is right. Otherwise it can choose the worse system.
#        Its tables of BLEU by the length of sentences, and its samples for significance, are such small sets.
# In:    compare-mt 0.2.10, compare_mt/scorers.py, BleuScorer.score_cached_corpus (its default score, "bleu");
#        sacrebleu 2.6.0
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install compare-mt==0.2.10 numpy==2.3.5 nltk==3.10.4 matplotlib==3.11.2 absl-py==2.5.1 sacrebleu==2.6.0 six==1.17.0

python - <<'PYTHON' 2>/dev/null | seen "                                precisions             compare-mt   sacrebleu
the cat sat on the mat today    100, 100, 100, 100          100.0       100.0
the cat sat on a mat today      86, 67, 40, 25               48.9        48.9
the cat sat in the mat today    86, 67, 40, 0                69.1         0.0
today mat the on sat cat the    100, 0, 0, 0                100.0         0.0"
from compare_mt.scorers import create_scorer_from_profile
from sacrebleu import BLEU

reference = "the cat sat on the mat today"
print("                                precisions             compare-mt   sacrebleu")
for text in (
    reference,
    "the cat sat on a mat today",
    "the cat sat in the mat today",
    "today mat the on sat cat the",
):
    score, _ = create_scorer_from_profile("bleu").score_corpus([reference.split()], [text.split()])
    theirs = BLEU(tokenize="none", smooth_method="none").corpus_score([text], [[reference]])
    print(f"{text:31} {', '.join(f'{each:.0f}' for each in theirs.precisions):22} {score:10.1f} {theirs.score:11.1f}")
PYTHON
