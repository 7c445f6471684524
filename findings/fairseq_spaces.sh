#!/usr/bin/env bash
# U+00A0, the space that does not break, in tokenised text.
#
# Guess: a text that is tokenised is split at ASCII spaces, as Moses and subword-nmt write it.
# So:    fairseq splits a line at every Unicode space when it binarises and when it reads: a token with U+00A0 in it
#        becomes two words, unknown if the dictionary has the token, and no output can match the reference's token.
# In:    fairseq-fixed 0.12.3.1, fairseq/tokenizer.py, tokenize_line
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install_fairseq

python - <<'PYTHON' 2>/dev/null | seen "tokens ['costs', '47\xa0346']
words  costs <unk> <unk>"
from fairseq.data import Dictionary

line = "costs 47\u00a0346"
dictionary = Dictionary()
for token in line.split(" "):
    dictionary.add_symbol(token)
print("tokens", line.split(" "))
print("words ", dictionary.string(dictionary.encode_line(line, append_eos=False, add_if_not_exist=False)))
PYTHON
