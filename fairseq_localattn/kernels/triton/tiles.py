"""Parts of kernels: loading and storing rows, which keys a query sees, dropout, and the softmax block by block.

Imports Triton. ``t`` and ``s`` are positions of a block of queries and of a block of keys; tiles are queries × keys.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

# The score of a hidden key: finite, so that no difference of two is NaN.
LOWEST = tl.constexpr(-1e30)
# Of products of fp32: three products of ten bits on NVIDIA's tensor cores, about as exact as one of fp32.
PRECISION = tl.constexpr("ieee" if torch.version.hip else "tf32x3")
# Rounds of Philox: seven pass the tests of randomness; ten, Triton's default, take longer.
ROUNDS = tl.constexpr(7)


@triton.jit
def load_rows(start, index, stride, count, D, BLOCK_D: tl.constexpr):
    """Load rows of D channels, rows × BLOCK_D; 0 beyond the last row and channel."""
    d = tl.arange(0, BLOCK_D)
    inside = (index[:, None] < count) & (d[None, :] < D)
    return tl.load(start + index[:, None].to(tl.int64) * stride + d[None, :], mask=inside, other=0.0)


@triton.jit
def store_rows(start, rows, index, stride, count, D, BLOCK_D: tl.constexpr):
    """Store rows × BLOCK_D in the type of the pointer, without those beyond the last row and channel."""
    d = tl.arange(0, BLOCK_D)
    inside = (index[:, None] < count) & (d[None, :] < D)
    tl.store(start + index[:, None].to(tl.int64) * stride + d[None, :], rows.to(start.dtype.element_ty), mask=inside)


@triton.jit
def keys_seen(padding, t, s, T, S, CAUSAL: tl.constexpr):
    """Return the tile of keys that queries see. ``padding``: of the sentence, S bytes, not 0 = padding, or None."""
    seen = (t[:, None] < T) & (s[None, :] < S)
    if CAUSAL:
        seen = seen & (s[None, :] <= t[:, None])
    if padding is not None:
        real = tl.load(padding + s, mask=s < S, other=1) == 0
        seen = seen & real[None, :]
    return seen


@triton.jit
def dropout_factors(seed, head, t, first, S, rate, BLOCK: tl.constexpr):
    """Return the factors of dropout for BLOCK keys from ``first``: 0 or 1 / (1 - rate).

    They depend on the seed (a pointer), the head of the batch, query and key alone, not on blocks. Four keys share the
    four numbers of one state of the generator. ``first`` and BLOCK are multiples of 4.
    """
    four = first // 4 + tl.arange(0, BLOCK // 4)
    place = t[:, None] * tl.cdiv(S, 4) + four[None, :]
    nothing = place * 0
    a, b, c, d = tl.philox(tl.load(seed), place, nothing + head, nothing, nothing, ROUNDS)
    numbers = tl.reshape(tl.join(tl.join(a, c), tl.join(b, d)), (t.shape[0], BLOCK))
    return tl.where(tl.uint_to_uniform_float(numbers) >= rate, 1 / (1 - rate), 0.0)


@triton.jit
def next_maximum(highest, scores):
    """Return the rows' maximum with a further tile, and the factor of what was summed with the maximum before."""
    higher = tl.maximum(highest, tl.max(scores, 1))
    return higher, tl.exp(highest - higher)


@triton.jit
def log_of_sum(highest, total):
    """Return the logarithm of the rows' sums of exponentials; infinity for a row without keys: its weights are 0."""
    return tl.where(total > 0, highest + tl.log(tl.where(total > 0, total, 1.0)), float("inf"))
