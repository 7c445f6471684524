#!/usr/bin/env bash
# Truecasing by sacremoses of words that the training text has in two cases, as "us" and "US".
#
# Guess: sacremoses does as Moses' truecase.perl, whose port it is. Within a sentence that script keeps each word that
#        the training text has in this case. Others, and the first word, get the most frequent case of the word.
# So:    sacremoses gives every word its most frequent case: "US" becomes "us", the month "may", the company "apple".
#        detruecase cannot bring them back. MosesTruecaser.truecase(text, use_known=True) does as Moses, and is not the
#        default. truecase_file and the command line have no such option.
# In:    sacremoses 0.2.0, sacremoses/truecase.py, MosesTruecaser.truecase and truecase_file;
#        mosesdecoder, scripts/recaser/truecase.perl ("don't change known words")
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install sacremoses==0.2.0

cat > train.txt <<'TEXT'
He told us that they eat an apple in May .
They may ask us for an apple .
You may tell us more about the US .
We saw that Apple may sell it .
TEXT
sacremoses truecase -m model <train.txt >/dev/null 2>&1

python - <<'PYTHON' 2>/dev/null | seen "text             In May US citizens told us about Apple . And THEY ?
Moses' rule      in May US citizens told us about Apple . And they ?
use_known=True   in May US citizens told us about Apple . And they ?
the default      in may us citizens told us about apple . And they ?
command line     in may us citizens told us about apple . And they ?
detruecased      In may us citizens told us about apple . And they ?"
import subprocess

from sacremoses import MosesDetruecaser, MosesTruecaser

text = "In May US citizens told us about Apple . And THEY ?"
# A line of the model has the most frequent form, its count, and then other forms with theirs.
forms = [line.split()[::2] for line in open("model")]
best = {each[0].lower(): each[0] for each in forms}
known = {form for each in forms for form in each}
moses, first = [], True
for word in text.split():
    moses.append(word if word in known and not first else best.get(word.lower(), word))
    first = word in ".:?!"
truecaser = MosesTruecaser("model")
command = subprocess.run(["sacremoses", "truecase", "-m", "model"], input=text, capture_output=True, text=True)
print("text            ", text)
print("Moses' rule     ", *moses)
print("use_known=True  ", truecaser.truecase(text, return_str=True, use_known=True))
print("the default     ", truecaser.truecase(text, return_str=True))
print("command line    ", command.stdout.strip())
print("detruecased     ", MosesDetruecaser().detruecase(command.stdout.strip(), return_str=True))
PYTHON
