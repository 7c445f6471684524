#!/usr/bin/env bash
# JoeyNMT's repetition_penalty: which words become less likely, where source and target have a vocabulary each.
#
# Guess: the words that the translation has already. Special tokens are excluded, as the code says.
# So:    also the target words with the numbers of the source's words. With two vocabularies these are any words.
#        Special tokens are not excluded, as what should restore them is no copy. A source ends with </s>, so that the
#        end of a translation is unlikely from the start. Translations get longer.
# In:    joeynmt 2.3.0, joeynmt/search.py, search (encoder_input) and penalize_repetition (scores_before)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 PyYAML==6.0.4 packaging==26.4 sentencepiece==0.2.3 subword-nmt==0.3.8
install importlib-metadata==10.2.0 tensorboard==2.21.0 matplotlib==3.11.2
install --no-deps joeynmt==2.3.0

python - <<'PYTHON' 2>/dev/null | seen "source  no penalty                penalty 3                 by the guess
Hund    cat cat cat cat cat cat   cat the cat cat cat cat   cat the </s>
Katze   cat cat cat cat cat cat   the cat tree the the the  cat the </s>
Haus    cat cat cat cat cat cat   cat cat cat cat cat cat   cat the </s>"
from math import log
from types import SimpleNamespace

import torch
from joeynmt.batch import Batch
from joeynmt.model import build_model
from joeynmt.search import search
from joeynmt.vocabulary import Vocabulary

special = dict(unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None)
special |= dict(unk_id=0, pad_id=1, bos_id=2, eos_id=3, sep_id=None, lang_tags=[])
source = Vocabulary(["Hund", "Katze", "Haus", "Baum"], SimpleNamespace(**special))
target = Vocabulary(["a", "cat", "the", "tree"], SimpleNamespace(**special))
probabilities = {"cat": 0.4, "the": 0.3, "</s>": 0.25, "tree": 0.03, "a": 0.02}  # At each step, after any words.

layers = dict(type="transformer", hidden_size=8, ff_size=8, num_layers=1, num_heads=1, layer_norm="pre")
layers["embeddings"] = dict(embedding_dim=8)
model = build_model(dict(encoder=layers, decoder=layers), source, target).eval()
with torch.no_grad():
    model.decoder.layer_norm.weight.zero_()
    model.decoder.layer_norm.bias.copy_(torch.eye(8)[0])
    model.decoder.output_layer.weight.fill_(-30)
    for word, probability in probabilities.items():
        model.decoder.output_layer.weight[target.lookup(word), 0] = torch.tensor(probability).log()


def translate(sentence, **options):
    numbers = torch.tensor([[source.lookup(word) for word in sentence] + [3]])
    length = torch.tensor([numbers.size(1)])
    batch = Batch(numbers, length, None, None, None, torch.tensor([0]), torch.device("cpu"), 1, 3, is_train=False)
    output = search(model, batch, 6, 1, 0, **options)[0]
    return " ".join(target.arrays_to_sentences(output)[0])


by_guess = []  # The likeliest word at each step, the log-probabilities of earlier words times 3.
while "</s>" not in by_guess:
    scores = {word: log(p) * (3 if word in by_guess else 1) for word, p in probabilities.items()}
    by_guess.append(max(scores, key=scores.get))

print(f"source  {'no penalty':25} {'penalty 3':25} by the guess")
for word in ("Hund", "Katze", "Haus"):
    print(f"{word:7} {translate([word]):25} {translate([word], repetition_penalty=3.0):25} {' '.join(by_guess)}")
PYTHON
