"""The kernels of :mod:`.dman`. Imports Triton.

A program computes one head of one sentence for a block of queries, and in the backward pass also for the block of keys
at the same place. Weights are ``M·exp(score - lse)``, where lse is the logarithm of the row's sum.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .tiles import LOWEST, dropout_factors, keys_seen, load_rows, log_of_sum, next_maximum, store_rows

_LENGTHS = ["B", "T", "S", "AHEAD", "BEHIND"]  # differ from batch to batch: no kernel is compiled for each


@triton.jit
def _arguments(by_query, by_distance, head_term, t, s, T, S, AHEAD, BEHIND):
    """Return z of a tile: the sum of the terms of query, distance and head."""
    x = tl.load(by_query + t, mask=t < T, other=0.0)
    place = tl.minimum(tl.maximum(t[:, None] - s[None, :], -AHEAD), BEHIND) + AHEAD
    inside = (t[:, None] < T) & (s[None, :] < S)
    p = tl.load(by_distance + place, mask=inside, other=0.0).to(tl.float32)
    return x[:, None] + (p + head_term)


@triton.jit
def _mask(z, lowest_z):
    """Return M = σ(max(z, lowest_z))."""
    return 1 / (1 + tl.exp(-tl.maximum(z, lowest_z)))


@triton.jit(do_not_specialize=_LENGTHS)
def forward(
    q, k, v, by_query, by_distance, by_head, padding, seed, out, lse,
    q_b, q_h, q_t, k_b, k_h, k_t, v_b, v_h, v_t, o_b, o_h, o_t,
    B, H, T, S, D, AHEAD, BEHIND, scaling, lowest_z, rate,
    CAUSAL: tl.constexpr, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    bh = tl.program_id(0)
    b, h = (bh // H).to(tl.int64), bh % H
    first_query = tl.program_id(1) * BLOCK
    t = first_query + tl.arange(0, BLOCK)
    if padding is not None:
        padding += b * S
    queries = load_rows(q + b * q_b + h * q_h, t, q_t, T, D, BLOCK_D)
    head_term = tl.load(by_head + h).to(tl.float32)
    highest = tl.full((BLOCK,), LOWEST, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    attended = tl.zeros((BLOCK, BLOCK_D), tl.float32)
    end = S
    if CAUSAL:
        end = tl.minimum(S, first_query + BLOCK)
    for first in range(0, end, BLOCK):
        s = first + tl.arange(0, BLOCK)
        keys = load_rows(k + b * k_b + h * k_h, s, k_t, S, D, BLOCK_D)
        values = load_rows(v + b * v_b + h * v_h, s, v_t, S, D, BLOCK_D)
        seen = keys_seen(padding, t, s, T, S, CAUSAL)
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scaling
        scores = tl.where(seen, scores, LOWEST)
        highest, before = next_maximum(highest, scores)
        z = _arguments(by_query + b * T, by_distance, head_term, t, s, T, S, AHEAD, BEHIND)
        weights = tl.where(seen, _mask(z, lowest_z) * tl.exp(scores - highest[:, None]), 0.0)
        total = total * before + tl.sum(weights, 1)
        if seed is not None:
            weights *= dropout_factors(seed, bh, t, first, S, rate, BLOCK)
        attended = attended * before[:, None]
        attended += tl.dot(weights.to(values.dtype), values, input_precision="ieee")
    attended = attended / tl.where(total > 0, total, 1.0)[:, None]
    store_rows(out + b * o_b + h * o_h, attended, t, o_t, T, D, BLOCK_D)
    tl.store(lse + bh.to(tl.int64) * T + t, log_of_sum(highest, total), mask=t < T)
