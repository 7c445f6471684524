#!/usr/bin/env bash
# A constituency tree made binary by NLTK and made whole again, with a label of the Penn Treebank.
#
# Guess: un_chomsky_normal_form undoes chomsky_normal_form, as the module's documentation shows.
# So:    a node called PRT|ADVP, a particle that may be an adverb, is gone: its words hang from the node above. A bar in a
#        label tells the nodes that were added. Phrases for attention, and scores of parses, lack it.
#        With childChar and another sign in both calls the tree comes back.
# In:    nltk 3.10.4, nltk/tree/transforms.py, un_chomsky_normal_form
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install nltk==3.10.4

python - <<'PYTHON' 2>/dev/null | seen "tree              (S (NP he) (VP gave (PRT|ADVP up) (NP it) (ADVP now)))
there and back    (S (NP he) (VP gave up (NP it) (ADVP now)))
with another sign (S (NP he) (VP gave (PRT|ADVP up) (NP it) (ADVP now)))"
from nltk import Tree

text = "(S (NP he) (VP gave (PRT|ADVP up) (NP it) (ADVP now)))"
print("tree             ", text)
for name, options in (("there and back", {}), ("with another sign", {"childChar": "@"})):
    tree = Tree.fromstring(text)
    tree.chomsky_normal_form(**options)
    tree.un_chomsky_normal_form(**options)
    print(f"{name:17}", tree.pformat(margin=200))
PYTHON
