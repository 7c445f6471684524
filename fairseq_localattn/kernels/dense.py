"""Dense and causal attention, by products with their own backward pass or by torch's fused kernels.

torch's fused CPU kernel (``scaled_dot_product_attention``) does not store the weights, at a cost in time. Up to
:data:`PRODUCTS_UP_TO` keys the products below are faster; they also support dropout and masks that need a gradient,
which the CPU kernel does not. Tensors are copied or saved only where the gradient needs them.

Shapes: B sentences, H heads, T queries, S keys, D channels per head; G = B·H.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.amp import custom_bwd, custom_fwd

from .dropout import dropout as drop
from .dropout import dropout_factors
from .masks import ALIGNED, aligned, at_least_fp32, join_masks, lowest_score, normalise
from .once import once_differentiable
from .passes import is_shared, shared

# Where the fused kernel becomes faster, measured on two cores with d=512 and 8 heads (docs/what-was-tried.md).
PRODUCTS_UP_TO = 160
# The least length at which leaving out what a causal mask hides, in blocks of 512 keys, makes the fused kernel faster.
SKIPPED_FROM = 640
# flex: kernels/flex.py, triton: kernels/triton/; sdpa where these cannot.
IMPLEMENTATIONS = ("auto", "products", "sdpa", "flex", "triton")


def use_products(
    q: Tensor,
    k: Tensor,
    bias: Tensor | None = None,
    *,
    dropout: float = 0.0,
    implementation: str = "auto",
    banded: bool = False,
) -> bool:
    """Return whether attention is computed by products instead of torch's fused kernel.

    Args:
        q, k: B×H×T×D and B×H×S×D.
        bias: added to the scores.
        dropout: rate on the weights.
        implementation: one of :data:`IMPLEMENTATIONS`; ``auto`` chooses the faster one.
        banded: the attention is restricted to a band, for which torch has no kernel.

    In half precision and under autocast, products are taken on a CPU alone. There torch's fused kernel is slower for
    sentences in bf16 and for a step of decoding. In fp16 they are taken only where gradients are recorded.
    """
    half = q.dtype not in (torch.float32, torch.float64) or torch.is_autocast_enabled(q.device.type)
    if half and (q.device.type != "cpu" or (q.dtype == torch.float16 and not torch.is_grad_enabled())):
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
    hidden: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    scaling: float,
    dropout: float = 0.0,
) -> Tensor:
    """Compute ``dropout(softmax(scaling · QKᵀ + bias)) V``. Differentiable once.

    Args:
        q: B×H×T×D.
        k, v: B×H×S×D.
        hidden: broadcastable to B×H×T×S, True = hidden; such keys have the score :func:`masks.lowest_score`.
        bias: broadcastable to B×H×T×S; may need a gradient.
        scaling: factor of the dot products.
        dropout: rate on the weights.

    Half precision is computed in fp32. Where no gradients are recorded, scores and weights of bf16 stay in bf16, with
    a softmax in fp32. Returns B×H×T×D.
    """
    return _attend(q, k, v, hidden=hidden, bias=bias, scaling=scaling, dropout=dropout)[0]


def _attend(
    q: Tensor, k: Tensor, v: Tensor, *, hidden: Tensor | None, bias: Tensor | None, scaling: float, dropout: float
) -> tuple[Tensor, Tensor]:
    """Return :func:`attention_by_products`, and the weights after dropout, B×H×T×S in at least fp32."""
    if q.dtype == torch.bfloat16 and not torch.is_grad_enabled():  # cached keys would be converted in every step
        return _attend_in_steps(q, k, v, hidden=hidden, bias=bias, scaling=scaling, dropout=dropout)
    with torch.autocast(q.device.type, enabled=False):
        wide_q, wide_k, wide_v = (x.to(at_least_fp32(x.dtype)) for x in (q, k, v))
        if torch.is_grad_enabled():
            attended, weights = _Attention.apply(wide_q, wide_k, wide_v, hidden, bias, scaling, dropout)
        else:
            options: dict[str, Any] = {"hidden": hidden, "bias": bias, "scaling": scaling, "dropout": dropout}
            attended, weights, *_ = _forward(wide_q, wide_k, wide_v, **options)
    return attended.to(v.dtype), weights


def _forward(
    q: Tensor, k: Tensor, v: Tensor, *, hidden: Tensor | None, bias: Tensor | None, scaling: float, dropout: float
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return :func:`_attend`, the weights before dropout, G×T×S, and the factors of the dropout, or None."""
    groups = q.shape[:2]
    scores = _scores(q.flatten(0, 1), k.flatten(0, 1), scaling)
    if bias is not None:
        scores.unflatten(0, groups).add_(bias)
    mask = join_masks(hidden, None, scores.dtype)
    if mask is not None:
        # Adding the lowest score rounds an ordinary score away: equal to setting it, and faster.
        scores.unflatten(0, groups).add_(mask)
        if bias is not None and not bias.requires_grad:  # an attn_mask, which may hide the same key
            scores.clamp_(min=lowest_score(scores.dtype))
    weights = torch.softmax(scores, dim=-1, out=scores)
    factors = dropout_factors(weights, dropout) if dropout else None
    kept = weights if factors is None else weights * factors
    attended = torch.bmm(kept, v.flatten(0, 1)).unflatten(0, groups)
    return attended, kept.unflatten(0, groups), weights, factors


