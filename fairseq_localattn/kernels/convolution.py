"""Convolutions over the positions of T×B×C without a copy into another layout. Depends on torch alone."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .once import once_differentiable


def depthwise_convolution(x: Tensor, taps: Tensor) -> Tensor:
    """Compute ``y[t] = Σ_o taps[o] ⊙ x[t + o]``: each channel by itself, as K shifted sums. Differentiable once.

    x: (T+K-1)×B×C; ``taps``: K×C. Returns T×B×C. On a CPU four times as fast as torch's ``conv1d`` with one group a
    channel (results/benchmarks/tried.csv).
    """
    return _Depthwise.apply(x, taps)


def full_convolution(x: Tensor, weight: Tensor) -> Tensor:
    """Compute ``y[t] = Σ_o W_o x[t + o]``. x: (T+K-1)×B×C; ``weight``: C×C×K, W_o = weight[:, :, o]. Returns T×B×C.

    To torch it is the convolution of one image in channels-last layout, with T as its height and B as its width.
    """
    image = x.permute(2, 0, 1)[None]  # 1×C×(T+K-1)×B
    return F.conv2d(image, weight[..., None])[0].permute(1, 2, 0)


class _Depthwise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, taps: Tensor) -> Tensor:
        ctx.save_for_backward(x, taps)
        length = x.size(0) - taps.size(0) + 1
        y = x[:length] * taps[0]
        for shift in range(1, taps.size(0)):
            y.addcmul_(x[shift : shift + length], taps[shift])
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, taps = ctx.saved_tensors
        by_x = torch.zeros_like(x) if ctx.needs_input_grad[0] else None
        by_taps = torch.empty_like(taps) if ctx.needs_input_grad[1] else None
        for shift in range(taps.size(0)):
            rows = slice(shift, shift + gradient.size(0))
            if by_x is not None:
                by_x[rows].addcmul_(gradient, taps[shift])
            if by_taps is not None:
                by_taps[shift] = (gradient * x[rows]).sum((0, 1))
        return by_x, by_taps


def relu_in_place(x: Tensor) -> Tensor:
    """Compute the ReLU of x in its place, which nothing else may need. The result may be overwritten in turn.

    Differentiable once: the graph keeps a boolean mask, and neither x nor the result.
    """
    return _ReLU.apply(x)


class _ReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        result = x.detach().relu_()
        ctx.save_for_backward(result > 0)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (positive,) = ctx.saved_tensors
        return gradient * positive
