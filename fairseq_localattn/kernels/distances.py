"""Quantities that depend on the distance between a key and a query, as tensors by position. Depends on torch alone.

The T queries stand at positions ``offset … offset+T-1`` among the S keys, so there are T+S-1 distances ``j - i`` of a
key j from a query i. Entries by distance become a tensor by query and key through a view in which each row starts one
entry earlier: no index is used, not in the backward pass either, and nothing is larger than T×(T+S-1).

Shapes: B sentences, H heads, n distances that are told apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .dropout import dropout_factors
from .masks import at_least_fp32
from .once import once_differentiable
from .passes import is_exporting, shared


def all_distances(
    query_length: int, key_length: int, offset: int, device: torch.device | None = None, dtype: torch.dtype = torch.long
) -> Tensor:
    """Return the T+S-1 distances ``j - i`` in ascending order: -(offset+T-1) … S-1-offset."""
    farthest = offset + query_length - 1
    return torch.arange(-farthest, key_length - offset, device=device, dtype=dtype)


def by_position(entries: Tensor, keys: int) -> Tensor:
    """Arrange entries of all distances, …×(T+S-1) as in :func:`all_distances`, by query and key: …×T×S."""
    if is_exporting():  # which makes a constant of the size of a view's windows
        first = torch.arange(entries.size(-1) - keys, -1, -1, device=entries.device)
        return entries[..., first[:, None] + torch.arange(keys, device=entries.device)]
    return entries.unfold(-1, keys, 1).flip(-2)


@dataclass(frozen=True)
class ClippedDistances:
    """Distances of T queries from S keys, clipped to -limit … limit.

    Args:
        queries: T.
        keys: S, at least ``offset`` + T.
        offset: position of the first query among the keys.
        limit: the greatest distance; those beyond it count as it. 0 or more.
    """

    queries: int
    keys: int
    offset: int
    limit: int

    @property
    def width(self) -> int:
        """T+S-1, the number of distances before clipping."""
        return self.queries + self.keys - 1

    @property
    def first(self) -> int:
        """The lowest clipped distance that occurs; 0 or less."""
        return -self.limit if is_exporting() else max(-self.limit, 1 - self.offset - self.queries)

    @property
    def last(self) -> int:
        """The highest clipped distance that occurs; 0 or more."""
        return self.limit if is_exporting() else min(self.limit, self.keys - self.offset - 1)

    @property
    def count(self) -> int:
        """n, the number of clipped distances that occur."""
        return self.last - self.first + 1

    @property
    def before(self) -> int:
        """The number of distances below :attr:`first`."""
        return self.first + self.offset + self.queries - 1

    def of_pairs(self, device: torch.device) -> Tensor:
        """Return the number of each pair's clipped distance among those that occur, T×S."""
        distances = all_distances(self.queries, self.keys, self.offset, device)
        return by_position(distances.clamp(self.first, self.last) - self.first, self.keys)


def spread(x: Tensor, distances: ClippedDistances) -> Tensor:
    """Read x, …×T×n by query and clipped distance (``first`` to ``last``), for each key: …×T×S."""
    if is_exporting():
        return x.gather(-1, distances.of_pairs(x.device).expand(*x.shape[:-1], -1))
    return _Spread.apply(x, distances)


def collect(x: Tensor, distances: ClippedDistances) -> Tensor:
    """Sum x, …×T×S, over the keys of each clipped distance: …×T×n. The transpose of :func:`spread`."""
    if is_exporting():
        places = distances.of_pairs(x.device).expand_as(x)
        return x.new_zeros(*x.shape[:-1], distances.count).scatter_add(-1, places, x)
    return _Collect.apply(x, distances)


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, distances: ClippedDistances) -> Tensor:
        ctx.distances = distances
        after = distances.width - distances.before - distances.count
        rows = x.shape[:-1]
        columns = torch.cat([x[..., :1].expand(*rows, distances.before), x, x[..., -1:].expand(*rows, after)], dim=-1)
        return _skewed(columns.contiguous(), distances.keys)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return collect(gradient, ctx.distances), None


class _Collect(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, distances: ClippedDistances) -> Tensor:
        ctx.distances = distances
        first, end = distances.before, distances.before + distances.count
        columns = x.new_zeros(*x.shape[:-1], distances.width)
        _skewed(columns, distances.keys).copy_(x)
        if first:
            columns[..., first] += columns[..., :first].sum(-1)
        if end < distances.width:
            columns[..., end - 1] += columns[..., end:].sum(-1)
        return columns[..., first:end]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return spread(gradient, ctx.distances), None


