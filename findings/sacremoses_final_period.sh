#!/usr/bin/env bash
# The period at the end of a line, after a number, in German.
#
# Guess: sacremoses makes the tokens of Moses' tokenizer.perl, which it is a port of.
# So:    the Perl script splits a line's last period from any word since November 2018; sacremoses keeps it where the
#        word stands in the list of words before which no sentence ends, as all German ordinals do.
# In:    sacremoses 0.2.0, sacremoses/tokenize.py, MosesTokenizer.handles_nonbreaking_prefixes;
#        mosesdecoder, scripts/tokenizer/tokenizer.perl, sub tokenize ("split last words independently")
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install sacremoses==0.2.0

python - <<'PYTHON' | seen "ein Mann mit der Nummer 96.
ein Mann mit der Nummer 196 .
ein Mann mit einer Nummer ."
from sacremoses import MosesTokenizer

tokenize = MosesTokenizer("de").tokenize
for number in ("der Nummer 96", "der Nummer 196", "einer Nummer"):
    print(tokenize(f"ein Mann mit {number}.", return_str=True))
PYTHON
