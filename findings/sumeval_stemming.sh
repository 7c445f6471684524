#!/usr/bin/env bash
# ROUGE with stemming by sumeval.
#
# Guess: words count as equal where their stems are: "ran" and "run". No score falls.
# So:    only the reference is stemmed, the summary is not. "ran" in a summary does not match "ran" in the reference,
#        which is "run" there. A copy of the reference falls far below 1, and a summary of the stems has 1. Stems come
#        from a list of irregular forms, so "opened" stays as it is on both sides.
# In:    sumeval 0.2.2, sumeval/metrics/rouge.py, RougeCalculator.tokenize (is_reference); rouge-score 0.1.2
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install rouge-score==0.1.2 nltk==3.10.4
install --no-deps sumeval==0.2.2

python - <<'PYTHON' 2>/dev/null | seen "ROUGE-1 and ROUGE-2   sumeval     with stemming   rouge-score   with stemming
a copy                1.00 1.00   0.45 0.20       1.00 1.00     1.00 1.00
its stems             0.45 0.20   1.00 1.00       0.45 0.20     0.45 0.20
half of it            0.53 0.46   0.27 0.00       0.53 0.46     0.53 0.46"
from rouge_score.rouge_scorer import RougeScorer
from sumeval.metrics.rouge import RougeCalculator

reference = "the children ran home because wolves were seen near the geese"
summaries = [
    ("a copy", reference),
    ("its stems", "the child run home because wolf be see near the goose"),
    ("half of it", "the children ran home"),
]
print("ROUGE-1 and ROUGE-2   sumeval     with stemming   rouge-score   with stemming")
for name, summary in summaries:
    row = []
    for stemming in (False, True):
        calculator = RougeCalculator(stopwords=False, stemming=stemming, lang="en")
        row.append((calculator.rouge_n(summary, reference, 1), calculator.rouge_n(summary, reference, 2)))
    for stemming in (False, True):
        scores = RougeScorer(["rouge1", "rouge2"], use_stemmer=stemming).score(reference, summary)
        row.append([each.fmeasure for each in scores.values()])
    cells = ["{:.2f} {:.2f}".format(*cell) for cell in row]
    print("{:21} {}   {}       {}     {}".format(name, *cells))
PYTHON
