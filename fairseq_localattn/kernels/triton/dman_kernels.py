"""The kernels of :mod:`.dman`. Imports Triton.

A program computes one head of one sentence for a block of queries, and in the backward pass also for the block of keys
at the same place. Weights are ``M·exp(score - lse)``, where lse is the logarithm of the row's sum.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .tiles import LOWEST, PRECISION, dropout_factors, keys_seen, load_rows, log_of_sum, next_maximum, store_rows

_SIZES = ["B", "H", "T", "AHEAD", "BEHIND", "SHIFT", "WIDTH"]  # no kernel is compiled anew for one of them


@triton.jit
def _arguments(by_query, by_distance, head_term, t, s, T, AHEAD, BEHIND):
    """Return z of a tile, the sum of the terms of query, distance and head; M = σ(z)."""
    x = tl.load(by_query + t, mask=t < T, other=0.0)
    place = tl.minimum(tl.maximum(t[:, None] - s[None, :], -AHEAD), BEHIND) + AHEAD
    return x[:, None] + (tl.load(by_distance + place).to(tl.float32) + head_term)


@triton.jit
def _mask(z, lowest_z):
    return 1 / (1 + tl.exp(-tl.maximum(z, lowest_z)))


@triton.jit(do_not_specialize=_SIZES)
def forward(
    q, k, v, by_query, by_distance, by_head, padding, seed, out, lse,
    q_b, q_h, q_t, k_b, k_h, k_t, v_b, v_h, v_t, o_b, o_h, o_t,
    H, T, D, AHEAD, BEHIND, scaling, lowest_z, rate,
    CAUSAL: tl.constexpr, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Compute ``out``, and ``lse`` B×H×T."""
    head = tl.program_id(0).to(tl.int64)
    b, h = head // H, head % H
    first_query = tl.program_id(1) * BLOCK
    t = first_query + tl.arange(0, BLOCK)
    by_query += b * T
    if padding is not None:
        padding += b * T
    k += b * k_b + h * k_h
    v += b * v_b + h * v_h
    queries = load_rows(q + b * q_b + h * q_h, t, q_t, T, D, BLOCK_D)
    head_term = tl.load(by_head + h).to(tl.float32)
    highest = tl.full((BLOCK,), LOWEST, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    attended = tl.zeros((BLOCK, BLOCK_D), tl.float32)
    end = T
    if CAUSAL:
        end = tl.minimum(T, first_query + BLOCK)
    for first in range(0, end, BLOCK):
        s = first + tl.arange(0, BLOCK)
        keys = load_rows(k, s, k_t, T, D, BLOCK_D)
        values = load_rows(v, s, v_t, T, D, BLOCK_D)
        seen = keys_seen(padding, t, s, T, T, CAUSAL)
        scores = tl.dot(queries, tl.trans(keys), input_precision=PRECISION) * scaling
        z = _arguments(by_query, by_distance, head_term, t, s, T, AHEAD, BEHIND)
        scores = tl.where(seen, scores + tl.log(_mask(z, lowest_z)), LOWEST)  # M·exp(…) would be too small for fp16
        highest, before = next_maximum(highest, scores)
        weights = tl.where(seen, tl.exp(scores - highest[:, None]), 0.0)
        total = total * before + tl.sum(weights, 1)
        if seed is not None:
            weights *= dropout_factors(seed, head.to(tl.int32), t, first, T, rate, BLOCK)
        attended *= before[:, None]
        attended += tl.dot(weights.to(values.dtype), values, input_precision=PRECISION)
    attended = attended / tl.where(total > 0, total, 1.0)[:, None]
    store_rows(out + b * o_b + h * o_h, attended, t, o_t, T, D, BLOCK_D)
    tl.store(lse + head * T + t, log_of_sum(highest, total), mask=t < T)


@triton.jit
def _rows_of_queries(q, out, d_out, lse, t, q_t, o_t, g_t, T, D, BLOCK_D: tl.constexpr):
    """Return queries, gradients of their outputs, lse, and Σ out·d_out, which is the gradient of their sums."""
    queries = load_rows(q, t, q_t, T, D, BLOCK_D)
    gradients = load_rows(d_out, t, g_t, T, D, BLOCK_D)
    outputs = load_rows(out, t, o_t, T, D, BLOCK_D)
    shares = tl.sum(outputs.to(tl.float32) * gradients.to(tl.float32), 1)
    return queries, gradients, tl.load(lse + t, mask=t < T, other=float("inf")), shares


@triton.jit
def _gradients(
    queries, keys, values, gradients, sums, shares, by_query, by_distance, head_term, padding, seed,
    head, t, s, first, T, AHEAD, BEHIND, scaling, lowest_z, rate, CAUSAL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Return a tile's weights after dropout, and the gradients of its scores and of z."""
    seen = keys_seen(padding, t, s, T, T, CAUSAL)
    scores = tl.dot(queries, tl.trans(keys), input_precision=PRECISION) * scaling
    z = _arguments(by_query, by_distance, head_term, t, s, T, AHEAD, BEHIND)
    mask = _mask(z, lowest_z)
    weights = tl.where(seen, mask * tl.exp(scores - sums[:, None]), 0.0)
    d_weights = tl.dot(gradients, tl.trans(values), input_precision=PRECISION)
    kept = weights
    if seed is not None:
        factors = dropout_factors(seed, head.to(tl.int32), t, first, T, rate, BLOCK)
        kept = weights * factors
        d_weights *= factors
    d_scores = weights * (d_weights - shares[:, None])
    return kept, d_scores, tl.where(z > lowest_z, d_scores * (1 - mask), 0.0)


@triton.jit(do_not_specialize=_SIZES)
def backward(
    q, k, v, by_query, by_distance, by_head, padding, seed, out, lse, d_out, d_q, d_k, d_v, rows, distances,
    q_b, q_h, q_t, k_b, k_h, k_t, v_b, v_h, v_t, o_b, o_h, o_t, g_b, g_h, g_t, d_b, d_h, d_t,
    H, T, D, AHEAD, BEHIND, SHIFT, WIDTH, scaling, lowest_z, rate,
    CAUSAL: tl.constexpr, ONE: tl.constexpr, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of q, k and v, and add those of z.

    ``rows``, B×H×T, gets their sums over the keys; ``distances``, B×H×WIDTH and 0 before, those of equal t - s + SHIFT.
    ONE: the sentence is one block. d_q, d_k and d_v have the same strides.
    """
    head = tl.program_id(0).to(tl.int64)
    b, h = head // H, head % H
    own = tl.program_id(1) * BLOCK
    index = own + tl.arange(0, BLOCK)
    by_query += b * T
    if padding is not None:
        padding += b * T
    q += b * q_b + h * q_h
    k += b * k_b + h * k_h
    v += b * v_b + h * v_h
    out += b * o_b + h * o_h
    d_out += b * g_b + h * g_h
    lse += head * T
    distances += head * WIDTH
    to = b * d_b + h * d_h
    head_term = tl.load(by_head + h).to(tl.float32)

    # The block's queries, with all keys.
    queries, gradients, sums, shares = _rows_of_queries(q, out, d_out, lse, index, q_t, o_t, g_t, T, D, BLOCK_D)
    d_queries = tl.zeros((BLOCK, BLOCK_D), tl.float32)
    by_row = tl.zeros((BLOCK,), tl.float32)
    end = T
    if CAUSAL:
        end = tl.minimum(T, own + BLOCK)
    for first in range(0, end, BLOCK):
        s = first + tl.arange(0, BLOCK)
        keys = load_rows(k, s, k_t, T, D, BLOCK_D)
        values = load_rows(v, s, v_t, T, D, BLOCK_D)
        kept, d_scores, d_z = _gradients(
            queries, keys, values, gradients, sums, shares, by_query, by_distance, head_term, padding, seed,
            head, index, s, first, T, AHEAD, BEHIND, scaling, lowest_z, rate, CAUSAL, BLOCK,
        )  # fmt: skip
        d_queries += tl.dot(d_scores.to(keys.dtype), keys, input_precision=PRECISION)
        by_row += tl.sum(d_z, 1)
        seen = keys_seen(padding, index, s, T, T, CAUSAL)
        tl.atomic_add(distances + (index[:, None] - s[None, :] + SHIFT), d_z, mask=seen, sem="relaxed")
        if ONE:
            d_keys = tl.dot(tl.trans(d_scores.to(queries.dtype)), queries, input_precision=PRECISION)
            d_values = tl.dot(tl.trans(kept.to(gradients.dtype)), gradients, input_precision=PRECISION)
            store_rows(d_k + to, d_keys * scaling, s, d_t, T, D, BLOCK_D)
            store_rows(d_v + to, d_values, s, d_t, T, D, BLOCK_D)
    store_rows(d_q + to, d_queries * scaling, index, d_t, T, D, BLOCK_D)
    tl.store(rows + head * T + index, by_row, mask=index < T)

    # The block's keys, with all queries.
    if not ONE:
        keys = load_rows(k, index, k_t, T, D, BLOCK_D)
        values = load_rows(v, index, v_t, T, D, BLOCK_D)
        d_keys = tl.zeros((BLOCK, BLOCK_D), tl.float32)
        d_values = tl.zeros((BLOCK, BLOCK_D), tl.float32)
        start = 0
        if CAUSAL:
            start = own
        for first in range(start, T, BLOCK):
            t = first + tl.arange(0, BLOCK)
            queries, gradients, sums, shares = _rows_of_queries(q, out, d_out, lse, t, q_t, o_t, g_t, T, D, BLOCK_D)
            kept, d_scores, d_z = _gradients(
                queries, keys, values, gradients, sums, shares, by_query, by_distance, head_term, padding, seed,
                head, t, index, own, T, AHEAD, BEHIND, scaling, lowest_z, rate, CAUSAL, BLOCK,
            )  # fmt: skip
            d_keys += tl.dot(tl.trans(d_scores.to(queries.dtype)), queries, input_precision=PRECISION)
            d_values += tl.dot(tl.trans(kept.to(gradients.dtype)), gradients, input_precision=PRECISION)
        store_rows(d_k + to, d_keys * scaling, index, d_t, T, D, BLOCK_D)
        store_rows(d_v + to, d_values, index, d_t, T, D, BLOCK_D)


@triton.jit
def _sums_of_columns(x, first, end, count, WIDTH, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Sum COLUMNS columns from ``first``, those that are 0 or more and below ``end``, over ``count`` rows."""
    column = first + tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS,), tl.float32)
    if (first + COLUMNS <= 0) | (first >= end):
        count = count * 0
    for row in range(0, count, ROWS):
        r = (row + tl.arange(0, ROWS)).to(tl.int64)
        inside = (r[:, None] < count) & (column[None, :] >= 0) & (column[None, :] < end)
        total += tl.sum(tl.load(x + r[:, None] * WIDTH + column[None, :], mask=inside, other=0.0), 0)
    return total


@triton.jit(do_not_specialize=_SIZES)
def collect(
    rows, distances, d_by_query, d_by_distance, d_by_head, B, H, T, AHEAD, BEHIND, SHIFT, WIDTH,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sum ``rows`` and ``distances`` of :func:`backward` to the gradients of the three terms.

    The first H programs compute a head each; then one computes COLUMNS distances, and so on; the rest ROWS queries.
    """
    blocks = tl.cdiv(AHEAD + BEHIND + 1, COLUMNS)
    number = tl.program_id(0)
    if number < H:
        by_head = tl.zeros((ROWS,), tl.float32)
        for start in range(0, B * T, ROWS):
            i = start + tl.arange(0, ROWS)
            by_head += tl.load(rows + (i // T * H + number).to(tl.int64) * T + i % T, mask=i < B * T, other=0.0)
        tl.store(d_by_head + number, tl.sum(by_head, 0).to(d_by_head.dtype.element_ty))
    elif number < H + blocks:
        entry = (number - H) * COLUMNS + tl.arange(0, COLUMNS)
        own = (number - H) * COLUMNS - AHEAD + SHIFT
        total = _sums_of_columns(distances, own, WIDTH, B * H, WIDTH, ROWS, COLUMNS)
        if number == H:  # distances below the first entry's
            for below in range(0, SHIFT - AHEAD, COLUMNS):
                more = tl.sum(_sums_of_columns(distances, below, SHIFT - AHEAD, B * H, WIDTH, ROWS, COLUMNS), 0)
                total += tl.where(entry == 0, more, 0.0)
        if number == H + blocks - 1:  # distances above the last entry's
            for above in range(BEHIND + SHIFT + 1, WIDTH, COLUMNS):
                more = tl.sum(_sums_of_columns(distances, above, WIDTH, B * H, WIDTH, ROWS, COLUMNS), 0)
                total += tl.where(entry == AHEAD + BEHIND, more, 0.0)
        inside = entry <= AHEAD + BEHIND
        tl.store(d_by_distance + entry, total.to(d_by_distance.dtype.element_ty), mask=inside)
    else:
        place = (number - H - blocks) * ROWS + tl.arange(0, ROWS)
        by_query = tl.zeros((ROWS,), tl.float32)
        for h in range(0, H):
            by_query += tl.load(rows + (place // T * H + h).to(tl.int64) * T + place % T, mask=place < B * T, other=0.0)
        tl.store(d_by_query + place, by_query, mask=place < B * T)
