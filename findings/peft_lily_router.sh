#!/usr/bin/env bash
# PEFT's Lily in a decoder, here Llama: the router that weighs its matrices B.
#
# Guess: a word's output depends on the words before it, as with LoRA, and not on the other sentences of the batch.
# So:    a layer has one mixture of the matrices B in a forward pass: the router's mean over all words of all sentences.
#        In training a word so sees the words that it predicts, and the model learns to use them. They
#        are missing in decoding. Here a sentence is <s> and one of 8 words, six times. Without a look ahead the first
#        word costs log(8) or more.
# In:    peft 0.21.2, peft/tuners/lily/layer.py, Linear.forward (expert_probabilities); its documentation says that the
#        router depends on the data, and nothing of later words or of the batch
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 transformers==5.24.0 peft==0.21.2

python - <<'PYTHON' 2>/dev/null | seen "first word's loss   whole sentence   decoding       larger batch
LoRA                above log(8)     above log(8)   the same
Lily                below 0.5        above log(8)   another"
from math import log

import torch
from peft import LilyConfig, LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

SIZES = dict(vocab_size=10, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2)
layers = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
sentences = torch.tensor([[0] + 6 * [word] for word in range(1, 9)])  # 0 is <s>.


def first_word(model, length, more=None):
    """The mean loss of the first word, where the model gets LENGTH words of each sentence, and the sentence MORE."""
    losses = []
    for sentence in sentences:
        batch = sentence[None] if more is None else torch.stack([sentence, more])
        losses.append(-model(batch[:, :length]).logits[0, 0].log_softmax(-1)[sentence[1]])
    return float(torch.stack(losses).mean())


def report(loss):
    return "above log(8)" if loss > log(8) - 0.01 else "below 0.5" if loss < 0.5 else f"{loss:.2f}"


print("first word's loss   whole sentence   decoding       larger batch")
for name, options in (
    ("LoRA", LoraConfig(r=8, target_modules=layers)),
    ("Lily", LilyConfig(r=8, num_B=2, target_modules=layers)),
):
    torch.manual_seed(0)
    model = get_peft_model(LlamaForCausalLM(LlamaConfig(**SIZES, initializer_range=0.2)), options)
    optimizer = torch.optim.Adam([each for each in model.parameters() if each.requires_grad], lr=5e-3)
    for _ in range(400):
        sentence = sentences[torch.randint(8, (1,))]
        model(sentence, labels=sentence).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        whole, decoding = first_word(model, 7), first_word(model, 1)
        other = abs(first_word(model, 7, more=sentences[0]) - whole) > 0.01
    print(f"{name:19} {report(whole):16} {report(decoding):14} {'another' if other else 'the same'}")
PYTHON
