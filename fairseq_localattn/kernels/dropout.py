"""Fast dropout on a CPU.

torch's dropout draws one random number for each element with a Mersenne twister, which takes 5 % of a Transformer's
training step. Here eight elements share one random number of 64 bits, drawn by NumPy's SFC64 generator, in half of the
time. Depends on torch and NumPy alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .once import once_differentiable

_LEVELS = 1 << 16  # resolution of a probability
_HIGHEST = 255 << 8  # above this level, numbers of 8 bits cannot express the probability
_RUN = 512  # elements that share one threshold


def dropout(x: Tensor, p: float) -> Tensor:
    """Set elements of ``x`` to 0 with probability ``p`` and scale the others by ``1 / (1 - p)``.

    On a CPU, p is rounded to a multiple of 1/65536 and the random numbers, which differ from those of
    ``torch.nn.functional.dropout``, are seeded by torch's default generator. On other devices, and for p ≥ 255/256,
    that function is called. Raises ValueError unless 0 ≤ p ≤ 1.
    """
    if x.device.type != "cpu" or not 0 < _level(p) < _HIGHEST:
        return F.dropout(x, p)
    return x * dropout_factors(x, p)


def dropout_factors(x: Tensor, p: float) -> Tensor:
    """Return the factors by which :func:`dropout` multiplies ``x``: 0 or ``1 / (1 - p)``, a tensor like ``x``."""
    if x.device.type != "cpu" or not 0 < _level(p) < _HIGHEST:
        return F.dropout(torch.ones_like(x), p)
    return _keep_mask(x, p).mul_(_scale(p))


def dropout_and_residual(x: Tensor, residual: Tensor, p: float) -> Tensor:
    """Compute ``residual + dropout(x)``; on a CPU in one pass, with the memory layout of ``x``.

    ``x`` and ``residual`` have one shape and dtype, 0 < p < 1. Differentiable once.
    """
    if x.device.type != "cpu" or not 0 < _level(p) < _HIGHEST:
        return residual + F.dropout(x, p)
    return _DropoutAndResidual.apply(x, residual, p)


class _DropoutAndResidual(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, residual: Tensor, p: float) -> Tensor:
        kept, ctx.scale = _keep_mask(x, p), _scale(p)
        ctx.save_for_backward(kept)
        return torch.addcmul(residual, x, kept, value=ctx.scale, out=torch.empty_like(x))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (kept,) = ctx.saved_tensors
        return torch.addcmul(gradient.new_zeros(()), gradient, kept, value=ctx.scale), gradient, None


def _keep_mask(x: Tensor, p: float) -> Tensor:
    """Return a tensor like ``x`` that is 0 with probability ``p`` and 1 otherwise.

    An element is dropped if its random number of 8 bits is below a threshold. In general p lies between two thresholds
    of 8 bits; each run of elements draws one of the two, such that the overall probability of each element is p.
    """
    rows = x.numel() // _RUN + 1
    # Seeded by torch's generator: torch.manual_seed and a restored generator state reproduce the same mask.
    seed = int(torch.empty((), dtype=torch.int64, device=x.device).random_())
    words = np.random.SFC64(seed).random_raw(rows * (_RUN + 1) // 8 + 1)
    numbers = torch.from_numpy(words).view(torch.int8)  # from -128
    lower, rest = divmod(_level(p), 256)
    levels = (numbers[rows * _RUN : rows * (_RUN + 1), None] < rest - 128).to(torch.int8) + (lower - 128)
    kept = torch.empty(rows, _RUN, dtype=x.dtype, device=x.device)
    torch.ge(numbers[: rows * _RUN].view(rows, _RUN), levels, out=kept)
    return kept.flatten()[: x.numel()].view(x.shape)


def _level(p: float) -> int:
    """Return ``p`` in steps of 1/65536."""
    return round(p * _LEVELS)


def _scale(p: float) -> float:
    """Return ``1 / (1 - p)`` for the rounded ``p``."""
    return _LEVELS / (_LEVELS - _level(p))
