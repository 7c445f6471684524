"""The kernels of :mod:`.row_dot`. Imports Triton.

Row i of B·T is query i % T of sentence i // T.
"""

from __future__ import annotations

import triton
import triton.language as tl

_SIZES = ["ROWS", "T"]


@triton.jit(do_not_specialize=_SIZES)
def forward(x, w, out, x_t, x_b, ROWS, T, C, BLOCK: tl.constexpr, BLOCK_C: tl.constexpr):
    """Compute ``out``, ROWS products of a row of x and w."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    start = x + (i % T).to(tl.int64) * x_t + (i // T).to(tl.int64) * x_b
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, C, BLOCK_C):
        c = first + tl.arange(0, BLOCK_C)
        row = tl.load(start[:, None] + c[None, :], mask=(i[:, None] < ROWS) & (c[None, :] < C), other=0.0)
        factor = tl.load(w + c, mask=c < C, other=0.0)
        total += tl.sum(row.to(tl.float32) * factor.to(tl.float32)[None, :], 1)
    tl.store(out + i, total, mask=i < ROWS)


@triton.jit(do_not_specialize=_SIZES)
def backward(x, w, d_out, d_x, parts, x_t, x_b, d_t, d_b, ROWS, T, C, BLOCK: tl.constexpr, BLOCK_C: tl.constexpr):
    """Compute the gradient of x, and of each block of rows that of w, ``parts`` blocks×C."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    t, b = (i % T).to(tl.int64), (i // T).to(tl.int64)
    gradient = tl.load(d_out + i, mask=i < ROWS, other=0.0)
    for first in range(0, C, BLOCK_C):
        c = first + tl.arange(0, BLOCK_C)
        inside = (i[:, None] < ROWS) & (c[None, :] < C)
        row = tl.load(x + (t * x_t + b * x_b)[:, None] + c[None, :], mask=inside, other=0.0)
        factor = tl.load(w + c, mask=c < C, other=0.0).to(tl.float32)
        by_row = (gradient[:, None] * factor[None, :]).to(d_x.dtype.element_ty)
        tl.store(d_x + (t * d_t + b * d_b)[:, None] + c[None, :], by_row, mask=inside)
        by_factor = tl.sum(row.to(tl.float32) * gradient[:, None], 0)
        tl.store(parts + tl.program_id(0).to(tl.int64) * C + c, by_factor, mask=c < C)
