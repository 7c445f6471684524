#!/usr/bin/env bash
# A bias of three dimensions, H×T×S, and a learned one, in torch's attention on a CPU.
#
# Guess: a bias H×T×S is broadcast over the batch as 1×H×T×S and T×S are, at the same speed.
# So:    with three dimensions torch leaves its fused kernel, and computes in steps, slower and with all scores in
#        memory; with two or four it stays. `bias[None]` has the same output by the fused kernel. A bias that requires
#        gradients leaves it as well, also under torch.no_grad().
# In:    torch 2.13.0, aten/src/ATen/native/transformers/sdp_utils_cpp.h, check_attn_mask_shape
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5

python - <<'PYTHON' 2>/dev/null | seen "none       fused
T×S        fused
H×T×S      in steps
1×H×T×S    fused
learned    in steps"
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.profiler import ProfilerActivity, profile

query = key = value = torch.randn(2, 4, 256, 32)
bias = torch.randn(4, 256, 256)
learned = bias[None].clone().requires_grad_()
for name, mask in (("none", None), ("T×S", bias[0]), ("H×T×S", bias), ("1×H×T×S", bias[None]), ("learned", learned)):
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU]) as profiled:
        scaled_dot_product_attention(query, key, value, attn_mask=mask)
    fused = any("flash_attention_for_cpu" in event.name for event in profiled.events())
    print(f"{name:10} {'fused' if fused else 'in steps'}")
PYTHON
