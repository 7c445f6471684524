#!/usr/bin/env bash
# The loss of a masked (non-autoregressive) model of x-transformers.
#
# Guess: the default weight of the loss is that of masked diffusion (MDLM): one by the share of words that are masked.
# So:    the weight is negative. Training raises the cross-entropy of the masked words. Its size is wrong too: one by
#        the share that is not masked. With use_simple_mdlm_loss_weight=False the model learns.
# In:    x-transformers 2.31.10, nonautoregressive_wrapper.py, NonAutoregressiveWrapper, loss_weight_fn
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 einops==0.8.2 x-transformers==2.31.10

python - <<'PYTHON' 2>/dev/null | seen "share of masked words 0.75: weight of the loss -4.00, right is 1.33
share of masked words 0.50: weight of the loss -2.00, right is 2.00
share of masked words 0.25: weight of the loss -1.33, right is 4.00
default  : cross-entropy of masked words after 0, 40, 80 updates 2.4 3.6 4.4
cosine   : cross-entropy of masked words after 0, 40, 80 updates 2.4 3.6 4.2
no weight: cross-entropy of masked words after 0, 40, 80 updates 2.4 2.2 2.0"
import random

import torch
import torch.nn.functional as F
from x_transformers import Encoder, NonAutoregressiveWrapper, TransformerWrapper

MASK, WORDS = 10, 16
torch.set_default_dtype(torch.float64)
TEXT = (torch.arange(WORDS) + torch.arange(10)[:, None]) % 10  # each word is the one before plus one
HALF = torch.arange(WORDS) % 2 == 0


def build(**options):
    """Return a model to train, with weights that are the same each time."""
    torch.manual_seed(1)
    random.seed(1)
    layers = Encoder(dim=32, depth=1, heads=2)
    network = TransformerWrapper(num_tokens=11, max_seq_len=WORDS, attn_layers=layers)
    return NonAutoregressiveWrapper(network, mask_id=MASK, **options)


model = build()
for masked in (0.75, 0.5, 0.25):
    weight = model.loss_weight_fn(torch.tensor([1 - masked])).item()
    print(f"share of masked words {masked:.2f}: weight of the loss {weight:5.2f}, right is {1 / masked:.2f}")
for name, options in (
    ("default", {}),
    ("cosine", dict(schedule="cosine")),
    ("no weight", dict(use_simple_mdlm_loss_weight=False)),
):
    model = build(**options)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    found = []
    for _ in range(3):
        with torch.no_grad():
            logits = model.net(TEXT.masked_fill(HALF, MASK))
        found.append(F.cross_entropy(logits[:, HALF].flatten(0, 1), TEXT[:, HALF].flatten()).item())
        for _ in range(40):
            optimizer.zero_grad()
            model(TEXT).loss.backward()
            optimizer.step()
    print(f"{name:9}: cross-entropy of masked words after 0, 40, 80 updates {' '.join(f'{x:.1f}' for x in found)}")
PYTHON
