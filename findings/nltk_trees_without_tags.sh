#!/usr/bin/env bash
# Trees of phrases, without tags of words, that NLTK's corpus reader reads from a file.
#
# Guess: BracketParseCorpusReader reads what Tree.fromstring reads.
# So:    a phrase of exactly two words loses the second: it is taken for the root of the first. Three words stay.
#        words() then returns only the words left alone in their brackets. There is no error. With tags all is right.
# In:    nltk 3.10.4, nltk/corpus/reader/bracket_parse.py, BracketParseCorpusReader._normalize and _word
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install nltk==3.10.4

python - <<'PYTHON' 2>/dev/null | seen "Tree.fromstring  (S (NP New York) (VP is (NP a big city)))
corpus reader    (S (NP New) (VP is (NP a big city)))
its words()      New

Tree.fromstring  (S (NP (NNP New) (NNP York)) (VP (VBZ sleeps)))
corpus reader    (S (NP (NNP New) (NNP York)) (VP (VBZ sleeps)))
its words()      New York sleeps"
import os

import nltk
from nltk.corpus.reader import BracketParseCorpusReader

nltk.data.path.append(os.getcwd())  # NLTK reads only below its folders of data
os.mkdir("trees")
blocks = []
for text in ("(S (NP New York) (VP is (NP a big city)))", "(S (NP (NNP New) (NNP York)) (VP (VBZ sleeps)))"):
    with open("trees/all.mrg", "w") as file:
        file.write(text + "\n")
    reader = BracketParseCorpusReader("trees", "all.mrg")
    trees = nltk.Tree.fromstring(text), reader.parsed_sents()[0]
    words = " ".join(reader.words())
    blocks.append(f"Tree.fromstring  {trees[0]}\ncorpus reader    {trees[1]}\nits words()      {words}")
print("\n\n".join(blocks))
PYTHON
