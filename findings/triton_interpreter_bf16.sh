#!/usr/bin/env bash
# A product of bf16 blocks in Triton's interpreter (TRITON_INTERPRET=1).
#
# Guess: tl.dot gives the product, or says that it cannot.
# So:    the interpreter keeps bf16 as 16-bit integers, and tl.dot multiplies those: ones give 16 · 16256², not 16. There
#        is no error. fp16 and fp32 are right; tests of kernels need one of them.
# In:    triton 3.9.0, triton/runtime/interpreter.py, create_dot
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 triton==3.9.0

cat >product.py <<'PYTHON'
import torch
import triton
import triton.language as tl


@triton.jit
def product(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    place = i[:, None] * N + i[None, :]
    tl.store(out + place, tl.dot(tl.load(x + place), tl.load(y + place)))


for dtype in (torch.float32, torch.float16, torch.bfloat16):
    ones, out = torch.ones(16, 16, dtype=dtype), torch.empty(16, 16)
    product[1,](ones, ones, out, N=16)
    print(f"{dtype}: {out[0, 0].item():.0f}")
PYTHON
TRITON_INTERPRET=1 python product.py 2>/dev/null | seen "torch.float32: 16
torch.float16: 16
torch.bfloat16: 4228120576"
