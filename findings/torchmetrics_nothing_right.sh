#!/usr/bin/env bash
# TER and chrF of a translation that has nothing right, or that is empty, beside one that is perfect.
#
# Guess: it costs as much as its reference is long, as by sacrebleu.
# So:    by torchmetrics it costs nothing. Its TER counts no edits for an empty translation: a system that says nothing has
#        the best score, 0. Its chrF leaves the n-grams of a reference out of the recall unless something of it is found.
# In:    torchmetrics 1.9.0, functional/text/ter.py, _translation_edit_rate, and functional/text/chrf.py, best_f_score from
#        0 on in _calculate_sentence_level_chrf_score; sacrebleu 2.6.0
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 torchmetrics==1.9.0 sacrebleu==2.6.0

python - <<'PYTHON' 2>/dev/null | seen "                   TER: torchmetrics  sacrebleu   chrF: torchmetrics  sacrebleu
both perfect                     0.0        0.0                100.0      100.0
the second is wrong             50.0       50.0                 98.8       55.2
the second is empty              0.0       50.0                100.0       55.6
both are empty                   0.0      100.0                  0.0        0.0"
from sacrebleu.metrics import CHRF, TER
from torchmetrics.text import CHRFScore, TranslationEditRate

line = "the cat sat on the mat"
print("                   TER: torchmetrics  sacrebleu   chrF: torchmetrics  sacrebleu")
for name, text in (
    ("both perfect", [line, line]),
    ("the second is wrong", [line, "x y z"]),
    ("the second is empty", [line, ""]),
    ("both are empty", ["", ""]),
):
    each = [[line], [line]]
    ter, chrf = TranslationEditRate()(text, each), CHRFScore(n_word_order=0)(text, each)
    theirs = [metric.corpus_score(text, [[line, line]]).score for metric in (TER(), CHRF())]
    print(f"{name:19} {100 * ter:16.1f} {theirs[0]:10.1f} {100 * chrf:20.1f} {theirs[1]:10.1f}")
PYTHON