# ---------------------------------------------------------------------- in few operations, for a GPU


def bias_by_distance(table: Tensor, entries: Tensor, *, queries: int, keys: int) -> Tensor:
    """Return the bias H×T×S of each head, query and key, read from ``table``, n×H, by their distance.

    ``entries`` has the table's row for each of the T+S-1 distances, ascending. Layers of a forward pass share its form
    by position.
    """
    return _BiasByDistance.apply(table, *_rows_of(entries, table.size(0), queries=queries, keys=keys))


def _rows_of(entries: Tensor, rows: int, *, queries: int, keys: int) -> tuple[Tensor, Tensor]:
    """Return the entry of each pair, T×S, and which distances have an entry, n×(T+S-1) of 0 and 1 in fp32."""

    def make() -> tuple[Tensor, Tensor]:
        of_row = torch.arange(rows, device=entries.device)[:, None] == entries
        return by_position(entries, keys), of_row.float()

    return shared(make, "rows of distances", entries, rows, queries, keys)


class _BiasByDistance(torch.autograd.Function):
    """Reads a number for each pair at once; the gradient is summed by distance first, without an index."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, of_pair: Tensor, of_row: Tensor) -> Tensor:
        ctx.save_for_backward(of_row)
        ctx.dtype = table.dtype
        return table.T.index_select(1, of_pair.flatten()).unflatten(1, of_pair.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (of_row,) = ctx.saved_tensors
        columns = gradient.new_zeros(*gradient.shape[:-1], of_row.size(1))
        _skewed(columns, gradient.size(-1)).copy_(gradient)
        by_distance = columns.sum(1, dtype=at_least_fp32(gradient.dtype))  # H×(T+S-1)
        with torch.autocast(gradient.device.type, enabled=False):
            return torch.mm(of_row.to(by_distance.dtype), by_distance.T).to(ctx.dtype), None, None


def relative_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    tables: tuple[Tensor, Tensor | None],
    limit: int,
    mask: Tensor | None,
    scaling: float,
    dropout: float,
) -> Tensor:
    """Compute attention with vectors of clipped distances (Shaw et al. 2018), B×H×T×D. Differentiable once.

    Both terms of distances are products with a vector for each of the 2T-1 distances, of which a skewed view is that
    of each pair. Scores are rounded to the dtype of q as those of the keys are; the softmax is in at least fp32.

    Args:
        q, k, v: B×H×T×D.
        tables: of the keys and of the values (or None), 1×(2·limit+1)×D.
        limit: the greatest distance; those beyond it count as it.
        mask: added to the scores, broadcastable to B×H×T×T; None for nothing.
        scaling: factor of the scores.
        dropout: rate on the weights.
    """
    length = q.size(2)

    def place() -> Tensor:
        return all_distances(length, length, 0, device=q.device).clamp_(-limit, limit) + limit

    entries = shared(place, "clipped", length, limit, q.device)
    _, of_row = _rows_of(entries, 2 * limit + 1, queries=length, keys=length)
    with torch.autocast(q.device.type, enabled=False):
        keys, values = (None if each is None else each.to(q.dtype) for each in tables)
        return _Relative.apply(q, k.to(q.dtype), v.to(q.dtype), keys, values, entries, of_row, mask, scaling, dropout)


class _Relative(torch.autograd.Function):
    """Tensors by query, sentence and head lie in this order in memory, as projections do, so that none is copied."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        keys: Tensor,
        values: Tensor | None,
        entries: Tensor,
        of_row: Tensor,
        mask: Tensor | None,
        scaling: float,
        dropout: float,
    ) -> Tensor:
        length = q.size(2)
        by_key = keys[0].index_select(0, entries)  # (2T-1)×D
        by_value = None if values is None else values[0].index_select(0, entries)
        scores = torch.baddbmm(q.new_empty(()), _flat(q), _flat(k).transpose(1, 2), beta=0, alpha=scaling)
        scores = scores.unflatten(0, q.shape[:2])
        of_distance = _skewed(_by_head(torch.mm(_rows(q), by_key.T), q), length)
        weights = torch.add(
            scores, of_distance, alpha=scaling, out=torch.empty_like(scores, dtype=at_least_fp32(q.dtype))
        )
        if mask is not None:
            weights += mask
        weights = torch.softmax(weights, -1)
        factors = dropout_factors(weights, dropout) if dropout else None
        kept = (weights if factors is None else weights * factors).to(q.dtype)
        columns = None if by_value is None else _columns(kept)
        out = _new(q)
        torch.bmm(_flat(kept), _flat(v), out=_flat(out))
        if by_value is not None:
            assert columns is not None
            _rows(out).addmm_(_rows(columns), by_value)
            kept = _skewed(columns, length)
        ctx.save_for_backward(q, k, v, by_key, by_value, of_row, weights, factors, kept, columns)
        ctx.scaling = scaling
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, by_key, by_value, of_row, weights, factors, kept, columns = ctx.saved_tensors
        scaling, nothing, of_row = ctx.scaling, q.new_empty(()), of_row.to(q.dtype)
        with torch.autocast(q.device.type, enabled=False):
            by_q, by_k, by_v, by_values = _new(q), _new(k), _new(v), None
            torch.bmm(_flat(kept).transpose(1, 2), _flat(gradient), out=_flat(by_v))
            by_weights = torch.bmm(_flat(gradient), _flat(v).transpose(1, 2)).unflatten(0, q.shape[:2])
            if by_value is None:
                by_weights = by_weights.to(weights.dtype)
            else:
                by_values = torch.mm(of_row, torch.mm(_rows(columns).T, _rows(gradient)))[None]
                of_distance = _skewed(_by_head(torch.mm(_rows(gradient), by_value.T), q), q.size(2))
                by_weights = torch.add(by_weights, of_distance, out=torch.empty_like(weights))
            if factors is not None:
                by_weights *= factors
            by_scores = torch._softmax_backward_data(by_weights, weights, -1, weights.dtype).to(q.dtype)
            torch.baddbmm(nothing, _flat(by_scores), _flat(k), beta=0, alpha=scaling, out=_flat(by_q))
            torch.baddbmm(nothing, _flat(by_scores).transpose(1, 2), _flat(q), beta=0, alpha=scaling, out=_flat(by_k))
            columns = _rows(_columns(by_scores))
            _rows(by_q).addmm_(columns, by_key, alpha=scaling)
            by_entry = torch.addmm(nothing, columns.T, _rows(q), beta=0, alpha=scaling)
            return by_q, by_k, by_v, torch.mm(of_row, by_entry)[None], by_values, *[None] * 5


