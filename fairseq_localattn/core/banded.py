"""Attention inside a band, in time and memory linear in the length.

A query sees the keys within ``half_width`` positions, of its own head and of the ``head_span // 2`` heads on either
side, under one softmax (CSAN, Yang et al. 2019, Eq. 4-9). Queries are cut into blocks, and each block is multiplied by
its *stretch*: the keys that its queries can reach. No tensor of size T×S is made: a sentence and head has
``T·(block + 2·half_width)·head_span`` scores, ``block`` the larger of :data:`MIN_BLOCK` and ``half_width``. Where that
would be more than all keys (:func:`too_wide`), the queries are one block.

Shapes: B sentences, H heads, T queries, S keys, D channels per head; n blocks of s queries, r keys per stretch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..kernels.banded_blocks import BlockLayout, banded_products, by_key_position
from ..kernels.dense import causal_attention, fused_attention, scaled_scores, use_products
from ..kernels.masks import Frame, at_least_fp32, hidden_and_bias, join_masks, lowest_score, normalise
from ..kernels.passes import is_exporting, is_shared, shared
from ..kernels.windows import Bounds, Score, Window, distance_windows, half_width_of, hidden_keys, local_window
from .call import Call

# Queries in a block, at least: the fastest for a window of 11 on a CPU (results/benchmarks/tried.csv).
MIN_BLOCK = 16
# Up to this many scores per query and head, all queries form one block, which is fastest there: up to 192 tokens for
# windows over one head, up to 64 over three heads.
ONE_BLOCK_SCORES = 192
# With at least this many keys, mechanisms that could also take a mask of T×S are computed in their band.
BANDED_FROM = 512


class _Band(NamedTuple):
    """The blocks of one call; the layers of a forward pass share those that are equal.

    Args:
        key_index: n×r, positions of the keys of each stretch; some lie outside of 0…S-1.
        hidden: (B or 1)×n×s×r, True = hidden.
        bias: n×s×r or (B or 1)×n×s×r, added to the scores.
    """

    key_index: Tensor
    hidden: Tensor
    bias: Tensor | None = None


@dataclass(frozen=True)
class _Options:
    """Arguments of :func:`banded_attention` that its parts share."""

    head_span: int
    need_weights: bool
    scaling: float
    dropout: float
    implementation: str

    def use_products(self, q: Tensor, k: Tensor, band: _Band) -> bool:
        """Return whether the band is computed by :func:`banded_products`, which has no gradient for ``attn_mask``."""
        if self.need_weights or (band.bias is not None and band.bias.requires_grad):
            return False
        return use_products(q, k, dropout=self.dropout, implementation=self.implementation, banded=True)


def _band(make: Callable[..., _Band], frame: Frame, *numbers: int, **more: Any) -> _Band:
    """Return ``make(frame, *numbers, **more)``, once in a forward pass."""
    lengths, masks = (frame.query_length, frame.key_length, frame.offset), (frame.key_padding_mask, frame.attn_mask)
    return shared(lambda: make(frame, *numbers, **more), make, *numbers, *lengths, *masks, *more.values())


def too_wide(half_width: int, keys: int) -> bool:
    """Return whether a block of ``half_width`` queries would see all keys: a band then saves nothing."""
    return 3 * half_width > keys


def half_width_of_all(windows: Sequence[Window]) -> int | None:
    """Return the half width w of the windows' intersection; None if it is not ``|i - j| ≤ w`` in all heads."""
    widths = [window.half_width for window in windows]
    return None if None in widths else min(widths, default=None)  # type: ignore[type-var]


