"""Attention as matrix products with a backward pass of its own: the fastest on a CPU for sentences.

torch's fused kernel for CPUs saves the weights' memory, and pays for it in time: up to :data:`PRODUCTS_UP_TO` keys the
products are faster, and they take masks that need a gradient and dropout, which that kernel does not. Nothing is copied
or kept that the gradient does not need. Letters in shapes: B sentences, H heads, T queries, S keys, D channels a head.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .dropout import dropout_factors
from .masks import lowest_score

# One attention, d=512, 8 heads, two cores: products take .98 of the fused kernel's time at 28 keys (masked: .95), .94
# at 120, 1.03 at 200, 1.12 at 300.
PRODUCTS_UP_TO = 160
IMPLEMENTATIONS = ("auto", "products", "sdpa")


def products_suit(
    q: Tensor, k: Tensor, bias: Tensor | None, dropout: float, implementation: str = "auto", banded: bool = False
) -> bool:
    """Whether attention is computed by products: always, never, or where they are faster (see IMPLEMENTATIONS).

    In half precision it is never: torch's kernels have their softmax in fp32. ``banded``: inside of a band, where
    torch has no kernel.
    """
    if q.dtype not in (torch.float32, torch.float64) or torch.is_autocast_enabled(q.device.type):
        return False
    if implementation != "auto":
        return implementation == "products"
    if q.device.type != "cpu":
        return False
    return banded or k.size(2) <= PRODUCTS_UP_TO or dropout > 0 or (bias is not None and bias.requires_grad)


def attention_by_products(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    hidden: Tensor | None,
    bias: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
) -> Tensor:
    """``dropout(softmax(scaling · QKᵀ + bias)) V``: B×H×T×D from q B×H×T×D, and k and v B×H×S×D.

    Args:
        hidden: True = hidden; its logit is :func:`frame.lowest_score`.
        bias: added; may need a gradient, which is 0 at what is hidden. Both broadcastable to B×H×T×S.
        dropout: the rate.

    Differentiable once.
    """
    return _Attention.apply(q, k, v, hidden, bias, scaling, dropout)


def scaled_scores(q: Tensor, k: Tensor, scaling: float) -> Tensor:
    """``scaling · QKᵀ``: B×H×T×S from q B×H×T×D and k B×H×S×D. Differentiable once."""
    return _Scores.apply(q, k, scaling)


def paired_scores(q: Tensor, other_q: Tensor, k: Tensor, other_k: Tensor, scaling: float) -> Tensor:
    """:func:`scaled_scores` of both pairs of queries and keys in one tensor: 2×B×H×T×S. Differentiable once."""
    return _PairedScores.apply(q, other_q, k, other_k, scaling)


def weighted_sum(weights: Tensor, v: Tensor) -> Tensor:
    """Weights B×H×T×S times values B×H×S×D: B×H×T×D."""
    return torch.bmm(weights.flatten(0, 1), v.flatten(0, 1)).unflatten(0, weights.shape[:2])


def _scores(q: Tensor, k: Tensor, scaling: float, out: Tensor | None = None) -> Tensor:
    """G×T×S from G×T×D and G×S×D, with the scaling inside of the product."""
    return torch.baddbmm(q.new_empty(()), q, k.transpose(1, 2), beta=0, alpha=scaling, out=out)


def _score_gradients(gradient: Tensor, q: Tensor, k: Tensor, scaling: float) -> tuple[Tensor, Tensor]:
    """Those of q and k of :func:`_scores`."""
    nothing = q.new_empty(())
    by_q = torch.baddbmm(nothing, gradient, k, beta=0, alpha=scaling)
    return by_q, torch.baddbmm(nothing, gradient.transpose(1, 2), q, beta=0, alpha=scaling)


def _may_see_nothing(hidden: Tensor) -> bool:
    """Whether a query may have all of its keys hidden. On a GPU, which would have to wait for the answer: yes."""
    return hidden.device.type != "cpu" or bool(hidden.all(-1).any())


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, scaling: float) -> Tensor:
        flat = q.flatten(0, 1), k.flatten(0, 1)
        ctx.save_for_backward(*flat)
        ctx.scaling, ctx.groups = scaling, q.shape[:2]
        return _scores(*flat, scaling).unflatten(0, ctx.groups)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        q, k = ctx.saved_tensors
        by_q, by_k = _score_gradients(gradient.flatten(0, 1), q, k, ctx.scaling)
        return by_q.unflatten(0, ctx.groups), by_k.unflatten(0, ctx.groups), None


class _PairedScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, other_q: Tensor, k: Tensor, other_k: Tensor, scaling: float) -> Tensor:
        flat = [x.flatten(0, 1) for x in (q, other_q, k, other_k)]
        ctx.save_for_backward(*flat)
        ctx.scaling, ctx.groups = scaling, q.shape[:2]
        pair = q.new_empty(2, *q.shape[:3], k.size(2))
        for at, scores in enumerate(pair.flatten(1, 2)):
            _scores(flat[at], flat[2 + at], scaling, out=scores)
        return pair

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        q, other_q, k, other_k = ctx.saved_tensors
        gradients = [
            _score_gradients(by_scores.flatten(0, 1), *sides, ctx.scaling)
            for by_scores, sides in zip(gradient, ((q, k), (other_q, other_k)), strict=True)
        ]
        return *(x.unflatten(0, ctx.groups) for sides in zip(*gradients, strict=True) for x in sides), None


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        hidden: Tensor | None,
        bias: Tensor | None,
        scaling: float,
        dropout: float,
    ) -> Tensor:
        groups = q.shape[:2]
        # Heads are views of what the projections gave: flattening copies nothing.
        q, k, v = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
        scores = _scores(q, k, scaling)
        if bias is not None:
            scores.unflatten(0, groups).add_(bias)
        if hidden is not None:
            # Next to the lowest score a usual one is rounded away, so to add it is to set it; and adding is faster.
            lowest = torch.zeros(hidden.shape, dtype=scores.dtype, device=scores.device)
            scores.unflatten(0, groups).add_(lowest.masked_fill_(hidden, lowest_score(scores.dtype)))
            if bias is not None and not bias.requires_grad:  # a mask's, which may hide as well
                scores.clamp_(min=lowest_score(scores.dtype))
        weights = torch.softmax(scores, dim=-1, out=scores)
        factors = dropout_factors(weights, dropout) if dropout else None
        ctx.save_for_backward(q, k, v, weights, factors, hidden)
        ctx.scaling, ctx.groups = scaling, groups
        ctx.bias = (bias.shape, bias.dtype) if bias is not None and bias.requires_grad else None
        # Where a query has all of its keys hidden the softmax's gradient is not 0 at them, as it is elsewhere.
        ctx.blind = ctx.bias is not None and hidden is not None and _may_see_nothing(hidden)
        kept = weights if factors is None else weights * factors
        return torch.bmm(kept, v).unflatten(0, groups)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, weights, factors, hidden = ctx.saved_tensors
        gradient = gradient.flatten(0, 1)
        kept = weights if factors is None else weights * factors
        by_v = torch.bmm(kept.transpose(1, 2), gradient)
        by_weights = torch.bmm(gradient, v.transpose(1, 2))
        if factors is not None:
            by_weights *= factors
        by_scores = torch._softmax_backward_data(by_weights, weights, -1, weights.dtype, grad_input=by_weights)
        if ctx.blind:
            by_scores.unflatten(0, ctx.groups).mul_(~hidden)
        by_q, by_k = _score_gradients(by_scores, q, k, ctx.scaling)
        by_bias = None
        if ctx.bias is not None:
            shape, dtype = ctx.bias
            by_bias = by_scores.unflatten(0, ctx.groups).sum_to_size(shape).to(dtype)
        return *(x.unflatten(0, ctx.groups) for x in (by_q, by_k, by_v)), None, by_bias, None, None
