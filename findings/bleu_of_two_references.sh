#!/usr/bin/env bash
# BLEU of one translation with two references, by four libraries.
#
# Guess: alike, in any order of the references. A translation is too short if the reference of the closest length is
#        longer. Of two that are as close, the shorter one counts.
# So:    torchmetrics takes the one that is listed first, in BLEUScore and SacreBLEUScore: 100 or 71.7, by the order.
#        torcheval takes the shortest reference, even if another is closer. With a short one, nothing is too short.
# In:    torchmetrics 1.9.0, functional/text/bleu.py, _bleu_score_update; torcheval 0.0.7,
#        metrics/functional/text/bleu.py, _bleu_score_update; sacrebleu 2.6.0, nltk 3.10.4
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 torchmetrics==1.9.0 torcheval==0.0.7 sacrebleu==2.6.0 nltk==3.10.4

python - <<'PYTHON' 2>/dev/null | seen "words of translation, references   sacrebleu   NLTK   torchmetrics   torcheval
6, 4 and 8                             100.0  100.0          100.0       100.0
6, 8 and 4                             100.0  100.0           71.7       100.0
6, 3 and 8                              71.7   71.7           71.7       100.0"
from nltk.translate.bleu_score import corpus_bleu
from sacrebleu.metrics import BLEU
from torcheval.metrics import functional
from torchmetrics.text import SacreBLEUScore

text = "the minister opened the new bridge"
long, middle, short = f"{text} on Friday", "the minister opened it", "it was opened"
print("words of translation, references   sacrebleu   NLTK   torchmetrics   torcheval")
for references in ([middle, long], [long, middle], [short, long]):
    lengths = " and ".join(str(len(each.split())) for each in references)
    row = [
        BLEU(tokenize="none").corpus_score([text], [[each] for each in references]).score,
        100 * corpus_bleu([[each.split() for each in references]], [text.split()]),
        100 * SacreBLEUScore(tokenize="none")([text], [references]).item(),
        100 * functional.bleu_score([text], [references]).item(),
    ]
    print(f"6, {lengths:31}" + "{:10.1f} {:6.1f} {:14.1f} {:11.1f}".format(*row))
PYTHON
