#!/usr/bin/env bash
# BART's noise in eole: what is hidden, and what the model gets for it.
#
# Guess: mask_ratio hides words whole, each as often as another, by a <mask> of its own. permute_sent_ratio=1 shuffles
#        the sentences of a text.
# So:    a sentence's last piece is part of the last word and stays. The code is fairseq's, where </s> is the last one.
#        <mask> is in no vocabulary, if one does not add it by hand, and the model gets <unk>. The transform token_mask
#        adds it. With joiners, here of OpenNMT's Tokenizer, no text has sentences, as a full stop is "￭." and not ".".
# In:    eole 0.6.4, eole/transforms/bart.py: BARTNoising.whole_word_mask (is_word_start[-1] = 255) and
#        _get_sentence_borders; BARTNoiseTransform has no get_specials; all three as in OpenNMT-py 3.5.1
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 pydantic==2.14.4 PyYAML==6.0.4 pyonmttok==1.38.1 regex==2026.11.19 tqdm==4.70.1
install --no-deps eole==0.6.4

python - <<'PYTHON' 2>/dev/null | seen "half of two words hidden    ▁Wir    ▁über   setz    en
by the guess                0.5     0.5     0.5     0.5
mask_length: word           0.5     0.5     0.5     never
mask_length: span-poisson   0.5     0.5     0.5     never
three sentences permuted    are in the old order
by the guess                1 time of 6
▁Sie ▁liest .               1 time of 6
Sie liest ￭.                6 times of 6
<mask> in the vocabulary
of the transform token_mask is <mask>
of the transform bart       is <unk>"
from pathlib import Path
from types import SimpleNamespace

import pyonmttok
from eole.inputters.inputter import build_vocab
from eole.transforms import get_specials
from eole.transforms.bart import BARTNoising, BARTNoiseTransform
from eole.transforms.sampling import TokenMaskTransform

ROUNDS = 3000
BARTNoising.set_random_seed(1)


def row(name, *values):
    print(f"{name:27}", "".join(f"{value:8}" for value in values).rstrip())


pieces = ["▁Wir", "▁über", "setz", "en"]
row("half of two words hidden", *pieces)
row("by the guess", *("0.5" for _ in pieces))
for length in ("word", "span-poisson"):
    noise = BARTNoising(["▁Wir"], mask_ratio=0.5, mask_length=length, replace_length=-1)
    hidden = [0] * len(pieces)
    for _ in range(ROUNDS):
        after = noise.apply(list(pieces))
        if len(after) == len(pieces):  # A span of no words inserts a <mask> and hides nothing.
            hidden = [count + (piece == "<mask>") for count, piece in zip(hidden, after)]
    row(f"mask_length: {length}", *(f"{count / ROUNDS:.1f}" if count else "never" for count in hidden))

row("three sentences permuted", "are in the old order")
row("by the guess", "1 time of 6")
for joiners in (False, True):
    tokenizer = pyonmttok.Tokenizer("conservative", joiner_annotate=joiners, spacer_annotate=not joiners)
    text = tokenizer("Wir lesen. Sie liest. Er singt.")
    noise = BARTNoising(["Wir"], permute_sent_ratio=1, mask_length="word", is_joiner=joiners)
    times = round(6 * sum(noise.apply(list(text)) == text for _ in range(ROUNDS)) / ROUNDS)
    row(" ".join(text[3:6]), f"{times} time{'s' * (times > 1)} of 6")

print("<mask> in the vocabulary")
Path("words").write_text("\n".join(pieces))
options = dict(unk_token="<unk>", pad_token="<blank>", bos_token="<s>", eos_token="</s>", decoder_start_token="<s>")
options |= dict(src_vocab="words", src_words_min_frequency=0, src_vocab_size=100, vocab_size_multiple=1)
for name, transform in (("token_mask", TokenMaskTransform), ("bart", BARTNoiseTransform)):
    words = build_vocab(SimpleNamespace(**options, share_vocab=True), get_specials(None, {name: transform}))["src"]
    row(f"of the transform {name}", f"is {words.ids_to_tokens[words['<mask>']]}")
PYTHON
