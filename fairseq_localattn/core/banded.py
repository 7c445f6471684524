"""Attention inside a band, in time and memory linear in the length.

A query sees the keys within ``half_width`` positions, of its own head and of the ``head_span // 2`` heads on either
side, under one softmax (CSAN, Yang et al. 2019, Eq. 4-9). Queries are cut into blocks; each block is multiplied with
the one stretch of keys that its queries can reach, so nothing of size T×S is made: a sentence and head has
``T·(block + 2·half_width)·head_span`` scores, where ``block`` is :data:`MIN_BLOCK`, or ``half_width`` if that is more.

Letters in shapes: B sentences, H heads, T queries, S keys, D channels a head; n blocks of s queries, r keys a stretch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ..kernels.banded_blocks import BlockLayout, banded_products
from ..kernels.dense import products_suit
from ..kernels.masks import Frame, lowest_score, normalise
from ..kernels.windows import local_window
from .attention import LocalAttention, fused_attention

# Queries in a block. Measured on a CPU at window 11, d=512, 8 heads, 128 to 8192 tokens: blocks of 8 to 32 take as long
# or up to 8 % longer. A narrow window pays: 11 keys take 26 scores a query and head.
MIN_BLOCK = 16
# Up to so many scores a query and head all queries make one block, which is the fastest there: of 1D windows up to 192
# tokens, of those over three heads up to 64.
ONE_BLOCK_SCORES = 192


@dataclass(frozen=True)
class _Band:
    """The blocks of one call.

    ``key_index``: n×r, the positions of each stretch's keys; some lie outside 0…S-1. ``hidden``: (B or 1)×n×s×r,
    True = hidden. ``bias``: n×s×r, added to the logits.
    """

    key_index: Tensor
    hidden: Tensor
    bias: Tensor | None


class BandedAttention(LocalAttention, ABC):
    """Attention inside a band, whose width a subclass gives by ``band``."""

    head_span = 1

    @abstractmethod
    def band(self, frame: Frame, device: torch.device) -> tuple[int, Tensor | None]:
        """``half_width`` and ``width_of_query`` of :func:`banded_attention`."""

    def attend(
        self,
        frame: Frame,
        query: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        side: Mapping[str, Tensor],
        need_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        half_width, width_of_query = self.band(frame, q.device)
        return banded_attention(
            q,
            k,
            v,
            frame,
            half_width,
            self.head_span,
            self.dropout_rate,
            need_weights,
            width_of_query,
            self.implementation,
        )


def banded_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    frame: Frame,
    half_width: int,
    head_span: int = 1,
    dropout: float = 0.0,
    need_weights: bool = False,
    width_of_query: Tensor | None = None,
    implementation: str = "auto",
) -> tuple[Tensor, Tensor | None]:
    """Scaled dot-product attention of queries B×H×T×D over the band of keys and values B×H×S×D.

    Args:
        q: not scaled.
        frame: padding (True = padding), ``attn_mask``, and ``offset``: the position of the first query among the keys.
        half_width: keys at distance ≤ half_width are seen.
        head_span: heads seen, odd; 1 = the query's own.
        dropout: rate on the weights.
        need_weights: also return the weights B×H×T×S, summed over the heads seen. This does make a T×S tensor.
        width_of_query: (B or 1)×S, the half width for a query at each key position, where they differ; at most
            ``half_width``.
        implementation: one of products.IMPLEMENTATIONS.

    Positions outside the sentence, padding, and heads before the first or after the last get no weight.
    """
    half_width = min(half_width, k.size(2) - 1)
    block = max(MIN_BLOCK, half_width)
    if q.size(2) <= max(block, ONE_BLOCK_SCORES // head_span):
        return _one_block(q, k, v, frame, half_width, head_span, dropout, need_weights, width_of_query, implementation)
    # Empty queries in front give queries and keys one origin, which the blocks rely on. A full pass adds none.
    length, lead = q.size(2), frame.offset
    if length != k.size(2):
        q = F.pad(q, (0, 0, lead, k.size(2) - lead - length))
    blocks = -(-k.size(2) // block)
    room = blocks * block - k.size(2)
    band = _band(frame, half_width, block, blocks, room, q.device, width_of_query)
    if not need_weights and products_suit(q, k, None, dropout, implementation, banded=True):
        line = BlockLayout(q.size(0), q.size(1), blocks, block, half_width, head_span)
        attended = banded_products(q, k, v, _mask(band, q.dtype), line, q.size(3) ** -0.5, dropout)
        return attended[:, :, lead : lead + length], None
    q, k, v = (F.pad(x, (0, 0, 0, room)) for x in (q, k, v))
    attended, weights = _attend_stretches(
        q.unflatten(2, (blocks, block)),
        stretches(k, block, half_width),
        stretches(v, block, half_width),
        band,
        head_span,
        dropout,
        need_weights,
        implementation,
    )
    attended = attended.flatten(2, 3)[:, :, lead : lead + length]
    if weights is not None:
        weights = _dense(weights, band.key_index, frame.key_length)[:, :, lead : lead + length]
    return attended, weights


def _one_block(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    frame: Frame,
    half_width: int,
    head_span: int,
    dropout: float,
    need_weights: bool,
    width_of_query: Tensor | None,
    implementation: str,
) -> tuple[Tensor, Tensor | None]:
    """All queries in one block, over the keys that any of them reaches: in a decoding step the last half_width + 1."""
    first = max(0, frame.offset - half_width)
    last = min(k.size(2), frame.offset + q.size(2) + half_width)
    key_index = torch.arange(first, last, device=q.device)
    end = frame.offset + q.size(2)
    query_index = torch.arange(frame.offset, end, device=q.device)
    reach = half_width if width_of_query is None else width_of_query[:, frame.offset : end, None]
    hidden = local_window((key_index[None, :] - query_index[:, None])[None], reach)
    if frame.key_padding_mask is not None:
        hidden = hidden | frame.key_padding_mask[:, None, first:last].to(torch.bool)
    bias = None
    if frame.attn_mask is not None:
        hidden, bias = _with_mask(hidden, frame.attn_mask[:, first:last])
    band = _Band(key_index[None], hidden[:, None], None if bias is None else bias[None])
    if (
        head_span > 1
        and not need_weights
        and q.size(2) == k.size(2)
        and products_suit(q, k, None, dropout, implementation, banded=True)
    ):
        line = BlockLayout(q.size(0), q.size(1), blocks=1, block=q.size(2), half_width=0, head_span=head_span)
        return banded_products(q, k, v, _mask(band, q.dtype), line, q.size(3) ** -0.5, dropout), None
    k, v = k[:, :, None, first:last], v[:, :, None, first:last]
    attended, weights = _attend_stretches(q[:, :, None], k, v, band, head_span, dropout, need_weights, implementation)
    return attended[:, :, 0], None if weights is None else _dense(weights, band.key_index, frame.key_length)


def _band(
    frame: Frame,
    half_width: int,
    block: int,
    blocks: int,
    room: int,
    device: torch.device,
    width_of_query: Tensor | None,
) -> _Band:
    """Positions and masks of equal blocks over all key positions; ``room`` positions are added behind the last key."""
    starts = torch.arange(blocks, device=device)[:, None] * block
    query_index = starts + torch.arange(block, device=device)
    key_index = starts + torch.arange(-half_width, block + half_width, device=device)
    padding = frame.key_padding_mask
    if padding is None:
        padding = torch.zeros(1, frame.key_length, dtype=torch.bool, device=device)
    padding = F.pad(padding.to(torch.bool), (0, room), value=True)
    absent = stretches(padding[..., None], block, half_width, fill=True)[..., 0]  # (B|1)×n×r
    reach: Tensor | int = half_width
    if width_of_query is not None:
        reach = F.pad(width_of_query, (0, room)).unflatten(1, (blocks, block))[..., None]  # (B|1)×n×s×1
    relative = key_index[:, None, :] - query_index[:, :, None]
    hidden = absent[:, :, None, :] | local_window(relative[None], reach)
    bias = None
    if frame.attn_mask is not None:
        rows = (query_index - frame.offset).clamp(0, frame.query_length - 1)
        columns = key_index.clamp(0, frame.key_length - 1)
        hidden, bias = _with_mask(hidden, frame.attn_mask[rows[:, :, None], columns[:, None, :]])
    return _Band(key_index, hidden, bias)


def _with_mask(hidden: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
    """Join the part of ``attn_mask`` that lies in the band: boolean (True = hidden) or added to the logits."""
    return (hidden | mask, None) if mask.dtype == torch.bool else (hidden, mask)


def stretches(x: Tensor, block: int, half_width: int, fill: float = 0.0) -> Tensor:
    """…×(n·s)×E → …×n×(s + 2·half_width)×E: each block with ``half_width`` rows of its neighbours on either side.

    ``fill`` stands beyond both ends. Needs ``half_width ≤ block``. Made by slices and one concatenation, whose gradient
    is slices and sums: neither direction needs an index, and the result is deterministic.
    """
    blocks = x.unflatten(-2, (-1, block))
    if half_width == 0:
        return blocks
    left = F.pad(blocks[..., :-1, block - half_width :, :], (0, 0, 0, 0, 1, 0), value=fill)
    right = F.pad(blocks[..., 1:, :half_width, :], (0, 0, 0, 0, 0, 1), value=fill)
    return torch.cat([left, blocks, right], dim=-2)


def _mask(band: _Band, dtype: torch.dtype) -> Tensor:
    """What is added to the scores: (B or 1)×n×s×r."""
    lowest = lowest_score(dtype)
    if band.bias is None:
        return torch.zeros(band.hidden.shape, dtype=dtype, device=band.hidden.device).masked_fill_(band.hidden, lowest)
    return band.bias.to(dtype).clamp(min=lowest).masked_fill(band.hidden, lowest)


def _attend_stretches(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    band: _Band,
    head_span: int,
    dropout: float,
    need_weights: bool,
    implementation: str,
) -> tuple[Tensor, Tensor | None]:
    """Queries B×H×n×s×D over stretches B×H×n×r×D: B×H×n×s×D, and the weights B×H×n×s×r summed over the heads seen."""
    batch, heads, blocks, _, width = q.shape
    q, k, v = (x.transpose(1, 2).flatten(0, 1) for x in (q, k, v))  # (B·n)×H×·×D
    mask = _mask(band, q.dtype).expand(batch, -1, -1, -1).flatten(0, 1)[:, None]  # (B·n)×1×s×r
    if head_span > 1:
        k, v = neighbouring_heads(k, head_span), neighbouring_heads(v, head_span)
        missing = missing_heads(heads, head_span, q.device)[:, None, :, None]  # H×1×(N+1)×1
        mask = mask[:, :, :, None, :].masked_fill(missing, lowest_score(q.dtype)).flatten(3, 4)  # (B·n)×H×s×((N+1)·r)
    if not need_weights:
        attended = fused_attention(q, k, v, None, mask, width**-0.5, dropout, implementation)
        return attended.unflatten(0, (batch, blocks)).transpose(1, 2), None
    scores = torch.matmul(q * width**-0.5, k.transpose(-1, -2)) + mask
    weights = normalise(scores)
    attended = torch.matmul(F.dropout(weights, dropout).to(v.dtype), v)
    weights = weights.unflatten(-1, (head_span, -1)).sum(-2)
    attended, weights = (x.unflatten(0, (batch, blocks)).transpose(1, 2) for x in (attended, weights))
    return attended, weights


def neighbouring_heads(x: Tensor, head_span: int) -> Tensor:
    """·×H×r×D → ·×H×(head_span·r)×D: for head h the rows of heads h - N/2 … h + N/2 in turn (Eq. 7, 8).

    Heads that do not exist are zeros here; :func:`missing_heads` hides them from the softmax.
    """
    heads, side = x.size(1), head_span // 2
    padded = F.pad(x, (0, 0, 0, 0, side, side))
    return torch.cat([padded[:, shift : shift + heads] for shift in range(head_span)], dim=2)


def missing_heads(heads: int, head_span: int, device: torch.device | None = None) -> Tensor:
    """H×head_span, True where the neighbour is before the first head or after the last."""
    neighbour = torch.arange(heads, device=device)[:, None] + torch.arange(head_span, device=device) - head_span // 2
    return (neighbour < 0) | (neighbour >= heads)


def _dense(weights: Tensor, key_index: Tensor, key_length: int) -> Tensor:
    """Weights B×H×n×s×r by stretch → B×H×(n·s)×S by key position."""
    batch, heads, _, rows, _ = weights.shape
    index = key_index.clamp(0, key_length - 1)[:, None, :].expand(-1, rows, -1).flatten(0, 1)
    dense = weights.new_zeros(batch, heads, index.size(0), key_length)
    return dense.scatter_add(3, index.expand(batch, heads, -1, -1), weights.flatten(2, 3))
