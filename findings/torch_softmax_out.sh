#!/usr/bin/env bash
# The softmax of ATen, and its backward pass, into a tensor that is given.
#
# Guess: torch.ops.aten._softmax.out writes the values into any tensor of the shape, as torch.softmax(x, 1, out=...) does.
# So:    on a CPU both write as if the tensor were contiguous: into a transposed one, or every other column, they put
#        wrong values, without an error. torch.softmax with out= is right.
# In:    torch 2.13.0, ATen/native/SoftMax.cpp (softmax_cpu_out, softmax_backward_cpu_out)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5

python - <<'PYTHON' | seen "contiguous          torch.softmax: True  aten._softmax.out: True  aten._softmax_backward_data.out: True
transposed          torch.softmax: True  aten._softmax.out: False  aten._softmax_backward_data.out: False
every other column  torch.softmax: True  aten._softmax.out: False  aten._softmax_backward_data.out: False"
import torch

torch.manual_seed(1)
x, gradient = torch.randn(3, 5), torch.randn(3, 5)
weights = torch.softmax(x, 1)
wanted = torch.ops.aten._softmax_backward_data(gradient, weights, 1, torch.float32)
places = {"contiguous": torch.empty(3, 5), "transposed": torch.empty(5, 3).t(), "every other column": torch.empty(3, 10)[:, ::2]}
for name, out in places.items():
    right = [torch.allclose(torch.softmax(x, 1, out=out), weights)]
    right += [torch.allclose(torch.ops.aten._softmax.out(x, 1, False, out=out), weights)]
    torch.ops.aten._softmax_backward_data.out(gradient, weights, 1, torch.float32, grad_input=out)
    right += [torch.allclose(out, wanted)]
    operators = "torch.softmax", "aten._softmax.out", "aten._softmax_backward_data.out"
    print(f"{name:18}  " + "  ".join(f"{operator}: {good}" for operator, good in zip(operators, right)))
PYTHON
