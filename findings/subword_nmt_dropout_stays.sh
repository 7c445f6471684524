#!/usr/bin/env bash
# Segmentation by subword-nmt without dropout, after the same object segmented with dropout.
#
# Guess: dropout=0, the default, gives the one segmentation that a vocabulary and a model are made for.
# So:    each word that was segmented with dropout before comes back as it was drawn the last time. With dropout the
#        cache is not read, but written. So the validation text of a training with BPE-dropout is noisy: it has more
#        pieces, other ones after each epoch, and its loss and BLEU are those of another text.
# In:    subword-nmt 0.3.8, subword_nmt/apply_bpe.py, encode. JoeyNMT 2.3.0 (SubwordNMTTokenizer) has
#        one such object, and asks it for dropout in training only.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install subword-nmt==0.3.8

python - <<'PYTHON' 2>/dev/null | seen "before training    The northern ministers discussed the treaty in the evening .
after epoch 1      The northern mi@@ ni@@ sters d@@ i@@ sc@@ uss@@ ed the treaty in the evening .
after epoch 2      The northern ministers discuss@@ ed the treaty i@@ n the e@@ v@@ e@@ ni@@ n@@ g .
by another object  The northern ministers discussed the treaty in the evening ."
import io
import random

from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

training = """The ministers discussed the new treaty in the morning and voted in the evening .
The new treaty was discussed by the ministers of the northern countries .
In the evening the northern countries voted on the treaty of the ministers .
The discussion of the evening was the longest of the northern ministers .""".splitlines()
validation = "The northern ministers discussed the treaty in the evening ."

codes = io.StringIO()
learn_bpe(io.StringIO("\n".join(training * 50)), codes, 60)


def load():
    codes.seek(0)
    return BPE(codes)


random.seed(1)
model = load()
print("before training   ", model.process_line(validation))
for epoch in (1, 2):
    for line in training:
        model.process_line(line, dropout=0.1)
    print(f"after epoch {epoch}     ", model.process_line(validation))
print("by another object ", load().process_line(validation))
PYTHON
