#!/usr/bin/env bash
# Masked words in the attention of performer-pytorch.
#
# Guess: a mask hides padding: a sentence has the same outputs alone and padded, whatever stands in the padding.
# So:    the mask sets the values of padding to zero, but not its keys. They stay in the denominator, so that outputs
#        shrink with the padding, and change with its content.
# In:    performer-pytorch 1.1.4, performer_pytorch.py, Attention.forward (v.masked_fill_) and linear_attention
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 einops==0.8.2 local-attention==1.11.1 hyper-connections==0.4.11
install axial-positional-embedding==0.3.12 performer-pytorch==1.1.4

python - <<'PYTHON' 2>/dev/null | seen "20 of 20 words: size of the outputs 1.00 with padding of zeros, 1.00 with one of ones
20 of 30 words: size of the outputs 0.69 with padding of zeros, 0.69 with one of ones
20 of 40 words: size of the outputs 0.53 with padding of zeros, 0.53 with one of ones
20 of 80 words: size of the outputs 0.27 with padding of zeros, 0.29 with one of ones"
import torch
from performer_pytorch import SelfAttention

torch.manual_seed(1)
layer = SelfAttention(dim=32, heads=2, dim_head=16, nb_features=64).double().eval()
sentence = torch.randn(1, 20, 32, dtype=torch.float64)
with torch.no_grad():
    alone = layer(sentence)
    for words in (20, 30, 40, 80):
        mask = torch.arange(words)[None] < 20
        found = []
        for filling in (0.0, 1.0):
            padded = torch.full((1, words, 32), filling, dtype=torch.float64)
            padded[:, :20] = sentence
            found.append(layer(padded, mask=mask)[:, :20])
        zeros, ones = ((x - layer.to_out.bias).norm() / (alone - layer.to_out.bias).norm() for x in found)
        print(f"20 of {words} words: size of the outputs {zeros:.2f} with padding of zeros, {ones:.2f} with one of ones")
PYTHON
