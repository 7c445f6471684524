#!/usr/bin/env bash
# Czech sentences that end with a number, detokenized by sacremoses.
#
# Guess: words and numbers have spaces between them, as with Moses' detokenizer.perl, whose port it is.
# So:    where a sentence ends with a number and a period, each number in it is glued to the word before. Moses' rule
#        joins the parts of a decimal number: it looks at the two tokens before. sacremoses looks at the last two tokens
#        of the sentence. A translation that ends with a year loses words in BLEU, and training text gets new ones.
# In:    sacremoses 0.2.0, sacremoses/tokenize.py, MosesDetokenizer.tokenize: tokens[-2] and tokens[-1] stand there for
#        tokens[i - 2] and tokens[i - 1]; mosestokenizer 1.2.1, which brings Moses' own detokenizer.perl
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install sacremoses==0.2.0 mosestokenizer==1.2.1 docopt==0.6.2 openfile==0.0.7 toolwrapper==2.1.0 uctools==1.3.0

python - <<'PYTHON' 2>/dev/null | seen "text        Narodil se v roce 1985.
Moses       Narodil se v roce 1985.
sacremoses  Narodil se v roce1985.

text        V roce 1920 zde žilo 250 lidí a v roce 1950 jen 80.
Moses       V roce 1920 zde žilo 250 lidí a v roce 1950 jen 80.
sacremoses  V roce1920 zde žilo250 lidí a v roce1950 jen80.

text        V roce 1920 zde žilo 250 lidí a v roce 1950 jen 80 rodin.
Moses       V roce 1920 zde žilo 250 lidí a v roce 1950 jen 80 rodin.
sacremoses  V roce 1920 zde žilo 250 lidí a v roce 1950 jen 80 rodin."
from mosestokenizer import MosesDetokenizer
from sacremoses import MosesDetokenizer as Sacremoses
from sacremoses import MosesTokenizer

texts = (
    "Narodil se v roce 1985.",
    "V roce 1920 zde žilo 250 lidí a v roce 1950 jen 80.",
    "V roce 1920 zde žilo 250 lidí a v roce 1950 jen 80 rodin.",
)
perl, python, tokenize = MosesDetokenizer("cs"), Sacremoses("cs"), MosesTokenizer("cs").tokenize
blocks = []
for text in texts:
    tokens = tokenize(text)
    blocks.append(f"text        {text}\nMoses       {perl(tokens)}\nsacremoses  {python.detokenize(tokens)}")
print("\n\n".join(blocks))
PYTHON
