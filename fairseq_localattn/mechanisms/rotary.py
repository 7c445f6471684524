"""Rotary position embedding (RoPE; Su et al. 2021, RoFormer)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..core.attention import LocalAttention
from ..kernels.kept import kept
from ..kernels.masks import at_least_fp32
from ..kernels.passes import shared
from ..kernels.triton.operators import with_adjacent_channels


class RotaryAttention(LocalAttention):
    """Self-attention whose queries and keys are rotated by their positions. No parameter is added.

    The channels 2c and 2c+1 of each head are rotated by ``i·θ_c`` at position i, with ``θ_c = base^(-2c/D)``, so that a
    score depends on the distance. Keys are cached rotated: a decoding step rotates the new one alone.

    Args:
        base: of the angles' steps, above 1.
        embed_dim, num_heads, kwargs: see :class:`LocalAttention`.

    Raises ValueError for an odd number of channels a head, and a base of 1 or less.
    """

    kind = "rope"
    undefined_at = {"cross": "a distance between a source and a target position means nothing"}

    def __init__(self, embed_dim: int, num_heads: int, *, base: float = 10_000.0, **kwargs: object) -> None:
        super().__init__(embed_dim, num_heads, **kwargs)  # type: ignore[arg-type]
        if self.head_dim % 2:
            raise ValueError(f"a rotation needs pairs of channels, and each head has {self.head_dim}")
        if not 1 < base < math.inf:
            raise ValueError(f"the base of the rotation's angles must be above 1, not {base:g}")
        self.base = base

    def encode_positions(self, q: Tensor, k: Tensor, first: int) -> tuple[Tensor, Tensor]:
        """Rotate q and k, B×H×T×D; the first of them stands at position ``first``."""
        dtype = at_least_fp32(q.dtype)
        turns = rotations(first, q.size(2), channels=self.head_dim, base=self.base, dtype=dtype, device=q.device)
        return rotate(q, turns), rotate(k, turns)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, base={self.base:g}"


@kept(4)
def rotations(
    first: int, length: int, *, channels: int, base: float, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Return ``exp(i·t·θ_c)`` for positions t from ``first`` on, T×(D/2) complex numbers with parts of ``dtype``.

    The angles are computed in fp64. Cached, since all layers ask for the same rotations in a batch.
    """
    steps = base ** (-torch.arange(0, channels, 2, dtype=torch.float64, device=device) / channels)
    angles = torch.arange(first, first + length, dtype=torch.float64, device=device)[:, None] * steps
    real = dtype.to_complex().to_real()
    return torch.complex(angles.cos().to(real), angles.sin().to(real))


def rotate(x: Tensor, turns: Tensor) -> Tensor:
    """Multiply the pairs of channels of x, B×H×T×D, as complex numbers by ``turns``, T×(D/2); in their precision."""
    return _Rotate.apply(x, turns, shared(lambda: turns.conj().resolve_conj(), "turned back", turns))


class _Rotate(torch.autograd.Function):
    """:func:`rotate`, whose gradient is rotated ``back``: without the copies of a gradient of complex numbers."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, turns: Tensor, back: Tensor) -> Tensor:
        ctx.save_for_backward(turns, back)
        pairs = torch.view_as_complex(with_adjacent_channels(x.to(turns.dtype.to_real())).unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * turns).flatten(-2).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        turns, back = ctx.saved_tensors
        return _Rotate.apply(gradient, back, turns), None, None
