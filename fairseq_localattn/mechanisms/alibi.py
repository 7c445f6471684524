"""Attention with linear biases (ALiBi; Press, Smith, Lewis, ICLR 2022)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..core.call import Call
from ..kernels.distances import all_distances, by_position
from ..kernels.flex import PositionTerms
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
        dtype = at_least_fp32(q.dtype)
        distances = all_distances(frame.query_length, frame.key_length, frame.offset, device=q.device, dtype=dtype)
        return -_slopes(self.num_heads, dtype, q.device)[:, None] * distances.abs()

    def score_bias(self, call: Call) -> Tensor:
        """Return the bias of each head, H×T×S, in at least fp32: it reaches -m·S."""
        frame, dtype = call.frame, at_least_fp32(call.q.dtype)
        shape = self.num_heads, frame.query_length, frame.key_length
        bias = linear_bias if math.prod(shape) <= CACHED_UP_TO else linear_bias.in_pass
        return bias(*shape, offset=frame.offset, dtype=dtype, device=call.q.device)

    def position_terms(self, call: Call) -> PositionTerms:
        """Return the bias as a function of positions."""
        slopes = _slopes(self.num_heads, at_least_fp32(call.q.dtype), call.q.device)
        return PositionTerms(scores=(lambda b, h, i, j: -slopes[h] * (i - j).abs(),))


@kept(4)
def _slopes(heads: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return :func:`slopes_of`, cached."""
    return slopes_of(heads, device).to(dtype)


# Biases of more numbers H·T·S (128 MiB in fp32) are made by each layer: the cache would hold them to the end.
CACHED_UP_TO = 1 << 25


@kept(2)
def linear_bias(
    heads: int, query_length: int, key_length: int, *, offset: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Return ``-m_h·|i - j|``, H×T×S. Cached, since all layers ask for the same biases in a batch."""
    distances = all_distances(query_length, key_length, offset, device=device, dtype=dtype).abs()
    return by_position(-slopes_of(heads, device).to(dtype)[:, None] * distances, key_length)
