"""The product of each row with one vector, in fp32 also where both are in half precision.

One kernel forward; backward one, and a sum over its blocks. torch would copy both factors to fp32 first.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..once import once_differentiable
from .operators import operator, with_adjacent_channels

_BLOCK, _CHANNELS = 32, 128  # rows and channels at once


def row_dot(x: Tensor, w: Tensor) -> Tensor:
    """Return ``x · w``, B×T in fp32, from x T×B×C and w C, of types in :data:`DTYPES`."""
    out: Tensor = _RowDot.apply(with_adjacent_channels(x), w.contiguous())
    return out


class _RowDot(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        out: Tensor = _forward(x, w)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        by_x, by_w = _backward(gradient.contiguous(), *ctx.saved_tensors)
        return by_x, by_w


def _run_forward(x: Tensor, w: Tensor) -> Tensor:
    from .row_dot_kernels import forward

    out, (length, batch, channels) = _make_forward(x, w), x.shape
    rows = batch * length
    forward[-(-rows // _BLOCK),](
        x, w, out, x.stride(0), x.stride(1), rows, length, channels, BLOCK=_BLOCK, BLOCK_C=_CHANNELS
    )
    return out


def _make_forward(x: Tensor, w: Tensor) -> Tensor:
    return x.new_empty(x.size(1), x.size(0), dtype=torch.float32)


def _run_backward(gradient: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    from .row_dot_kernels import backward

    length, batch, channels = x.shape
    rows, by_x = batch * length, x.new_empty(x.shape)
    blocks = -(-rows // _BLOCK)
    parts = gradient.new_empty(blocks, channels)
    strides = x.stride(0), x.stride(1), by_x.stride(0), by_x.stride(1)
    backward[blocks,](x, w, gradient, by_x, parts, *strides, rows, length, channels, BLOCK=_BLOCK, BLOCK_C=_CHANNELS)
    return by_x, parts.sum(0).to(w.dtype)


def _make_backward(gradient: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), torch.empty_like(w)


_forward = operator("row_dot(Tensor x, Tensor w) -> Tensor", _run_forward, _make_forward)
_backward = operator(
    "row_dot_backward(Tensor gradient, Tensor x, Tensor w) -> (Tensor, Tensor)", _run_backward, _make_backward
)
