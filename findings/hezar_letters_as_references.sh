#!/usr/bin/env bash
# BLEU and ROUGE of Hezar, for one reference a sentence.
#
# Guess: predictions and targets are lists of sentences, as its documentation says, and as its trainer passes them.
# So:    each target is taken as a list of references: BLEU compares with the letters of its words, ROUGE with single
#        letters. The references themselves have a BLEU of 0 and a small ROUGE, the translation "a" has a ROUGE of 1.
# In:    hezar 1.0.0, metrics/bleu.py, BLEU.compute (corpus_bleu of targets), and metrics/rouge.py, ROUGE.compute
#        (score_multi, multi_ref=True by default); trainer/metrics_handlers.py, TextGenerationMetricsHandler
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 huggingface-hub==2.4.0 omegaconf==2.4.0 tokenizers==0.23.3
install nltk==3.10.4 rouge-score==0.1.2 sacrebleu==2.6.0 requests==2.32.5
install --no-deps hezar==1.0.0

python - <<'PYTHON' 2>/dev/null | seen "references themselves: BLEU 0.00, right 1.00; ROUGE-1 0.18, right 1.00
good translations    : BLEU 0.00, right 0.41; ROUGE-1 0.21, right 0.89
the word a twice     : BLEU 0.00, right 0.00; ROUGE-1 1.00, right 0.18"
from hezar.metrics import BLEU, ROUGE, BLEUConfig, ROUGEConfig
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics import BLEU as SacreBLEU

REFERENCES = ["the cat sat on the mat and looked at a dog", "the price of a small house has risen again"]
PARTS = ["the cat sat on a chair and looked at the dog", "the price of a house has risen"]
for name, translations in (
    ("references themselves", REFERENCES),
    ("good translations", PARTS),
    ("the word a twice", ["a", "a"]),
):
    bleu = BLEU(BLEUConfig()).compute(translations, REFERENCES)["bleu"]
    rouge = ROUGE(ROUGEConfig()).compute(translations, REFERENCES)["rouge1"]
    right_bleu = SacreBLEU(tokenize="none").corpus_score(translations, [REFERENCES]).score / 100
    scorer = RougeScorer(["rouge1"])
    scores = [scorer.score(*pair)["rouge1"].fmeasure for pair in zip(REFERENCES, translations, strict=True)]
    right_rouge = sum(scores) / len(scores)
    print(f"{name:21}: BLEU {bleu:.2f}, right {right_bleu:.2f}; ROUGE-1 {rouge:.2f}, right {right_rouge:.2f}")
PYTHON