def by_bounds(call: Call, window: Window, *, one_side: bool, **computation: Any) -> Tensor:
    """Attend inside of a window ``low ≤ j - i ≤ high``, neighbouring heads of equal bounds at once. Returns B×H×T×D.

    Heads with ``-w ≤ j - i ≤ w`` cost T·w instead of T·S. With ``one_side`` heads that see only the past or only the
    future run by :func:`causal_attention`. Other heads get a mask of T×S.
    """
    frame, device, heads = call.frame, call.q.device, call.q.size(1)
    causal = frame.attn_mask is not None
    bounds = window.bounds if len(window.bounds) == heads else window.bounds * heads
    sides: dict[Bounds, str] = {}
    if one_side and not window.sinks:
        sides = {(None, 0): "past"} | ({(None, None): "past"} if causal else {(0, None): "future"})

    def way(head: int) -> int | str | None:
        half_width = half_width_of(bounds[head])
        return sides.get(bounds[head]) if half_width is None else half_width

    parts = []
    for sees, group in groupby(range(heads), way):
        run = list(group)
        at = slice(run[0], run[-1] + 1)
        own = call.heads(at)
        if isinstance(sees, int):
            columns = window.columns(frame, device)
            part, _ = banded_attention(own, half_width=sees, columns=columns, **computation)
        elif sees is not None:
            future, scaling = sees == "future", computation["scaling"]
            part = causal_attention(own.q, own.k, own.v, frame.key_padding_mask, scaling=scaling, future=future)
        else:
            closed = hidden_keys(distance_windows(bounds[at], window.sinks), frame, len(run), device)
            hidden, bias = hidden_and_bias(frame, closed, None, call.q.dtype)
            part = fused_attention(own.q, own.k, own.v, hidden=hidden, bias=bias, **computation)
        parts.append(part)
    return torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]


