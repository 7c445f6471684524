"""The kernels of :mod:`.soft_windows`. Imports Triton.

A program computes one head of one sentence for a block of queries. It reads the keys block by block, several times: the
pointers' sums are known after the first time, and the cumulative sums are carried from block to block.

Written as numbers of one query, with w the weights, m the window, and l, r the pointers' shares of each key:

    m = upto(l) (1 - before(r)) + upto(r) (1 - before(l))

where ``upto`` sums up to the last key of the own segment, and ``before`` up to the segment before it. For the gradient
g of m, that of l is ``from(g·(1 - before(r))) + upto(g·upto(r))``, of which ``from`` is the total less ``before``. The
softmax subtracts ``Σ l·dl``, which is ``Σ g·m``, as it is for r.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .tiles import LOWEST, PRECISION, dropout_factors, keys_seen, load_rows, log_of_sum, next_maximum, store_rows

_SIZES = ["B", "H", "T", "S"]  # no kernel is compiled anew for one of them


@triton.jit
def _start(padding, S, SEGMENT: tl.constexpr, BLOCK: tl.constexpr):
    """Return where blocks of keys begin, 0 or before: a segment begins at the sentence's first real key."""
    start = 0
    if SEGMENT > 1:
        if padding is not None:
            start = S
            for first in range(0, S, BLOCK):
                s = first + tl.arange(0, BLOCK)
                real = tl.load(padding + s, mask=s < S, other=1) == 0
                start = tl.minimum(start, tl.min(tl.where(real, s, S), 0))
            start = start - tl.cdiv(start, SEGMENT) * SEGMENT
    return start


