"""Attention with the dynamic mask of MAN, ``softmax(scaling · QKᵀ + log M) V``, as kernels of Triton.

``M[b, h, t, s] = σ(x[b, t] + P[t - s] + U[h])``, at least σ(z₀), is computed where it is used: no tensor is T×T. A pass
forward launches one kernel, and one that draws the seed of dropout; a pass backward launches three: one clears the
sums by distance, one computes gradients, and one sums those of x, P and U. Sums by distance have no fixed order.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..once import once_differentiable
from .operators import block_size, draw_seed, in_rows, operator, power_of_two, warps, with_adjacent_channels

_TERMS = "Tensor by_query, Tensor by_distance, Tensor by_head, Tensor? padding, Tensor? seed"
_OPTIONS = "float scaling, float lowest_z, float rate, int ahead, bool causal"
_ROWS, _COLUMNS = 64, 32  # of a block of sums


def dynamic_mask_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    terms: tuple[Tensor, Tensor, Tensor],
    *,
    padding: Tensor | None,
    scaling: float,
    lowest_z: float,
    dropout: float,
    ahead: int,
    causal: bool,
) -> Tensor:
    """Compute attention of self-attention, B×H×T×D; 0, without a gradient, for queries that see no key.

    Args:
        q, k, v: B×H×T×D, of one dtype that :func:`reason_against_triton` lets pass.
        terms: x, B×T in fp32; P of the distances -ahead … (its length - ahead - 1), which stand for those beyond; U, H.
        padding: B×T, boolean, True = padding.
        scaling: factor of the dot products.
        lowest_z: the least argument of the sigmoid; below it no gradient.
        dropout: rate on the weights.
        ahead: the greatest distance in the future with an entry in P.
        causal: hide the future.
    """
    q, k, v = (with_adjacent_channels(x) for x in (q, k, v))
    by_query, by_distance, by_head = (x.contiguous() for x in terms)
    padding = None if padding is None else padding.contiguous().view(torch.uint8)
    options = scaling, lowest_z, dropout, ahead, causal
    out: Tensor = _DynamicMask.apply(q, k, v, by_query, by_distance, by_head, padding, options)
    return out


class _DynamicMask(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Tensor:
        by_query, by_distance, by_head, padding, ctx.options = rest
        seed = draw_seed(q.device) if ctx.options[2] else None
        inputs = q, k, v, by_query, by_distance, by_head, padding, seed
        out, lse = _forward(*inputs, *ctx.options)
        ctx.save_for_backward(*inputs, out, lse)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gradients = _backward(with_adjacent_channels(gradient), *ctx.saved_tensors, *ctx.options)
        return *gradients, None, None


def _blocks(q: Tensor, most: int) -> tuple[int, dict[str, int]]:
    """Return the number of queries of a block, and the kernels' options; the pass backward has more blocks at once."""
    channels, size = q.size(3), q.element_size()
    block = min(most, block_size(q.size(2), channels, size))
    width = max(16, power_of_two(channels))
    return block, {"BLOCK": block, "BLOCK_D": width, "num_warps": warps(block, channels * size)}


def _run_forward(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    from .dman_kernels import forward

    by_query, by_distance, by_head, padding, seed, scaling, lowest_z, rate, ahead, causal = rest
    batch, heads, length, channels = q.shape
    out, lse = _make_forward(q)
    block, options = _blocks(q, most=64)
    forward[batch * heads, -(-length // block)](
        q, k, v, by_query, by_distance, by_head, padding, seed, out, lse,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *out.stride()[:3],
        heads, length, channels, ahead, by_distance.numel() - ahead - 1, scaling, lowest_z, rate,
        CAUSAL=causal, **options,
    )  # fmt: skip
    return out, lse


def _make_forward(q: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return in_rows(q), q.new_empty(q.shape[:3], dtype=torch.float32)


def _run_backward(gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    from .dman_kernels import backward, collect

    by_query, by_distance, by_head, padding, seed, out, lse, scaling, lowest_z, rate, ahead, causal = rest
    batch, heads, length, channels = q.shape
    d_q, d_k, d_v, *d_terms = _make_backward(gradient, q, k, v, by_query, by_distance, by_head)
    shift, width = (0, length) if causal else (length - 1, 2 * length - 1)
    behind = by_distance.numel() - ahead - 1
    rows, distances = torch.empty_like(lse), lse.new_zeros(batch, heads, width)
    block, options = _blocks(q, most=32)
    blocks = -(-length // block)
    backward[batch * heads, blocks](
        q, k, v, by_query, by_distance, by_head, padding, seed, out, lse, gradient, d_q, d_k, d_v, rows, distances,
        *(step for x in (q, k, v, out, gradient, d_q) for step in x.stride()[:3]),
        heads, length, channels, ahead, behind, shift, width, scaling, lowest_z, rate,
        CAUSAL=causal, ONE=blocks == 1, **options,
    )  # fmt: skip
    programs = heads - (-by_distance.numel() // _COLUMNS) - (-batch * length // _ROWS)
    collect[programs,](
        rows, distances, *d_terms, batch, heads, length, ahead, behind, shift, width, ROWS=_ROWS, COLUMNS=_COLUMNS
    )
    return d_q, d_k, d_v, *d_terms


def _make_backward(gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    return *(in_rows(x) for x in (q, k, v)), *(torch.empty_like(x) for x in rest[:3])


_forward = operator(
    f"dman(Tensor q, Tensor k, Tensor v, {_TERMS}, {_OPTIONS}) -> (Tensor, Tensor)", _run_forward, _make_forward
)
_backward = operator(
    f"dman_backward(Tensor gradient, Tensor q, Tensor k, Tensor v, {_TERMS}, Tensor out, Tensor lse, {_OPTIONS})"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    _run_backward,
    _make_backward,
)
