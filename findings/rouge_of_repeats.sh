#!/usr/bin/env bash
# ROUGE of a summary that says its one sentence five times, by the package called rouge.
#
# Guess: recall stays, precision falls to a fifth, as the metric's definition and rouge-score have it.
# So:    precision stays. The package compares sets of words, of pairs of words, and of words of the common subsequence. A
#        model that repeats itself, the usual failure of summarisation, loses nothing but the pair where repeats meet.
#        Rouge(exclusive=False) counts repeats.
# In:    rouge 1.0.1, rouge/rouge_score.py, class Ngrams, exclusive=True; rouge-score 0.1.2
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install rouge==1.0.1 rouge-score==0.1.2

python - <<'PYTHON' 2>/dev/null | seen "F1                      ROUGE-1    ROUGE-2    ROUGE-L
rouge                    100.0       90.9      100.0
rouge, exclusive=False    33.3       29.4       33.3
rouge-score               33.3       29.4       33.3"
from rouge import Rouge
from rouge_score.rouge_scorer import RougeScorer

reference = "the minister opened a new bridge"
summary = " ".join([reference] * 5)


def report(name, values):
    print(f"{name:22}", "    ".join(f"{100 * value:7.1f}" for value in values))


print("F1                      ROUGE-1    ROUGE-2    ROUGE-L")
for name, rouge in (("rouge", Rouge()), ("rouge, exclusive=False", Rouge(exclusive=False))):
    report(name, [each["f"] for each in rouge.get_scores(summary, reference)[0].values()])
scores = RougeScorer(["rouge1", "rouge2", "rougeL"]).score(reference, summary)
report("rouge-score", [each.fmeasure for each in scores.values()])
PYTHON
