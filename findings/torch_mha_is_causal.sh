#!/usr/bin/env bash
# torch.nn.MultiheadAttention with is_causal=True and no attn_mask.
#
# Guess: is_causal hides the future, or is refused without a mask in every mode.
# So:    in training it is refused with a RuntimeError. In evaluation without gradients the call succeeds, and each
#        position sees the future.
# In:    torch 2.13.0, torch/nn/modules/activation.py, MultiheadAttention.forward (its fast path takes no is_causal)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5

python - <<'PYTHON' 2>/dev/null | seen "training: RuntimeError
evaluation: the first position changes with the last word: True"
import torch

torch.manual_seed(0)
attention, x = torch.nn.MultiheadAttention(8, 2, batch_first=True), torch.randn(1, 4, 8)
try:
    attention(x, x, x, is_causal=True, need_weights=False)
    print("training: computed")
except RuntimeError as error:
    print("training:", type(error).__name__)
attention.eval()
other = x.clone()
other[:, -1] += 1
with torch.no_grad():
    one, two = (attention(y, y, y, is_causal=True, need_weights=False)[0][:, 0] for y in (x, other))
print("evaluation: the first position changes with the last word:", not torch.allclose(one, two))
PYTHON
