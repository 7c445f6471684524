#!/usr/bin/env bash
# Nyström attention of nystrom-attention over a text whose length the number of landmarks does not divide.
#
# Guess: without a mask every word is real, so a mask of ones changes nothing.
# So:    the layer puts zeros in front until landmarks divide the length. Only a given mask hides them. Without one they
#        are keys of score 0, and parts of the first landmark: words attend to them.
# In:    nystrom-attention 0.0.14, nystrom_attention.py, NystromAttention.forward (remainder, exists(mask))
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 einops==0.8.2 nystrom-attention==0.0.14

python - <<'PYTHON' 2>/dev/null | seen "64 words,  0 zeros in front: 0.000 of the weight; a mask of ones changes 0.000
60 words,  4 zeros in front: 0.062 of the weight; a mask of ones changes 0.025
50 words, 14 zeros in front: 0.217 of the weight; a mask of ones changes 0.096
33 words, 15 zeros in front: 0.311 of the weight; a mask of ones changes 0.161"
import torch
from nystrom_attention import NystromAttention

torch.manual_seed(1)
layer = NystromAttention(dim=32, dim_head=16, heads=2, num_landmarks=16, residual=False).double().eval()
text = torch.randn(1, 64, 32, dtype=torch.float64)
with torch.no_grad():
    for length in (64, 60, 50, 33):
        x = text[:, :length]
        plain, weights = layer(x, return_attn=True)
        masked = layer(x, mask=torch.ones(1, length, dtype=torch.bool))
        difference = (plain - masked).norm() / masked.norm()
        front = weights.size(-1) - length
        share = weights[..., front:, :front].sum(-1).mean()
        print(f"{length} words, {front:2} zeros in front: {share:.3f} of the weight; a mask of ones changes {difference:.3f}")
PYTHON
