"""A kernel that stores the factors of dropout, for its test; it imports Triton."""

from __future__ import annotations

import triton
import triton.language as tl

from fairseq_localattn.kernels.triton.tiles import dropout_factors


@triton.jit
def draw(out, seed, S, rate, BLOCK: tl.constexpr):
    first, head = tl.program_id(0) * BLOCK, tl.program_id(1)
    t, s = tl.arange(0, 64), first + tl.arange(0, BLOCK)
    factors = dropout_factors(seed, head, t, first, S, rate, BLOCK)
    tl.store(out + head * 64 * S + t[:, None] * S + s[None, :], factors, mask=s[None, :] < S)
