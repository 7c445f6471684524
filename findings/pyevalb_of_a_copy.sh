#!/usr/bin/env bash
# Scores of parses that are the reference trees, bracket for bracket, by PYEVALB.
#
# Guess: recall and precision 100.
# So:    less, where a phrase stands alone in one with the same label, as a name in a list or a headline may: of equal
#        brackets one is counted as found, and all as looked for. A parse with one of the two has the same recall.
# In:    PYEVALB 0.1.3, PYEVALB/scorer.py, Scorer._cal_spans: the size of an intersection of sets over the length of a list
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install PYEVALB==0.1.3

python - <<'PYTHON' 2>/dev/null | seen "reference                                  parse        recall  precision
(S (NP (NN rain)) (VP (VBD fell)))         the same      100.0      100.0
(S (NP (NP (NN rain))) (VP (VBD fell)))    the same       75.0       75.0
(S (NP (NP (NN rain))) (VP (VBD fell)))    with one NP    75.0      100.0"
from PYEVALB.parser import create_from_bracket_string as tree
from PYEVALB.scorer import Scorer

one, two = ("(S (NP (NN rain)) (VP (VBD fell)))", "(S (NP (NP (NN rain))) (VP (VBD fell)))")
print("reference                                  parse        recall  precision")
for reference, name, parse in ((one, "the same", one), (two, "the same", two), (two, "with one NP", one)):
    score = Scorer().score_trees(tree(reference), tree(parse))
    print(f"{reference:42} {name:12}{100 * score.recall:7.1f}{100 * score.prec:11.1f}")
PYTHON
