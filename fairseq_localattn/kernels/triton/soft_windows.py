"""Attention with the differentiable windows of DiffWin, AW and MW, as kernels of Triton.

The kernels read the keys block by block and carry cumulative sums from block to block: no tensor is T×S. A pass forward
launches one kernel, and one that draws the seed of dropout. A pass backward launches one if there is one block of
queries. Several blocks add to the gradients of keys and values, in no fixed order: one more kernel sets these to 0
before and, in half precision, one rounds them after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..once import once_differentiable
from .operators import draw_seed, in_rows, operator, power_of_two, with_adjacent_channels

BLOCK = 32  # keys that a program computes at once; a segment is not longer
MOST_BYTES = 256  # of a head's channels: more do not fit into the memory of a GPU's processor


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
        keys: B×H×S×D, in the same order, and the values at the end.
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
        *inputs, values = tensors
        given = values, inputs[:count], inputs[count:], padding, seed
        out, lse = _forward(*given, *options)
        ctx.save_for_backward(padding, seed, out, lse, *tensors)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        padding, seed, out, lse, *inputs, values = ctx.saved_tensors
        given = values, inputs[: ctx.count], inputs[ctx.count :], padding, seed, out, lse
        found = _backward(with_adjacent_channels(gradient), *given, *ctx.options)
        return None, None, None, *(x for y in found for x in y.to(out.dtype).permute(0, 2, 3, 1, 4).unbind(0))


def _blocks(q: Tensor, segment: int) -> tuple[int, int]:
    """Return how many queries a program computes at once, and how many blocks of them there are.

    A block is what four warps (forward) or eight (backward) keep in registers, as compiled for NVIDIA's GPUs.
    """
    most = 32 if segment == 1 and q.size(-1) * q.element_size() <= MOST_BYTES // 2 else 16
    block = min(most, max(16, power_of_two(q.size(2))))
    return block, -(-q.size(2) // block)


def _arguments(values: Tensor, queries: Sequence[Tensor], keys: Sequence[Tensor]) -> tuple[list[Any], list[int]]:
    """Return the tensors and the strides as the kernels take them."""
    absent = [None] * (4 - len(queries))
    return [*queries, *absent, *keys, *absent, values], [*queries[0].stride()[:3], *values.stride()[:3]]


def _run_forward(
    values: Tensor, queries: Sequence[Tensor], keys: Sequence[Tensor], *rest: Any
) -> tuple[Tensor, Tensor]:
    from .soft_window_kernels import forward

    padding, seed, scaling, rate, segment, causal = rest
    out, lse = _make_forward(values, queries)
    batch, heads, length, channels = out.shape
    tensors, strides = _arguments(values, queries, keys)
    block, blocks = _blocks(queries[0], segment)
    forward[batch * heads, blocks](
        *tensors, padding, seed, out, lse, *strides, *out.stride()[:3],
        batch, heads, length, values.size(2), channels, scaling, rate, CAUSAL=causal, SEGMENT=segment,
        BLOCK_T=block, BLOCK=BLOCK, BLOCK_D=max(16, power_of_two(channels)), num_warps=4,
    )  # fmt: skip
    return out, lse


def _make_forward(_: Tensor, queries: Sequence[Tensor], *rest: Any) -> tuple[Tensor, Tensor]:
    q = queries[0]
    return in_rows(q), q.new_empty(3, *q.shape[:3], dtype=torch.float32)


def _run_backward(
    gradient: Tensor, values: Tensor, queries: Sequence[Tensor], keys: Sequence[Tensor], *rest: Any
) -> tuple[Tensor, Tensor]:
    from .soft_window_kernels import backward

    padding, seed, out, lse, scaling, rate, segment, causal = rest
    by_queries, by_keys = _make_backward(gradient, values, queries, keys, *rest)
    batch, heads, length, channels = out.shape
    tensors, strides = _arguments(values, queries, keys)
    block, blocks = _blocks(queries[0], segment)
    if blocks > 1:
        by_keys.zero_()
    backward[batch * heads, blocks](
        *tensors, padding, seed, out, lse, gradient, by_queries, by_keys,
        *strides, *out.stride()[:3], *gradient.stride()[:3],
        batch, heads, length, values.size(2), channels, scaling, rate,
        CAUSAL=causal, SEGMENT=segment, ALONE=blocks == 1,
        BLOCK_T=block, BLOCK=BLOCK, BLOCK_D=max(16, power_of_two(channels)), num_warps=8,
    )  # fmt: skip
    return by_queries, by_keys


def _make_backward(
    _: Tensor, values: Tensor, queries: Sequence[Tensor], keys: Sequence[Tensor], *rest: Any
) -> tuple[Tensor, Tensor]:
    """Return n×T×B×H×D of the queries and n×S×B×H×D of the keys, in fp32 where blocks of queries add to them."""
    found = []
    for tensors in (queries, [*keys, values]):
        batch, heads, length, channels = tensors[0].shape
        found.append(tensors[0].new_empty(len(tensors), length, batch, heads, channels))
    by_queries, by_keys = found
    alone = _blocks(queries[0], segment=rest[-2])[1] == 1
    return by_queries, by_keys if alone else torch.empty_like(by_keys, dtype=torch.float32)


_INPUTS = "Tensor values, Tensor[] queries, Tensor[] keys, Tensor? padding, Tensor? seed"
_OPTIONS = "float scaling, float rate, int segment, bool causal"
_forward = operator(f"soft_window({_INPUTS}, {_OPTIONS}) -> (Tensor, Tensor)", _run_forward, _make_forward)
_backward = operator(
    f"soft_window_backward(Tensor gradient, {_INPUTS}, Tensor out, Tensor lse, {_OPTIONS}) -> (Tensor, Tensor)",
    _run_backward,
    _make_backward,
)
