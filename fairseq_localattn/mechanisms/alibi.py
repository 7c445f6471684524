"""Attention with linear biases (ALiBi; Press, Smith, Lewis, ICLR 2022)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..core.call import Call
from ..kernels.distances import all_distances
from ..kernels.kept import kept
from ..kernels.masks import at_least_fp32
from .relative import DistanceBiasAttention


def slopes_of(heads: int, device: torch.device | None = None) -> Tensor:
    """Return the slope of each head in fp64, H: ``2^(-8h/H)`` for h = 1 … H, where H is a power of two.

    Another number of heads takes the slopes of the next lower power of two, then every second one of twice that power.
    """
    power = 2 ** math.floor(math.log2(heads))
    steps = torch.arange(1, 2 * power + 1, dtype=torch.float64, device=device) * (-4 / power)
    return torch.exp2(torch.cat([steps[1::2], steps[: 2 * (heads - power) : 2]]))


class LinearBiasAttention(DistanceBiasAttention):
    """Attention whose scores fall with the distance: ``e_ij = s · q_i·k_j - m_h·|i - j|``. No parameter is added.

    The bias is symmetric; in a causal layer, for which it was made, ``attn_mask`` hides the half that is the future.

    Args:
        embed_dim, num_heads, kwargs: see :class:`LocalAttention`.
    """

    kind = "alibi"
    undefined_at = {"cross": "a distance between a source and a target position means nothing"}

    def entries(self, call: Call) -> Tensor:
        frame, q = call.frame, call.q
        lengths = frame.query_length, frame.key_length, frame.offset
        return linear_entries(self.num_heads, lengths, dtype=at_least_fp32(q.dtype), device=q.device)


@kept(4)
def linear_entries(heads: int, lengths: tuple[int, int, int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return ``-m_h·|i - j|`` of all distances of T queries and S keys at an offset, ``lengths``: H×(T+S-1)."""
    return -slopes_of(heads, device).to(dtype)[:, None] * all_distances(*lengths, device=device, dtype=dtype).abs()
