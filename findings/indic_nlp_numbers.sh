#!/usr/bin/env bash
# Numbers that the Indic NLP Library tokenizes and joins again.
#
# Guess: the text comes back. 3.5 is one token, the numbers of a list are several.
# So:    the tokenizer splits at each sign, then removes the spaces in "number sign number". That joins lists too: "5,
#        101" becomes 5,101, one token and another number. It leaves out a number at the start of a text, and numbers in
#        digits of the language: they fall apart, and come back with spaces inside. The detokenizer has the same rules,
#        so it changes the output of a model too.
# In:    indic-nlp-library 0.92, indicnlp/tokenize/indic_tokenize.py, trivial_tokenize_indic (pat_num_seq and
#        start > prev); indicnlp/tokenize/indic_detokenize.py, trivial_detokenize_indic
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install --no-deps indic-nlp-library==0.92

python - <<'PYTHON' 2>/dev/null | seen "growth is 3.5 percent      वृद्धि 3.5 प्रतिशत है।   the same   (5 tokens)
3.5 percent growth         3.5 प्रतिशत वृद्धि है।   3. 5 प्रतिशत वृद्धि है।   (7 tokens)
growth is 3.5 percent      वृद्धि ३.५ प्रतिशत है।   वृद्धि ३. ५ प्रतिशत है।   (7 tokens)
price 100,000 rupees       किंमत १,००,००० रुपये   किंमत १, ००, ००० रुपये   (7 tokens)
10:30 in the morning       সকাল ১০:৩০   সকাল ১০: ৩০   (4 tokens)
room 5, 101 people         कमरा 5, 101 लोग   कमरा 5,101 लोग   (3 tokens)
years 2001, 2002 and 2003  वर्ष 2001, 2002 और 2003   वर्ष 2001,2002 और 2003   (4 tokens)"
from indicnlp.tokenize.indic_detokenize import trivial_detokenize
from indicnlp.tokenize.indic_tokenize import trivial_tokenize

texts = [
    ("hi", "वृद्धि 3.5 प्रतिशत है।", "growth is 3.5 percent"),
    ("hi", "3.5 प्रतिशत वृद्धि है।", "3.5 percent growth"),
    ("hi", "वृद्धि ३.५ प्रतिशत है।", "growth is 3.5 percent"),
    ("mr", "किंमत १,००,००० रुपये", "price 100,000 rupees"),
    ("bn", "সকাল ১০:৩০", "10:30 in the morning"),
    ("hi", "कमरा 5, 101 लोग", "room 5, 101 people"),
    ("hi", "वर्ष 2001, 2002 और 2003", "years 2001, 2002 and 2003"),
]
for language, text, meaning in texts:
    tokens = trivial_tokenize(text, language)
    again = trivial_detokenize(" ".join(tokens), language)
    print(f"{meaning:26} {text}   {again if again != text else 'the same'}   ({len(tokens)} tokens)")
PYTHON