def _flat(x: Tensor) -> Tensor:
    """Return x, B×H×T×E, as (B·H)×T×E; a view, since sentences and heads lie at equal steps."""
    return x.flatten(0, 1)


def _rows(x: Tensor) -> Tensor:
    """Return x, B×H×T×E, as (T·B·H)×E."""
    return x.permute(2, 0, 1, 3).reshape(-1, x.size(3))


def _by_head(rows: Tensor, like: Tensor) -> Tensor:
    """Return rows (T·B·H)×E as a view B×H×T×E, given ``like``, B×H×T×D."""
    return rows.view(like.size(2), *like.shape[:2], -1).permute(1, 2, 0, 3)


def _new(like: Tensor) -> Tensor:
    """Return an uninitialised tensor B×H×T×D in the memory layout of the projections."""
    return like.new_empty(like.size(2), *like.shape[:2], like.size(3)).permute(1, 2, 0, 3)


def _columns(x: Tensor) -> Tensor:
    """Return x, B×H×T×S, by query and distance, B×H×T×(T+S-1), with 0 elsewhere, in the layout of :func:`_new`."""
    batch, heads, length, keys = x.shape
    columns = x.new_zeros(length, batch, heads, length + keys - 1).permute(1, 2, 0, 3)
    _skewed(columns, keys).copy_(x)
    return columns


def _skewed(columns: Tensor, keys: int) -> Tensor:
    """Return columns, …×T×(T+S-1) by query and distance, by query and key: a view …×T×S.

    The distances of a query are next to each other in memory; the other dimensions have any order.
    """
    steps = (*columns.stride()[:-2], columns.stride(-2) - 1, 1)
    start = columns.storage_offset() + columns.size(-2) - 1
    return columns.as_strided((*columns.shape[:-1], keys), steps, start)