@triton.jit
def _keys_of(first, S, SEGMENT: tl.constexpr, BLOCK: tl.constexpr):
    """Return the positions of a block of keys, which are whole segments; S for places that have none."""
    place = tl.arange(0, BLOCK)
    s = first + place
    return tl.where((place < BLOCK // SEGMENT * SEGMENT) & (s >= 0), s, S)


@triton.jit
def _upto(x, carried, SEGMENT: tl.constexpr, BLOCK: tl.constexpr):
    """Return ``carried`` and the sums of a tile up to the end of each key's segment."""
    if SEGMENT == 1:
        sums = tl.cumsum(x, 1)
    else:  # Triton 3.2 cannot read sums at the ends of segments, and fails where ones are factors in TF32
        segment = tl.arange(0, BLOCK) // SEGMENT
        sums = tl.dot(x, (segment[:, None] <= segment[None, :]).to(tl.float32), input_precision="ieee")
    return carried[:, None] + sums


@triton.jit
def _before(x, carried, SEGMENT: tl.constexpr, BLOCK: tl.constexpr):
    """Return ``carried`` and the sums of a tile before each key's segment."""
    if SEGMENT == 1:
        sums = tl.cumsum(x, 1) - x
    else:
        segment = tl.arange(0, BLOCK) // SEGMENT
        sums = tl.dot(x, (segment[:, None] < segment[None, :]).to(tl.float32), input_precision="ieee")
    return carried[:, None] + sums


@triton.jit
def _scores(queries, keys, scaling):
    return tl.dot(queries, tl.trans(keys), input_precision=PRECISION) * scaling


@triton.jit
def _shares(queries, keys, lse, seen, scaling):
    """Return a tile of softmax weights; ``lse`` holds the logarithms of the rows' sums."""
    return tl.where(seen, tl.exp(_scores(queries, keys, scaling) - lse[:, None]), 0.0)


@triton.jit(do_not_specialize=_SIZES)
def forward(
    q, l_q, r_q, a_q, k, l_k, r_k, a_k, v, padding, seed, out, lse,
    q_b, q_h, q_t, k_b, k_h, k_s, o_b, o_h, o_t,
    B, H, T, S, D, scaling, rate,
    CAUSAL: tl.constexpr, SEGMENT: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Compute ``out``, and ``lse`` 3×B×H×T: of the scores, of the left and of the right pointer.

    l, r and a are the left and the right pointer and the local scores of AW; without a_q it is MW.
    """
    head = tl.program_id(0).to(tl.int64)
    b, h = head // H, head % H
    own = tl.program_id(1) * BLOCK_T
    t = own + tl.arange(0, BLOCK_T)
    if padding is not None:
        padding += b * S
    to_q, to_k = b * q_b + h * q_h, b * k_b + h * k_h
    step: tl.constexpr = BLOCK // SEGMENT * SEGMENT
    start = _start(padding, S, SEGMENT, BLOCK)
    end = S
    if CAUSAL:
        end = tl.minimum(S, own + BLOCK_T)

    l_queries = load_rows(l_q + to_q, t, q_t, T, D, BLOCK_D)
    r_queries = load_rows(r_q + to_q, t, q_t, T, D, BLOCK_D)
    l_highest, l_total = tl.full((BLOCK_T,), LOWEST, tl.float32), tl.zeros((BLOCK_T,), tl.float32)
    r_highest, r_total = tl.full((BLOCK_T,), LOWEST, tl.float32), tl.zeros((BLOCK_T,), tl.float32)
    for first in tl.range(start, end, step, num_stages=1):
        s = _keys_of(first, S, SEGMENT, BLOCK)
        seen = keys_seen(padding, t, s, T, S, CAUSAL)
        x = tl.where(seen, _scores(l_queries, load_rows(l_k + to_k, s, k_s, S, D, BLOCK_D), scaling), LOWEST)
        l_highest, shrink = next_maximum(l_highest, x)
        l_total = l_total * shrink + tl.sum(tl.where(seen, tl.exp(x - l_highest[:, None]), 0.0), 1)
        x = tl.where(seen, _scores(r_queries, load_rows(r_k + to_k, s, k_s, S, D, BLOCK_D), scaling), LOWEST)
        r_highest, shrink = next_maximum(r_highest, x)
        r_total = r_total * shrink + tl.sum(tl.where(seen, tl.exp(x - r_highest[:, None]), 0.0), 1)
    l_lse, r_lse = log_of_sum(l_highest, l_total), log_of_sum(r_highest, r_total)

    queries = load_rows(q + to_q, t, q_t, T, D, BLOCK_D)
    if a_q is not None:
        a_queries = load_rows(a_q + to_q, t, q_t, T, D, BLOCK_D)
    l_sum, r_sum = tl.zeros((BLOCK_T,), tl.float32), tl.zeros((BLOCK_T,), tl.float32)
    highest, total = tl.full((BLOCK_T,), LOWEST, tl.float32), tl.zeros((BLOCK_T,), tl.float32)
    attended = tl.zeros((BLOCK_T, BLOCK_D), tl.float32)
    for first in tl.range(start, end, step, num_stages=1):
        s = _keys_of(first, S, SEGMENT, BLOCK)
        seen = keys_seen(padding, t, s, T, S, CAUSAL)
        left = _shares(l_queries, load_rows(l_k + to_k, s, k_s, S, D, BLOCK_D), l_lse, seen, scaling)
        right = _shares(r_queries, load_rows(r_k + to_k, s, k_s, S, D, BLOCK_D), r_lse, seen, scaling)
        window = _upto(left, l_sum, SEGMENT, BLOCK) * (1 - _before(right, r_sum, SEGMENT, BLOCK))
        window += _upto(right, r_sum, SEGMENT, BLOCK) * (1 - _before(left, l_sum, SEGMENT, BLOCK))
        l_sum += tl.sum(left, 1)
        r_sum += tl.sum(right, 1)
        scores = _scores(queries, load_rows(k + to_k, s, k_s, S, D, BLOCK_D), scaling)
        if a_q is not None:
            scores += _scores(a_queries, load_rows(a_k + to_k, s, k_s, S, D, BLOCK_D), scaling) * window
        scores = tl.where(seen, scores, LOWEST)
        highest, shrink = next_maximum(highest, scores)
        weights = tl.where(seen, tl.exp(scores - highest[:, None]), 0.0)
        total = total * shrink + tl.sum(weights, 1)
        if a_q is None:
            weights *= window
        if seed is not None:
            weights *= _dropout(seed, head, t, first - start, S, rate, SEGMENT, BLOCK)
        values = load_rows(v + to_k, s, k_s, S, D, BLOCK_D)
        attended *= shrink[:, None]
        attended += tl.dot(weights.to(values.dtype), values, input_precision=PRECISION)
    attended /= tl.where(total > 0, total, 1.0)[:, None]
    store_rows(out + b * o_b + h * o_h, attended, t, o_t, T, D, BLOCK_D)
    rows = lse + head * T + t
    one = B.to(tl.int64) * H * T
    tl.store(rows, log_of_sum(highest, total), mask=t < T)
    tl.store(rows + one, l_lse, mask=t < T)
    tl.store(rows + 2 * one, r_lse, mask=t < T)


@triton.jit
def _dropout(seed, head, t, first, S, rate, SEGMENT: tl.constexpr, BLOCK: tl.constexpr):
    """Return the factors of the block of keys that begins ``first`` places after the first block."""
    step: tl.constexpr = BLOCK // SEGMENT * SEGMENT
    places = (S // step + 2) * BLOCK  # at least those of all blocks
    return dropout_factors(seed, head.to(tl.int32), t, first // step * BLOCK, places, rate, BLOCK)


@triton.jit
def _tile(
    queries, l_queries, r_queries, a_queries, lse, l_lse, r_lse, gradients, shares, l_sum, r_sum,
    keys, l_keys, r_keys, a_keys, values, factors, seen, scaling,
    ADDITIVE: tl.constexpr, SEGMENT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Return pointers, their sums, the window and the weights of values, and gradients.

    The gradients are those of the scores, the local scores and the window. ``shares`` is Σ out·d_out of each row.
    """
    left = _shares(l_queries, l_keys, l_lse, seen, scaling)
    right = _shares(r_queries, r_keys, r_lse, seen, scaling)
    l_upto, l_after = _upto(left, l_sum, SEGMENT, BLOCK), 1 - _before(left, l_sum, SEGMENT, BLOCK)
    r_upto, r_after = _upto(right, r_sum, SEGMENT, BLOCK), 1 - _before(right, r_sum, SEGMENT, BLOCK)
    window = l_upto * r_after + r_upto * l_after
    scores = _scores(queries, keys, scaling)
    d_weights = tl.dot(gradients, tl.trans(values), input_precision=PRECISION) * factors
    if ADDITIVE:
        local = _scores(a_queries, a_keys, scaling)
        weights = tl.where(seen, tl.exp(scores + local * window - lse[:, None]), 0.0)
        kept = weights * factors
        d_scores = weights * (d_weights - shares[:, None])
        d_local, d_window = d_scores * window, d_scores * local
    else:
        weights = tl.where(seen, tl.exp(scores - lse[:, None]), 0.0)
        kept = weights * window * factors
        d_scores = weights * (d_weights * window - shares[:, None])
        d_local, d_window = d_scores, weights * d_weights
    return left, right, l_upto, l_after, r_upto, r_after, window, kept, d_scores, d_local, d_window


@triton.jit
def _add_rows(start, rows, index, stride, count, D, BLOCK_D: tl.constexpr, ALONE: tl.constexpr):
    """Store rows × BLOCK_D, or add them if other programs do so as well."""
    if ALONE:
        store_rows(start, rows, index, stride, count, D, BLOCK_D)
    else:
        d = tl.arange(0, BLOCK_D)
        inside = (index[:, None] < count) & (d[None, :] < D)
        tl.atomic_add(start + index[:, None].to(tl.int64) * stride + d[None, :], rows, mask=inside, sem="relaxed")


@triton.jit(do_not_specialize=_SIZES)
def backward(
    q, l_q, r_q, a_q, k, l_k, r_k, a_k, v, padding, seed, out, lse, d_out, d_queries, d_keys,
    q_b, q_h, q_t, k_b, k_h, k_s, o_b, o_h, o_t, g_b, g_h, g_t,
    B, H, T, S, D, scaling, rate,
    CAUSAL: tl.constexpr, SEGMENT: tl.constexpr, ALONE: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Compute ``d_queries``, (3 or 4)×T×B×H×D, and ``d_keys``, (4 or 5)×S×B×H×D; in the order of the arguments.

    ALONE: the queries are one block. Otherwise ``d_keys`` is fp32 and 0 before.
    """
    head = tl.program_id(0).to(tl.int64)
    b, h = head // H, head % H
    own = tl.program_id(1) * BLOCK_T
    t = own + tl.arange(0, BLOCK_T)
    if padding is not None:
        padding += b * S
    to_q, to_k = b * q_b + h * q_h, b * k_b + h * k_h
    step: tl.constexpr = BLOCK // SEGMENT * SEGMENT
    start = _start(padding, S, SEGMENT, BLOCK)
    end = S
    if CAUSAL:
        end = tl.minimum(S, own + BLOCK_T)

    ADDITIVE: tl.constexpr = a_q is not None
    queries = load_rows(q + to_q, t, q_t, T, D, BLOCK_D)
    l_queries = load_rows(l_q + to_q, t, q_t, T, D, BLOCK_D)
    r_queries = load_rows(r_q + to_q, t, q_t, T, D, BLOCK_D)
    a_queries = queries
    if ADDITIVE:
        a_queries = load_rows(a_q + to_q, t, q_t, T, D, BLOCK_D)
    gradients = load_rows(d_out + b * g_b + h * g_h, t, g_t, T, D, BLOCK_D)
    outputs = load_rows(out + b * o_b + h * o_h, t, o_t, T, D, BLOCK_D)
    shares = tl.sum(outputs.to(tl.float32) * gradients.to(tl.float32), 1)
    rows = lse + head * T + t
    one = B.to(tl.int64) * H * T
    sums = tl.load(rows, mask=t < T, other=float("inf"))
    l_lse = tl.load(rows + one, mask=t < T, other=float("inf"))
    r_lse = tl.load(rows + 2 * one, mask=t < T, other=float("inf"))

    # Σ g·m, and the totals of g·(1 - before(r)) and g·(1 - before(l)).
    nothing = tl.zeros((BLOCK_T,), tl.float32)
    by_window, l_rest, r_rest, l_sum, r_sum = nothing, nothing, nothing, nothing, nothing
    for first in tl.range(start, end, step, num_stages=1):
        s = _keys_of(first, S, SEGMENT, BLOCK)
        seen = keys_seen(padding, t, s, T, S, CAUSAL)
        keys = load_rows(k + to_k, s, k_s, S, D, BLOCK_D)
        l_keys = load_rows(l_k + to_k, s, k_s, S, D, BLOCK_D)
        r_keys = load_rows(r_k + to_k, s, k_s, S, D, BLOCK_D)
        a_keys = keys
        if ADDITIVE:
            a_keys = load_rows(a_k + to_k, s, k_s, S, D, BLOCK_D)
        values = load_rows(v + to_k, s, k_s, S, D, BLOCK_D)
        factors = tl.full((BLOCK_T, BLOCK), 1.0, tl.float32)
        if seed is not None:
            factors = _dropout(seed, head, t, first - start, S, rate, SEGMENT, BLOCK)
        left, right, l_upto, l_after, r_upto, r_after, window, kept, d_scores, d_local, d_window = _tile(
            queries, l_queries, r_queries, a_queries, sums, l_lse, r_lse, gradients, shares, l_sum, r_sum,
            keys, l_keys, r_keys, a_keys, values, factors, seen, scaling, ADDITIVE, SEGMENT, BLOCK,
        )  # fmt: skip
        by_window += tl.sum(d_window * window, 1)
        l_rest += tl.sum(d_window * r_after, 1)
        r_rest += tl.sum(d_window * l_after, 1)
        l_sum += tl.sum(left, 1)
        r_sum += tl.sum(right, 1)

    d_q, d_l = tl.zeros((BLOCK_T, BLOCK_D), tl.float32), tl.zeros((BLOCK_T, BLOCK_D), tl.float32)
    d_r, d_a = tl.zeros((BLOCK_T, BLOCK_D), tl.float32), tl.zeros((BLOCK_T, BLOCK_D), tl.float32)
    l_sum, r_sum = nothing, nothing
    row = B * H * D
    to_row = (b * H + h) * D
    d_keys += to_row
    one = B.to(tl.int64) * S * H * D
    for first in tl.range(start, end, step, num_stages=1):
        s = _keys_of(first, S, SEGMENT, BLOCK)
        seen = keys_seen(padding, t, s, T, S, CAUSAL)
        keys = load_rows(k + to_k, s, k_s, S, D, BLOCK_D)
        l_keys = load_rows(l_k + to_k, s, k_s, S, D, BLOCK_D)
        r_keys = load_rows(r_k + to_k, s, k_s, S, D, BLOCK_D)
        a_keys = keys
        if ADDITIVE:
            a_keys = load_rows(a_k + to_k, s, k_s, S, D, BLOCK_D)
        values = load_rows(v + to_k, s, k_s, S, D, BLOCK_D)
        factors = tl.full((BLOCK_T, BLOCK), 1.0, tl.float32)
        if seed is not None:
            factors = _dropout(seed, head, t, first - start, S, rate, SEGMENT, BLOCK)
        left, right, l_upto, l_after, r_upto, r_after, window, kept, d_scores, d_local, d_window = _tile(
            queries, l_queries, r_queries, a_queries, sums, l_lse, r_lse, gradients, shares, l_sum, r_sum,
            keys, l_keys, r_keys, a_keys, values, factors, seen, scaling, ADDITIVE, SEGMENT, BLOCK,
        )  # fmt: skip
        l_sum += tl.sum(left, 1)
        r_sum += tl.sum(right, 1)
        # ``l_rest`` and ``r_rest`` become what is left of the totals and the sums of g·upto so far.
        upto, after = d_window * r_upto, d_window * r_after
        d_left = left * (_upto(upto, l_rest, SEGMENT, BLOCK) - _before(after, by_window, SEGMENT, BLOCK)) * scaling
        l_rest += tl.sum(upto - after, 1)
        upto, after = d_window * l_upto, d_window * l_after
        d_right = right * (_upto(upto, r_rest, SEGMENT, BLOCK) - _before(after, by_window, SEGMENT, BLOCK)) * scaling
        r_rest += tl.sum(upto - after, 1)
        d_left, d_right = d_left.to(keys.dtype), d_right.to(keys.dtype)
        d_scores = (d_scores * scaling).to(keys.dtype)
        d_q += tl.dot(d_scores, keys, input_precision=PRECISION)
        d_l += tl.dot(d_left, l_keys, input_precision=PRECISION)
        d_r += tl.dot(d_right, r_keys, input_precision=PRECISION)
        x = tl.dot(tl.trans(d_scores), queries, input_precision=PRECISION)
        _add_rows(d_keys, x, s, row, S, D, BLOCK_D, ALONE)
        x = tl.dot(tl.trans(d_left), l_queries, input_precision=PRECISION)
        _add_rows(d_keys + one, x, s, row, S, D, BLOCK_D, ALONE)
        x = tl.dot(tl.trans(d_right), r_queries, input_precision=PRECISION)
        _add_rows(d_keys + 2 * one, x, s, row, S, D, BLOCK_D, ALONE)
        if ADDITIVE:
            d_local = (d_local * scaling).to(keys.dtype)
            d_a += tl.dot(d_local, a_keys, input_precision=PRECISION)
            x = tl.dot(tl.trans(d_local), a_queries, input_precision=PRECISION)
            _add_rows(d_keys + 3 * one, x, s, row, S, D, BLOCK_D, ALONE)
        x = tl.dot(tl.trans(kept.to(gradients.dtype)), gradients, input_precision=PRECISION)
        _add_rows(d_keys + (4 if ADDITIVE else 3) * one, x, s, row, S, D, BLOCK_D, ALONE)
    d_queries += to_row
    one = B.to(tl.int64) * T * H * D
    store_rows(d_queries, d_q, t, row, T, D, BLOCK_D)
    store_rows(d_queries + one, d_l, t, row, T, D, BLOCK_D)
    store_rows(d_queries + 2 * one, d_r, t, row, T, D, BLOCK_D)
    if ADDITIVE:
        store_rows(d_queries + 3 * one, d_a, t, row, T, D, BLOCK_D)
