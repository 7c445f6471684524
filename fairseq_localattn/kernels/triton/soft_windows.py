"""Attention with the differentiable windows of DiffWin, AW and MW, as kernels of Triton.

The kernels read the keys block by block and carry cumulative sums from block to block: no tensor is T×S. A pass forward
launches one kernel, and one that draws the seed of dropout. A pass backward launches one kernel for up to 32 queries;
for more also one that sets the gradients of keys and values to 0, to which blocks of queries add, and, in half
precision, one that rounds them. Such sums have no fixed order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .operators import draw_seed, in_rows, operator, power_of_two, with_adjacent_channels

BLOCK = 32  # keys that a program computes at once; a segment is not longer


def window_attention(
    queries: Sequence[Tensor],
    keys: Sequence[Tensor],
    *,
    padding: Tensor | None,
    scaling: float,
    dropout: float,
    segment: int,
    causal: bool,
) -> Tensor:
    """Compute attention with a soft window, B×H×T×D; 0, without a gradient, for queries that see no key.

    Args:
        queries: B×H×T×D, of the scores, the left and the right pointer, and for AW the local scores. All tensors have
            one dtype that :func:`reason_against_triton` lets pass.
        keys: B×H×S×D, in the same order, and the values.
        padding: B×S, boolean, True = padding.
        scaling: factor of the dot products.
        dropout: rate on the weights.
        segment: keys in a segment, from the first real key on, at most :data:`BLOCK`; 1 is the token form.
        causal: hide the future; T = S, and segments of 1.
    """
    padding = None if padding is None else padding.contiguous().view(torch.uint8)
    options = scaling, dropout, segment, causal
    out: Tensor = _Window.apply(padding, options, len(queries), *_alike(queries), *_alike(keys))
    return out


def _alike(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the tensors, copied unless all have the same strides and adjacent channels."""
    same = len({x.stride() for x in tensors}) == 1 and tensors[0].stride(-1) == 1
    return list(tensors) if same else [x.contiguous() for x in tensors]


class _Window(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, padding: Tensor | None, options: tuple[Any, ...], count: int, *tensors: Tensor) -> Tensor:
        seed = draw_seed(tensors[0].device) if options[1] else None
        ctx.options, ctx.count = options, count
        out, lse = _forward(tensors[:count], tensors[count:], padding, seed, *options)
        ctx.save_for_backward(padding, seed, out, lse, *tensors)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        padding, seed, out, lse, *tensors = ctx.saved_tensors
        inputs = tensors[: ctx.count], tensors[ctx.count :], padding, seed, out, lse
        found = _backward(with_adjacent_channels(gradient), *inputs, *ctx.options)
        return None, None, None, *(x for joined in found for x in joined.permute(0, 2, 3, 1, 4).unbind(0))


def _arguments(queries: Sequence[Tensor], keys: Sequence[Tensor]) -> tuple[list[Any], list[int], dict[str, int]]:
    """Return tensors and strides as the kernels take them, and the compiled sizes."""
    (q, *more), (*ks, v) = queries, keys
    local = [None] * (4 - len(queries))
    channels = q.size(-1)
    # What fits into the registers of four warps, found by compiling for NVIDIA's GPUs.
    most = 32 if channels * q.element_size() <= 128 else 16
    sizes = min(most, max(16, power_of_two(q.size(2)))), BLOCK, max(16, power_of_two(channels))
    compiled = dict(zip(("BLOCK_T", "BLOCK", "BLOCK_D"), sizes, strict=True))
    return [q, *more, *local, *ks, *local, v], [*q.stride()[:3], *v.stride()[:3]], compiled


def _run_forward(queries: Sequence[Tensor], keys: Sequence[Tensor], *rest: Any) -> tuple[Tensor, Tensor]:
    from .soft_window_kernels import forward

    padding, seed, scaling, rate, segment, causal = rest
    out, lse = _make_forward(queries)
    batch, heads, length, channels = out.shape
    tensors, strides, compiled = _arguments(queries, keys)
    forward[batch * heads, -(-length // compiled["BLOCK_T"])](
        *tensors, padding, seed, out, lse, *strides, *out.stride()[:3],
        batch, heads, length, keys[0].size(2), channels, scaling, rate,
        CAUSAL=causal, SEGMENT=segment, num_warps=4, **compiled,
    )  # fmt: skip
    return out, lse


def _make_forward(queries: Sequence[Tensor], *_: Any) -> tuple[Tensor, Tensor]:
    q = queries[0]
    return in_rows(q), q.new_empty(3, *q.shape[:3], dtype=torch.float32)


def _run_backward(
    gradient: Tensor, queries: Sequence[Tensor], keys: Sequence[Tensor], *rest: Any
) -> tuple[Tensor, Tensor]:
    from .soft_window_kernels import backward

    padding, seed, out, lse, scaling, rate, segment, causal = rest
    by_queries, by_keys = _make_backward(gradient, queries, keys)
    batch, heads, length, channels = out.shape
    tensors, strides, compiled = _arguments(queries, keys)
    blocks = -(-length // compiled["BLOCK_T"])
    sums = by_keys if blocks == 1 else torch.zeros_like(by_keys, dtype=torch.float32)
    backward[batch * heads, blocks](
        *tensors, padding, seed, out, lse, gradient, by_queries, sums,
        *strides, *out.stride()[:3], *gradient.stride()[:3],
        batch, heads, length, keys[0].size(2), channels, scaling, rate,
        CAUSAL=causal, SEGMENT=segment, ALONE=blocks == 1, num_warps=4, **compiled,
    )  # fmt: skip
    return by_queries, sums.to(by_keys.dtype)


def _make_backward(
    gradient: Tensor, queries: Sequence[Tensor], keys: Sequence[Tensor], *_: Any
) -> tuple[Tensor, Tensor]:
    def joined(tensors: Sequence[Tensor]) -> Tensor:
        batch, heads, length, channels = tensors[0].shape
        return tensors[0].new_empty(len(tensors), length, batch, heads, channels)

    return joined(queries), joined(keys)


_INPUTS = "Tensor[] queries, Tensor[] keys, Tensor? padding, Tensor? seed"
_OPTIONS = "float scaling, float rate, int segment, bool causal"
_forward = operator(f"soft_window({_INPUTS}, {_OPTIONS}) -> (Tensor, Tensor)", _run_forward, _make_forward)
_backward = operator(
    f"soft_window_backward(Tensor gradient, {_INPUTS}, Tensor out, Tensor lse, {_OPTIONS}) -> (Tensor, Tensor)",
    _run_backward,
    _make_backward,
)
