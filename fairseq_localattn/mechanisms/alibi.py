"""Attention with linear biases (ALiBi; Press, Smith, Lewis, ICLR 2022)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..core.call import Call
from ..kernels.distances import all_distances, by_position
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
        return linear_entries(**self._sizes(call))

    def score_bias(self, call: Call) -> Tensor:
        """Return the bias of each head, H×T×S, in at least fp32: it reaches -m·S. Layers and batches share it."""
        numbers = self.num_heads * call.frame.query_length * call.frame.key_length
        return (linear_bias if numbers <= KEPT_UP_TO else linear_bias.in_pass)(**self._sizes(call))

    def _sizes(self, call: Call) -> dict[str, Any]:
        frame, dtype = call.frame, at_least_fp32(call.q.dtype)
        lengths = frame.query_length, frame.key_length, frame.offset
        return {"heads": self.num_heads, "lengths": lengths, "dtype": dtype, "device": call.q.device}


# Biases of more numbers H·T·S (128 MiB in fp32) are made in each forward pass: they would be held to the end.
KEPT_UP_TO = 1 << 25


@kept(4)
def linear_entries(heads: int, lengths: tuple[int, int, int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return ``-m_h·|i - j|`` of all distances of T queries and S keys at an offset, ``lengths``: H×(T+S-1)."""
    return -slopes_of(heads, device).to(dtype)[:, None] * all_distances(*lengths, device=device, dtype=dtype).abs()


@kept(2)
def linear_bias(heads: int, lengths: tuple[int, int, int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return :func:`linear_entries` by query and key, H×T×S."""
    return by_position(linear_entries(heads, lengths, dtype=dtype, device=device), lengths[1])
