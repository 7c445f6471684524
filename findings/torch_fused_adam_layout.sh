#!/usr/bin/env bash
# A gradient of another memory layout than its parameter, given to torch's fused AdamW on a CPU.
#
# Guess: `fused=True` makes the same update faster, as its documentation has it, whatever the strides of the gradient.
# So:    the fused kernel reads parameter and gradient in the order of memory: a gradient that is a transposed view, set
#        by hand, updates the wrong entries, without a word. Gradients that autograd accumulates have their parameter's
#        layout, and are right.
# In:    torch 2.13.0, aten/src/ATen/native/cpu/FusedAdamKernel.cpp
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5

python - <<'PYTHON' 2>/dev/null | seen "row-major gradient:  fused equals unfused: True
transposed gradient: fused equals unfused: False"
import torch

values = torch.tensor([[1.0, -1.0, 1.0], [1.0, 1.0, -1.0]])
for name, gradient in (("row-major gradient: ", values), ("transposed gradient:", values.t().contiguous().t())):
    updated = []
    for fused in (True, False):
        parameter = torch.nn.Parameter(torch.zeros(2, 3))
        parameter.grad = gradient.clone()
        torch.optim.AdamW([parameter], lr=0.1, fused=fused).step()
        updated.append(parameter.detach())
    print(f"{name} fused equals unfused: {torch.allclose(*updated)}")
PYTHON
