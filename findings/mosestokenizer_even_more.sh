#!/usr/bin/env bash
# Sentences split by mosestokenizer with its option for more marks at the end of sentences.
#
# Guess: even_more also splits at the question and exclamation marks of all scripts, and keeps the text.
# So:    of each sentence all that follows its last "?" or "!" is gone, in English too: the rest of the sentence, or a
#        closing quotation mark. Sentences that end with such a mark, or have none, stay whole.
# In:    mosestokenizer 1.2.1, mosestokenizer/sentsplitter.py, _split_even_more; it runs Moses' script, by perl
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install mosestokenizer==1.2.1 docopt==0.6.2 openfile==0.0.7 toolwrapper==2.1.0 uctools==1.3.0

python - <<'PYTHON' 2>/dev/null | seen "text       Is it late? He left.
default    Is it late? | He left.
even_more  Is it late? | He left.

text       \"Is it late?\" he asked.
default    \"Is it late?\" he asked.
even_more  \"Is it late?

text       She shouted \"Stop!\" Then she left Yahoo! for good.
default    She shouted \"Stop!\" | Then she left Yahoo! for good.
even_more  She shouted \"Stop! | Then she left Yahoo!"
from mosestokenizer import MosesSentenceSplitter

blocks = []
for text in ("Is it late? He left.", '"Is it late?" he asked.', 'She shouted "Stop!" Then she left Yahoo! for good.'):
    block = [f"text       {text}"]
    for name, more in (("default", False), ("even_more", True)):
        with MosesSentenceSplitter("en", even_more=more) as split:
            block.append(f"{name:10} {' | '.join(split([text]))}")
    blocks.append("\n".join(block))
print("\n\n".join(blocks))
PYTHON
