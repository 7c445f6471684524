#!/usr/bin/env bash
# Dropout in memory-efficient-attention-pytorch, by both computations of its layer.
#
# Guess: memory_efficient=True is another way to compute the same attention, with the same dropout of weights.
# So:    without it dropout is ignored. With it, dropout acts before the weights are divided by their sum: they add up
#        to one in each pass, and not in the mean as in torch.
# In:    memory-efficient-attention-pytorch 0.1.6, memory_efficient_attention.py, attention (**kwargs) and
#        summarize_qkv_chunk
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 einops==0.8.2 memory-efficient-attention-pytorch==0.1.6

python - <<'PYTHON' 2>/dev/null | seen "memory_efficient=False: two passes in training with dropout .5 are equal
memory_efficient=True : two passes in training with dropout .5 are different
this : weights of a query add up to 1.00 to 1.00
torch: weights of a query add up to 0.43 to 1.42"
import torch
import torch.nn.functional as F
from memory_efficient_attention_pytorch import Attention
from memory_efficient_attention_pytorch.memory_efficient_attention import memory_efficient_attention

torch.manual_seed(1)
x = torch.randn(1, 40, 32)
for efficient in (False, True):
    layer = Attention(dim=32, dim_head=16, heads=2, dropout=0.5, memory_efficient=efficient)
    same = torch.equal(layer.train()(x), layer(x))
    print(f"memory_efficient={efficient!s:5}: two passes in training with dropout .5 are {'equal' if same else 'different'}")
q, k = torch.randn(2, 1, 2, 40, 16)
ones = torch.ones(1, 2, 40, 16)
for name, found in (
    ("this", memory_efficient_attention(q, k, ones, dropout=0.5, training=True)),
    ("torch", F.scaled_dot_product_attention(q, k, ones, dropout_p=0.5)),
):
    sums = found[..., 0]
    print(f"{name:5}: weights of a query add up to {sums.amin():.2f} to {sums.amax():.2f}")
PYTHON