def banded_attention(
    call: Call,
    *,
    half_width: int,
    head_span: int = 1,
    need_weights: bool = False,
    width_of_query: Tensor | None = None,
    columns: Tensor | None = None,
    scores: Sequence[Score] = (),
    scaling: float,
    dropout: float,
    implementation: str,
) -> tuple[Tensor, Tensor | None]:
    """Compute scaled dot-product attention of each query over a band of keys.

    Args:
        call: the queries, keys and values, and their positions and masks.
        half_width: keys at a distance of at most ``half_width`` are visible.
        head_span: heads that a query sees, odd; 1 = its own.
        need_weights: also return the weights; this makes a tensor of size T×S.
        width_of_query: (B or 1)×S, the half width for a query at each key position, if it differs between them; at
            most ``half_width``.
        columns: (B or 1)×a, positions of keys that every query sees besides; those from S on do not exist. Only with
            ``head_span`` 1, and without ``width_of_query`` and ``need_weights``.
        scores: terms added to the scaled scores; in full passes with ``head_span`` 1, without ``columns`` and
            ``need_weights``.
        scaling, dropout, implementation: as in :mod:`kernels.dense`.

    Returns B×H×T×D, and the weights B×H×T×S, summed over the heads seen, or None. Positions outside of the sentence,
    padding, and heads before the first or after the last have weight 0.
    """
    options = _Options(head_span, need_weights, scaling=scaling, dropout=dropout, implementation=implementation)
    frame, q, k, v = call.frame, call.q, call.k, call.v
    half_width = half_width if is_exporting() else min(half_width, k.size(2) - 1)
    block = max(MIN_BLOCK, half_width)
    most = max(block, ONE_BLOCK_SCORES // head_span)
    if is_exporting() or (not scores and (too_wide(half_width, k.size(2)) or q.size(2) <= most)):
        return _one_block(call, half_width=half_width, width_of_query=width_of_query, columns=columns, options=options)
    # Empty queries in front give queries and keys the same origin, on which the blocks rely. A full pass needs none.
    length, lead = q.size(2), frame.offset
    if length != k.size(2):
        q = F.pad(q, (0, 0, lead, k.size(2) - lead - length))
    blocks = -(-k.size(2) // block)
    room = blocks * block - k.size(2)
    band = _band(_make_band, frame, half_width, block, device=q.device, width_of_query=width_of_query)
    bias = _bias_of(scores, band, batch=q.size(0), heads=q.size(1), length=frame.key_length)
    if columns is None and options.use_products(q, k, band):
        layout = BlockLayout(
            q.size(0), q.size(1), blocks=blocks, block=block, half_width=half_width, head_span=head_span
        )
        mask = _added_mask(band, at_least_fp32(q.dtype))
        attended = banded_products(q, k, v, mask, bias=bias, layout=layout, scaling=scaling, dropout=dropout)
        return attended[:, :, lead : lead + length], None
    q, k, v = (F.pad(x, (0, 0, 0, room)) for x in (q, k, v))
    k_stretches, v_stretches = stretches(k, block, half_width), stretches(v, block, half_width)
    if columns is not None:
        k_stretches = _with_columns(k_stretches, call.k, columns)
        v_stretches = _with_columns(v_stretches, call.v, columns)
        query_index = torch.arange(blocks * block, device=q.device).view(blocks, block)
        band = _widened(band, frame, columns, half_width=half_width, query_index=query_index)
    attended, weights = _attend_stretches(
        q.unflatten(2, (blocks, block)), k_stretches, v_stretches, band, bias=bias, options=options
    )
    attended = attended.flatten(2, 3)[:, :, lead : lead + length]
    if weights is not None:
        weights = by_key_position(weights, band.key_index, frame.key_length)[:, :, lead : lead + length]
    return attended, weights


def _one_block(
    call: Call, *, half_width: int, width_of_query: Tensor | None, columns: Tensor | None, options: _Options
) -> tuple[Tensor, Tensor | None]:
    """Compute :func:`banded_attention` with all queries in one block, over the keys that any of them can reach.

    In an incremental step these are the last ``half_width + 1`` keys.
    """
    frame, q, k, v = call.frame, call.q, call.k, call.v
    first, last = _reach(frame, half_width)
    band = _band(_make_one_block, frame, half_width, device=q.device, width_of_query=width_of_query)
    if options.head_span > 1 and q.size(2) == k.size(2) and options.use_products(q, k, band):
        layout = BlockLayout(q.size(0), q.size(1), blocks=1, block=q.size(2), half_width=0, head_span=options.head_span)
        mask, rate = _added_mask(band, at_least_fp32(q.dtype)), options.dropout
        return banded_products(q, k, v, mask, layout=layout, scaling=options.scaling, dropout=rate), None
    k_near, v_near = k[:, :, None, first:last], v[:, :, None, first:last]
    if columns is not None:
        k_near, v_near = _with_columns(k_near, k, columns), _with_columns(v_near, v, columns)
        query_index = torch.arange(frame.offset, frame.offset + q.size(2), device=q.device)
        band = _widened(band, frame, columns, half_width=half_width, query_index=query_index[None])
    attended, weights = _attend_stretches(q[:, :, None], k_near, v_near, band, options=options)
    return attended[:, :, 0], None if weights is None else by_key_position(weights, band.key_index, frame.key_length)


def _reach(frame: Frame, half_width: int) -> tuple[int, int]:
    """Return the first key that any query can reach, and the one behind the last."""
    start, end = frame.offset - half_width, frame.offset + frame.query_length + half_width
    return (0, frame.key_length) if is_exporting() else (max(0, start), min(frame.key_length, end))


def _make_one_block(frame: Frame, half_width: int, *, device: torch.device, width_of_query: Tensor | None) -> _Band:
    """Compute positions and masks of one block of all queries, over the keys that any of them can reach."""
    first, last = _reach(frame, half_width)
    end = frame.offset + frame.query_length
    key_index = torch.arange(first, last, device=device)
    query_index = torch.arange(frame.offset, end, device=device)
    reach = half_width if width_of_query is None else width_of_query[:, frame.offset : end, None]
    hidden = local_window((key_index[None, :] - query_index[:, None])[None], reach)
    if frame.key_padding_mask is not None:
        hidden = hidden | frame.key_padding_mask[:, None, first:last]
    bias = None
    if frame.attn_mask is not None:
        hidden, bias = _with_attn_mask(hidden, frame.attn_mask[..., first:last])
    return _Band(key_index[None], hidden[:, None], None if bias is None else bias.unsqueeze(-3))


def _make_band(
    frame: Frame, half_width: int, block: int, *, device: torch.device, width_of_query: Tensor | None
) -> _Band:
    """Compute positions and masks of equal blocks over all keys, the last one filled up behind the last key."""
    blocks = -(-frame.key_length // block)
    room = blocks * block - frame.key_length
    starts = torch.arange(blocks, device=device)[:, None] * block
    query_index = starts + torch.arange(block, device=device)
    key_index = starts + torch.arange(-half_width, block + half_width, device=device)
    padding = frame.key_padding_mask
    if padding is None:
        padding = torch.zeros(1, frame.key_length, dtype=torch.bool, device=device)
    padding = F.pad(padding, (0, room), value=True)
    absent = stretches(padding[..., None], block, half_width, fill=True)[..., 0]  # (B or 1)×n×r
    reach: Tensor | int = half_width
    if width_of_query is not None:
        reach = F.pad(width_of_query, (0, room)).unflatten(1, (blocks, block))[..., None]  # (B or 1)×n×s×1
    relative = key_index[:, None, :] - query_index[:, :, None]
    hidden = absent[:, :, None, :] | local_window(relative[None], reach)
    bias = None
    if frame.attn_mask is not None:
        rows = (query_index - frame.offset).clamp(0, frame.query_length - 1)
        columns = key_index.clamp(0, frame.key_length - 1)
        hidden, bias = _with_attn_mask(hidden, frame.attn_mask[..., rows[:, :, None], columns[:, None, :]])
    return _Band(key_index, hidden, bias)


def _bias_of(scores: Sequence[Score], band: _Band, *, batch: int, heads: int, length: int) -> Tensor | None:
    """Return the sum of terms inside of a band of a full pass of T = ``length``, broadcastable to B×n×H×s×r."""
    device, block = band.key_index.device, band.hidden.size(2)
    sentence, head = torch.arange(batch, device=device), torch.arange(heads, device=device)
    query = torch.arange(band.key_index.size(0) * block, device=device).clamp(max=length - 1).view(-1, 1, block, 1)
    key = band.key_index.clamp(0, length - 1)[:, None, None]
    indices = sentence.view(-1, 1, 1, 1, 1), head.view(-1, 1, 1), query, key
    return sum((score(*indices) for score in scores[1:]), scores[0](*indices)) if scores else None


def _with_attn_mask(hidden: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
    """Add the part of ``attn_mask`` inside of the band to ``hidden`` if it is boolean; else return it as the bias."""
    return (hidden | mask, None) if mask.dtype == torch.bool else (hidden, mask)


def stretches(x: Tensor, block: int, half_width: int, fill: float = 0.0) -> Tensor:
    """Extend each block of s rows by ``half_width ≤ block`` rows of its neighbours on either side.

    …×(n·s)×E → …×n×(s + 2·half_width)×E; rows before the first and after the last block are ``fill``. Made of slices
    and one concatenation, whose gradient is slices and sums, so both passes are deterministic and use no index.
    """
    blocks = x.unflatten(-2, (-1, block))
    if half_width == 0:
        return blocks
    left = F.pad(blocks[..., :-1, block - half_width :, :], (0, 0, 0, 0, 1, 0), value=fill)
    right = F.pad(blocks[..., 1:, :half_width, :], (0, 0, 0, 0, 0, 1), value=fill)
    return torch.cat([left, blocks, right], dim=-2)


def _with_columns(near: Tensor, x: Tensor, columns: Tensor) -> Tensor:
    """Append the rows ``columns``, (B or 1)×a, of x, B×H×S×D, to each stretch, B×H×n×r×D: B×H×n×(r+a)×D."""
    batch, heads, blocks, _, width = near.shape
    index = columns.clamp(max=x.size(2) - 1).expand(batch, -1)[:, None, :, None]
    rows = x.gather(2, index.expand(-1, heads, -1, width))
    return torch.cat([near, rows[:, :, None].expand(-1, -1, blocks, -1, -1)], dim=3)


def _widened(band: _Band, frame: Frame, columns: Tensor, *, half_width: int, query_index: Tensor) -> _Band:
    """Add the masks of ``columns``, (B or 1)×a, to a band; they are hidden where the band holds them already.

    ``query_index``: n×s, positions of the queries.
    """
    inside = columns.clamp(max=frame.key_length - 1)
    hidden = ~local_window(columns[:, None, None, :] - query_index[:, :, None], half_width)  # (B or 1)×n×s×a
    hidden = hidden | (columns >= frame.key_length)[:, None, None, :]
    if frame.key_padding_mask is not None:
        padding = frame.key_padding_mask
        hidden = hidden | padding.gather(1, inside.expand(padding.size(0), -1))[:, None, None, :]
    bias = None
    if frame.attn_mask is not None:
        rows = (query_index - frame.offset).clamp(0, frame.query_length - 1)
        mask = frame.attn_mask if frame.attn_mask.dim() == 3 else frame.attn_mask[None]
        sentences = torch.arange(mask.size(0), device=mask.device)[:, None, None, None]
        hidden, bias = _with_attn_mask(hidden, mask[sentences, rows[:, :, None], inside[:, None, None, :]])
    batch = max(band.hidden.size(0), hidden.size(0))
    hidden = torch.cat([band.hidden.expand(batch, -1, -1, -1), hidden.expand(batch, -1, -1, -1)], dim=-1)
    if band.bias is not None and bias is not None:
        bias = torch.cat([band.bias.expand(bias.size(0), -1, -1, -1), bias], dim=-1)
    return _Band(band.key_index, hidden, bias)


def _added_mask(band: _Band, dtype: torch.dtype) -> Tensor:
    """Return the term added to the scores of a band, (B or 1)×n×s×r; hidden keys have the lowest score."""
    if is_shared(band.hidden) and is_shared(band.bias):
        return shared(partial(_to_add, *band[1:], dtype), "band to add", *band[1:], dtype)
    return _to_add(*band[1:], dtype)


def _to_add(hidden: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
    lowest = lowest_score(dtype)
    if bias is None:
        return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, lowest)
    return bias.to(dtype).clamp(min=lowest).masked_fill(hidden, lowest)


def _attend_stretches(
    q: Tensor, k: Tensor, v: Tensor, band: _Band, bias: Tensor | None = None, *, options: _Options
) -> tuple[Tensor, Tensor | None]:
    """Attend from queries B×H×n×s×D to keys and values in stretches, B×H×n×r×D; ``bias`` as in _bias_of.

    Returns B×H×n×s×D, and the weights B×H×n×s×r, summed over the heads seen, or None.
    """
    head_span = options.head_span
    batch, heads, blocks = q.shape[:3]
    q, k, v = (x.transpose(1, 2).flatten(0, 1) for x in (q, k, v))  # (B·n)×H×·×D
    if bias is None:
        mask = _added_mask(band, q.dtype).expand(batch, -1, -1, -1).flatten(0, 1)[:, None]  # (B·n)×1×s×r
    else:
        if band.bias is not None:
            bias = bias + band.bias.to(bias.dtype).clamp(min=lowest_score(bias.dtype))[..., None, :, :]
        joined = join_masks(band.hidden[:, :, None], bias, q.dtype)  # rounds terms far from 0 less than a sum would
        assert joined is not None
        mask = joined.expand(batch, blocks, -1, -1, -1).flatten(0, 1)  # (B·n)×H×s×r
    if head_span > 1:
        k, v = neighbouring_heads(k, head_span), neighbouring_heads(v, head_span)
        missing = missing_heads(heads, head_span, q.device)[:, None, :, None]  # H×1×N×1
        mask = mask[:, :, :, None, :].masked_fill(missing, lowest_score(q.dtype)).flatten(3, 4)  # (B·n)×H×s×(N·r)
    if not options.need_weights:
        attended = fused_attention(
            q,
            k,
            v,
            bias=mask,
            scaling=options.scaling,
            dropout=options.dropout,
            implementation=options.implementation,
        )
        return attended.unflatten(0, (batch, blocks)).transpose(1, 2), None
    scores = scaled_scores(q, k, options.scaling) + mask
    weights = normalise(scores)
    attended = torch.matmul(F.dropout(weights, options.dropout).to(v.dtype), v)
    weights = weights.unflatten(-1, (head_span, -1)).sum(-2)
    attended, weights = (x.unflatten(0, (batch, blocks)).transpose(1, 2) for x in (attended, weights))
    return attended, weights


def neighbouring_heads(x: Tensor, head_span: int) -> Tensor:
    """Concatenate the rows of the N = ``head_span`` heads around each head: ·×H×r×D → ·×H×(N·r)×D (CSAN Eq. 7, 8).

    Rows of heads before the first or after the last are 0; :func:`missing_heads` hides them from the softmax.
    """
    heads, either_side = x.size(1), head_span // 2
    padded = F.pad(x, (0, 0, 0, 0, either_side, either_side))
    return torch.cat([padded[:, shift : shift + heads] for shift in range(head_span)], dim=2)


def missing_heads(heads: int, head_span: int, device: torch.device | None = None) -> Tensor:
    """Return H×head_span, True where the neighbouring head is before the first or after the last."""
    neighbour = torch.arange(heads, device=device)[:, None] + torch.arange(head_span, device=device) - head_span // 2
    return (neighbour < 0) | (neighbour >= heads)
