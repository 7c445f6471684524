#!/usr/bin/env bash
# Gradients of a query whose mask is one large finite number for all keys.
#
# Guess: torch's fused attention on a CPU and its computation in steps have the same gradients, as they have the same
#        output: such a mask shifts all scores of the query, so that it sees every key.
# So:    the fused backward pass takes each weight of the query as 1 where the output has 1/S: with four keys its
#        values get four times the gradient. The pass computes the weights again from the logarithm of their sum, which
#        float32 adds to the mask's -1e8 and loses. A boolean mask with such a row has the gradient 0 in both.
# In:    torch 2.13.0, aten/src/ATen/native/cpu/FlashAttentionKernel.cpp, cpu_flash_attention_backward
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5

python - <<'PYTHON' | seen "fused     output equal: True   gradient of the values: [1.0, 1.0, 1.0, 1.0]
in steps  output equal: True   gradient of the values: [0.25, 0.25, 0.25, 0.25]"
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

torch.manual_seed(1)
query, key, value = (torch.randn(1, 1, 4, 8, requires_grad=True) for _ in range(3))
mask = torch.zeros(1, 1, 4, 4)
mask[:, :, 2] = -1e8
for name, backend in (("fused", SDPBackend.FLASH_ATTENTION), ("in steps", SDPBackend.MATH)):
    with sdpa_kernel(backend):
        row = scaled_dot_product_attention(query, key, value, attn_mask=mask)[0, 0, 2]
    (gradient,) = torch.autograd.grad(row[0], value)
    equal = torch.allclose(row, value[0, 0].mean(0), atol=1e-5)
    print(f"{name:8}  output equal: {equal}   gradient of the values: {gradient[0, 0, :, 0].tolist()}")
PYTHON
