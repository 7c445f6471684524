"""Dropout for CPUs in a fraction of the time of torch's, whose random numbers are 5 % of a Transformer's training step.

torch draws a random number for each element, with a Mersenne twister. Here eight elements share one of 64 bits, from a
generator that takes half of its time. Needs torch and NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

_LEVELS = 1 << 16  # of a probability
_HIGHEST = 255 << 8  # of a rate that 8 bits can tell from 1
_RUN = 512  # elements that share a level


def dropout(x: Tensor, p: float) -> Tensor:
    """``x`` with each element 0 with probability p, and the others scaled so that the expectation stays.

    On a CPU p is rounded to 1/65536, and the scale belongs to the rounded p. The random numbers are seeded by torch's
    default generator, and are not those of ``torch.nn.functional.dropout``. Elsewhere, and for p from 255/256, it is
    that function. Raises ValueError unless 0 ≤ p ≤ 1.
    """
    if x.device.type != "cpu" or not 0 < _level(p) < _HIGHEST:
        return F.dropout(x, p)
    return x * dropout_factors(x, p)


def dropout_factors(x: Tensor, p: float) -> Tensor:
    """What :func:`dropout` multiplies x with: a tensor like x, of zeros and 1 / (1 - p)."""
    if x.device.type != "cpu" or not 0 < _level(p) < _HIGHEST:
        return F.dropout(torch.ones_like(x), p)
    return _kept(x, p).mul_(_scale(p))


def dropout_and_residual(x: Tensor, residual: Tensor, p: float) -> Tensor:
    """``residual + dropout(x)``, on a CPU in the place of x, which must be needed by nothing else.

    Both of one shape and precision; 0 < p < 1. Differentiable once.
    """
    if x.device.type != "cpu" or not 0 < _level(p) < _HIGHEST:
        return residual + F.dropout(x, p)
    return _DropoutAndResidual.apply(x, residual, p)


class _DropoutAndResidual(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, residual: Tensor, p: float) -> Tensor:
        kept, ctx.scale = _kept(x, p), _scale(p)
        ctx.save_for_backward(kept)
        place = x.detach()  # a linear layer gives a view to autograd: to write into that would copy its gradient
        return torch.addcmul(residual, place, kept, value=ctx.scale, out=place)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (kept,) = ctx.saved_tensors
        return torch.addcmul(gradient.new_zeros(()), gradient, kept, value=ctx.scale), gradient, None


def _kept(x: Tensor, p: float) -> Tensor:
    """A tensor like x: 0 with probability p, else 1.

    An element is dropped whose number of 8 bits is below a level. p lies between two levels; each run of elements takes
    one of them at random, so that p is the probability of every element.
    """
    rows = x.numel() // _RUN + 1
    # Seeded by torch's generator: who seeds that one, or sets it back, has the same numbers again.
    seed = int(torch.empty((), dtype=torch.int64, device=x.device).random_())
    words = np.random.SFC64(seed).random_raw(rows * (_RUN + 1) // 8 + 1)
    numbers = torch.from_numpy(words).view(torch.int8)  # from -128
    lower, rest = divmod(_level(p), 256)
    levels = (numbers[rows * _RUN : rows * (_RUN + 1), None] < rest - 128).to(torch.int8) + (lower - 128)
    kept = torch.empty(rows, _RUN, dtype=x.dtype, device=x.device)
    torch.ge(numbers[: rows * _RUN].view(rows, _RUN), levels, out=kept)
    return kept.flatten()[: x.numel()].view(x.shape)


def _level(p: float) -> int:
    """p in steps of 1/65536."""
    return round(p * _LEVELS)


def _scale(p: float) -> float:
    """1 / (1 - p), of the rounded p."""
    return _LEVELS / (_LEVELS - _level(p))
