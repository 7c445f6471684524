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


def all_distances(
    query_length: int, key_length: int, offset: int, device: torch.device | None = None, dtype: torch.dtype = torch.long
) -> Tensor:
    """Return the T+S-1 distances ``j - i`` in ascending order: -(offset+T-1) … S-1-offset."""
    farthest = offset + query_length - 1
    return torch.arange(-farthest, key_length - offset, device=device, dtype=dtype)


def by_position(entries: Tensor, keys: int) -> Tensor:
    """Arrange entries of all distances, …×(T+S-1) as in :func:`all_distances`, by query and key: …×T×S."""
    return entries.unfold(-1, keys, 1).flip(-2)


@dataclass(frozen=True)
class ClippedDistances:
    """Distances of T queries from S keys, clipped to -limit … limit.

    Args:
        queries: T.
        keys: S, at least ``offset`` + T.
        offset: position of the first query among the keys.
        limit: the greatest distance that is told apart from those beyond it; 0 or more.
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
        return max(-self.limit, 1 - self.offset - self.queries)

    @property
    def last(self) -> int:
        """The highest clipped distance that occurs; 0 or more."""
        return min(self.limit, self.keys - self.offset - 1)

    @property
    def count(self) -> int:
        """n, the number of clipped distances that occur."""
        return self.last - self.first + 1

    @property
    def before(self) -> int:
        """The number of distances below :attr:`first`."""
        return self.first + self.offset + self.queries - 1

    def view(self, columns: Tensor) -> Tensor:
        """Return ``columns``, contiguous …×T×(T+S-1) by query and distance, by query and key: a view …×T×S."""
        steps = (*columns.stride()[:-2], self.width - 1, 1)
        start = columns.storage_offset() + self.queries - 1
        return columns.as_strided((*columns.shape[:-1], self.keys), steps, start)


def spread(x: Tensor, distances: ClippedDistances) -> Tensor:
    """Read x, …×T×n by query and clipped distance (``first`` to ``last``), for each key: …×T×S."""
    return _Spread.apply(x, distances)


def collect(x: Tensor, distances: ClippedDistances) -> Tensor:
    """Sum x, …×T×S, over the keys of each clipped distance: …×T×n. The transpose of :func:`spread`."""
    return _Collect.apply(x, distances)


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, distances: ClippedDistances) -> Tensor:
        ctx.distances = distances
        after = distances.width - distances.before - distances.count
        rows = x.shape[:-1]
        columns = torch.cat([x[..., :1].expand(*rows, distances.before), x, x[..., -1:].expand(*rows, after)], dim=-1)
        return distances.view(columns.contiguous())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return collect(gradient, ctx.distances), None


class _Collect(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, distances: ClippedDistances) -> Tensor:
        ctx.distances = distances
        first, end = distances.before, distances.before + distances.count
        columns = x.new_zeros(*x.shape[:-1], distances.width)
        distances.view(columns).copy_(x)
        if first:
            columns[..., first] += columns[..., :first].sum(-1)
        if end < distances.width:
            columns[..., end - 1] += columns[..., end:].sum(-1)
        return columns[..., first:end]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return spread(gradient, ctx.distances), None
