#!/usr/bin/env bash
# The belief state model of x-transformers, with the lengths of padded sentences.
#
# Guess: lens hides padding. Where all sentences have the full length, it changes nothing.
# So:    with lens the states of the backward decoder are turned round without the last: each is one word late, and the
#        pairs with the end of a sentence get the state that has read all its words, those to predict too.
# In:    x-transformers 2.31.10, belief_state_wrapper.py, BeliefStateWrapper.forward (flip of backward_embeds, which
#        begin with the suffix)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 einops==0.8.2 x-transformers==2.31.10

python - <<'PYTHON' 2>/dev/null | seen "6 random words, not trained: loss 2.51, with lens=6 2.51, in loops 2.51
6 random words, trained    : loss 2.48, with lens=6 2.01, in loops 2.48
the words are independent: no model has less than log 12 = 2.48"
from math import log

import torch
import torch.nn.functional as F
from x_transformers import BeliefStateWrapper, Decoder, TransformerWrapper

WORDS, VOCABULARY = 6, 12
torch.set_default_dtype(torch.float64)
torch.manual_seed(1)


def decoder():
    layers = Decoder(dim=32, depth=1, heads=2, rotary_pos_emb=True)
    return TransformerWrapper(num_tokens=VOCABULARY, max_seq_len=16, attn_layers=layers)


model = BeliefStateWrapper(decoder(), decoder())


def reference(text):
    """Return the loss of one sentence, from the words before each pair and the words from it to the end."""
    losses = []
    for first in range(len(text)):
        for last in range(first + 2, len(text) + 1):
            forward = model.forward_decoder(text[None, : first + 1], return_embeddings=True)[0, -1]
            options = dict(prepend_embeds=model.suffix_token[None, None], return_embeddings=True)
            backward = model.backward_decoder(text[last:].flip(0)[None], **options)[0, -1]
            logits = model.text_head(torch.cat((forward, backward))).view(2, VOCABULARY)
            losses += F.cross_entropy(logits, text[[first + 1, last - 1]], reduction="none")
    return torch.stack(losses).mean()


def show(name):
    texts = torch.randint(VOCABULARY, (20, WORDS))
    with torch.no_grad():
        loss, with_lengths = model(texts), model(texts, lens=torch.full((20,), WORDS))
        right = torch.stack([reference(text) for text in texts]).mean()
    print(f"{name}: loss {loss:.2f}, with lens=6 {with_lengths:.2f}, in loops {right:.2f}")


show("6 random words, not trained")
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
for _ in range(200):
    words = torch.randint(VOCABULARY, (32, WORDS))
    optimizer.zero_grad()
    model(words, lens=torch.full((32,), WORDS)).backward()
    optimizer.step()
show("6 random words, trained    ")
print(f"the words are independent: no model has less than log {VOCABULARY} = {log(VOCABULARY):.2f}")
PYTHON