def _attend_in_steps(
    q: Tensor, k: Tensor, v: Tensor, *, hidden: Tensor | None, bias: Tensor | None, scaling: float, dropout: float
) -> tuple[Tensor, Tensor]:
    """Return :func:`_attend` by functions of torch, in the precision of the factors but for the softmax."""
    weights = drop(weights_of(q, k, hidden, bias, scaling=scaling), dropout)
    return weighted_sum(weights.to(v.dtype), v), weights


def attention_and_weights(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    hidden: Tensor | None = None,
    bias: Tensor | None = None,
    scaling: float,
    dropout: float = 0.0,
    implementation: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Compute attention B×H×T×D and the weights B×H×T×S after dropout, both differentiable (once).

    Arguments as in :func:`fused_attention`. The weights have at least the precision of fp32.
    """
    if use_products(q, k, bias, dropout=dropout, implementation=implementation):
        return _attend(q, k, v, hidden=hidden, bias=bias, scaling=scaling, dropout=dropout)
    return _attend_in_steps(q, k, v, hidden=hidden, bias=bias, scaling=scaling, dropout=dropout)


def weights_of(q: Tensor, k: Tensor, hidden: Tensor | None, bias: Tensor | None, *, scaling: float) -> Tensor:
    """Compute ``softmax(scaling · QKᵀ + bias)``, B×H×T×S in at least fp32. Arguments as in :func:`fused_attention`."""
    scores = scaled_scores(q, k, scaling)
    mask = join_masks(hidden, bias, scores.dtype)
    return normalise(scores if mask is None else scores + mask)


def fused_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    hidden: Tensor | None = None,
    bias: Tensor | None = None,
    scaling: float,
    dropout: float = 0.0,
    implementation: str = "auto",
) -> Tensor:
    """Compute attention B×H×T×D without its weights, by products or by torch's fused kernel (see :func:`use_products`).

    Arguments as in :func:`attention_by_products`; ``implementation`` is one of :data:`IMPLEMENTATIONS`.
    """
    if use_products(q, k, bias, dropout=dropout, implementation=implementation):
        return attention_by_products(q, k, v, hidden, bias=bias, scaling=scaling, dropout=dropout)
    if q.size(1) == 0:  # no heads, for which some of torch's kernels divide by zero
        return q
    mask = join_masks(hidden, bias, q.dtype)
    if mask is not None and mask.device.type != "cpu" and is_shared(mask):
        mask = shared(partial(_aligned, mask), "aligned", mask)
    if mask is not None and mask.dim() == 3:
        mask = mask[None]  # torch's fused kernels take masks of 2 or 4 dimensions
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=scaling)


def _aligned(mask: Tensor) -> Tensor:
    """Return a mask whose rows start at multiples of eight numbers; torch would copy it in each layer on a GPU."""
    if not any(step % ALIGNED for step in mask.stride()[:-1]):
        return mask
    return aligned(mask.shape, like=mask).copy_(mask)


def can_skip_future(q: Tensor, k: Tensor, *, dropout: float, implementation: str) -> bool:
    """Return whether :func:`causal_attention` computes such a call, and faster than with a mask of T×T.

    On a CPU, with T = S of :data:`SKIPPED_FROM` or more, without dropout, and unless products are asked for. Arguments
    as in :func:`fused_attention`.
    """
    long = q.device.type == "cpu" and q.size(2) == k.size(2) >= SKIPPED_FROM
    return long and not dropout and implementation != "products"


def causal_attention(
    q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None, *, scaling: float, future: bool = False
) -> Tensor:
    """Compute attention of each query to its own key and those before it, on a CPU by torch's fused kernel.

    The kernel leaves out blocks of keys that no query of a block sees, and keeps no tensor of T×T. torch's public
    function refuses padding beside ``is_causal``. :func:`can_skip_future` says where this may be called.

    Args:
        q, k, v: B×H×T×D, of one dtype.
        padding: B×T, boolean, True = padding; such keys have the score :func:`masks.lowest_score`.
        scaling: factor of the dot products.
        future: see the own key and those after it instead.

    Returns B×H×T×D.
    """
    if future:
        q, k, v = (x.flip(2) for x in (q, k, v))
        padding = None if padding is None else padding.flip(1)
    mask = None
    if padding is not None:
        mask = join_masks(padding[:, None, None], None, q.dtype).expand(-1, -1, q.size(2), -1)  # type: ignore[union-attr]
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    attended = flash(q, k, v, 0.0, True, attn_mask=mask, scale=scaling)[0]
    return attended.flip(2) if future else attended


def scaled_scores(q: Tensor, k: Tensor, scaling: float) -> Tensor:
    """Compute ``scaling · QKᵀ``: B×H×T×S from q B×H×T×D and k B×H×S×D. Differentiable once.

    Scores of factors in fp16 are computed in fp32, because they may exceed the range of fp16.
    """
    with _range_of_scores(q):
        return _Scores.apply(*_widened(q, k), scaling)


def paired_scores(q: Tensor, other_q: Tensor, k: Tensor, other_k: Tensor, *, scaling: float) -> Tensor:
    """Compute :func:`scaled_scores` of (q, k) and of (other_q, other_k) as 2×B×H×T×S. Differentiable once."""
    with _range_of_scores(q):
        return _PairedScores.apply(*_widened(q, other_q, k, other_k), scaling)


def _range_of_scores(q: Tensor) -> AbstractContextManager[object]:
    """Return a context without autocast for queries in fp16, and one that changes nothing for others."""
    return torch.autocast(q.device.type, enabled=False) if q.dtype == torch.float16 else nullcontext()


def _widened(*factors: Tensor) -> tuple[Tensor, ...]:
    """Return the factors of scores, those in fp16 as fp32."""
    return tuple(x.float() if x.dtype == torch.float16 else x for x in factors)


def weighted_sum(weights: Tensor, v: Tensor) -> Tensor:
    """Multiply weights B×H×T×S by values B×H×S×D. Returns B×H×T×D."""
    return torch.bmm(weights.flatten(0, 1), v.flatten(0, 1)).unflatten(0, weights.shape[:2])


def _scores(q: Tensor, k: Tensor, scaling: float, out: Tensor | None = None) -> Tensor:
    """Return ``scaling · QKᵀ``, G×T×S from G×T×D and G×S×D; the product applies the factor."""
    if q.size(1) == 1:  # a step of decoding: faster as keys times a vector, most of all by oneDNN
        by_key = torch.bmm(k, (q * scaling).transpose(1, 2), out=None if out is None else out.transpose(1, 2))
        return by_key.transpose(1, 2)
    return torch.baddbmm(q.new_empty(()), q, k.transpose(1, 2), beta=0, alpha=scaling, out=out)


def _score_gradients(gradient: Tensor, q: Tensor, k: Tensor, scaling: float) -> tuple[Tensor, Tensor]:
    """Return the gradients of q and k, given that of :func:`_scores`."""
    nothing = q.new_empty(())
    by_q = torch.baddbmm(nothing, gradient, k, beta=0, alpha=scaling)
    return by_q, torch.baddbmm(nothing, gradient.transpose(1, 2), q, beta=0, alpha=scaling)


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
            _score_gradients(by_scores.flatten(0, 1), *pair, ctx.scaling)
            for by_scores, pair in zip(gradient, ((q, k), (other_q, other_k)), strict=True)
        ]
        return *(x.unflatten(0, ctx.groups) for pair in zip(*gradients, strict=True) for x in pair), None


class _Attention(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cpu")
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        hidden: Tensor | None,
        bias: Tensor | None,
        scaling: float,
        dropout: float,
    ) -> tuple[Tensor, Tensor]:
        options: dict[str, Any] = {"hidden": hidden, "bias": bias, "scaling": scaling, "dropout": dropout}
        attended, kept, weights, factors = _forward(q, k, v, **options)
        groups = q.shape[:2]
        # Views, not copies: the projections lay sentences and heads out at equal steps.
        ctx.save_for_backward(*(x.flatten(0, 1) for x in (q, k, v)), weights, factors)
        ctx.scaling, ctx.groups = scaling, groups
        ctx.bias = (bias.shape, bias.dtype) if bias is not None and bias.requires_grad else None
        ctx.set_materialize_grads(False)
        return attended, kept

    @staticmethod
    @custom_bwd(device_type="cpu")  # without autocast, as the forward pass
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor | None, by_kept: Tensor | None) -> tuple[Tensor | None, ...]:
        q, k, v, weights, factors = ctx.saved_tensors
        gradient = torch.zeros_like(q) if gradient is None else gradient.flatten(0, 1)
        kept = weights if factors is None else weights * factors
        by_v = torch.bmm(kept.transpose(1, 2), gradient)
        by_weights = torch.bmm(gradient, v.transpose(1, 2))
        if by_kept is not None:
            by_weights.unflatten(0, ctx.groups).add_(by_kept)
        if factors is not None:
            by_weights *= factors
        by_scores = torch._softmax_backward_data(by_weights, weights, -1, weights.dtype, grad_input=by_weights)
        by_q, by_k = _score_gradients(by_scores, q, k, ctx.scaling)
        by_bias = None
        if ctx.bias is not None:
            shape, dtype = ctx.bias
            by_bias = by_scores.unflatten(0, ctx.groups).sum_to_size(shape).to(dtype)
        return *(x.unflatten(0, ctx.groups) for x in (by_q, by_k, by_v)), None, by_bias, None, None
