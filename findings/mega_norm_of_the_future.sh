#!/usr/bin/env bash
# The norm of the heads of the moving average in mega-pytorch, in a causal model.
#
# Guess: with causal=True (the default) an output depends on the words up to it, with every option.
# So:    norm_mhesa_heads=True is a group norm over channels and words: each output depends on all later words.
# In:    mega-pytorch 0.1.0, mega_pytorch.py, MultiHeadedEMA (nn.GroupNorm)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 scipy==1.17.1 einops==0.8.2 mega-pytorch==0.1.0

python - <<'PYTHON' 2>/dev/null | seen "norm_mhesa_heads=False: the last word changes  0 of 31 outputs before it
norm_mhesa_heads=True : the last word changes 31 of 31 outputs before it"
import torch
from mega_pytorch import Mega

sizes = dict(num_tokens=50, dim=32, depth=2, ema_heads=4, attn_dim_qk=16, attn_dim_value=32)
for norm in (False, True):
    torch.manual_seed(1)
    model = Mega(**sizes, causal=True, norm_mhesa_heads=norm).double().eval()
    words = torch.randint(50, (1, 32))
    other = words.clone()
    other[:, -1] = (other[:, -1] + 1) % 50
    with torch.no_grad():
        difference = (model(words) - model(other))[0, :-1].abs().amax(-1)
    print(f"norm_mhesa_heads={norm!s:5}: the last word changes {(difference > 1e-9).sum():2} of 31 outputs before it")
PYTHON
