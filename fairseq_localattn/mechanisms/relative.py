"""Attention with learned relative positions: vectors (Shaw et al., NAACL 2018) and numbers (Raffel et al., JMLR 2020).

Both depend on the distance j - i of key j from query i, so left padding changes nothing. Distances beyond a greatest
one are not told apart.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from ..core.attention import LocalAttention
from ..core.call import Call
from ..core.query_blocks import queries_at_once
from ..kernels.dense import use_products
from ..kernels.distances import (
    ClippedDistances,
    all_distances,
    bias_by_distance,
    by_position,
    collect,
    relative_attention,
    spread,
)
from ..kernels.kept import kept
from ..kernels.masks import Frame, at_least_fp32, hidden_and_bias, is_future, join_masks
from ..kernels.windows import Score, by_distance
from ..ranges import check_number

# Devices where an operation costs what it computes. Elsewhere each launch costs about the same: use few.
CHEAP_ON = ("cpu",)
MAX_DISTANCES = 1_000_000  # entries of a table of parameters in every layer; more is certainly a typing error


class RelativeAttention(LocalAttention):
    """Relative position representations (Shaw et al. 2018, Eq. 3-5).

    ``e_ij = s · q_i·(k_j + aK_r)`` and ``z_i = Σ_j α_ij (v_j + aV_r)`` with ``r = clip(j - i, -k, k)``. The tables
    ``key_positions`` and ``value_positions`` have a vector for each clipped distance, from -k to k. No tensor of size
    T×S×D is made: queries are multiplied by the tables, and weights are summed by distance.

    Args:
        max_distance: k, 0 or more.
        own_tables: each head has tables of its own, H×(2k+1)×D; otherwise the heads share them, 1×(2k+1)×D.
        values: whether there is aV.
        embed_dim, num_heads, kwargs: see :class:`LocalAttention`.

    Raises ValueError for a ``max_distance`` that is negative or above :data:`MAX_DISTANCES`.
    """

    kind = "relpos"
    undefined_at = {"cross": "a distance between a source and a target position means nothing"}

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        max_distance: int = 16,
        own_tables: bool = False,
        values: bool = True,
        **kwargs: object,
    ) -> None:
        super().__init__(embed_dim, num_heads, **kwargs)  # type: ignore[arg-type]
        check_number("the greatest relative position", max_distance, 0, MAX_DISTANCES)
        self.max_distance, self.own_tables = max_distance, own_tables

        def table() -> nn.Parameter:
            tables = torch.empty(num_heads if own_tables else 1, 2 * max_distance + 1, self.head_dim)
            for each in tables:
                nn.init.xavier_uniform_(each)
            return nn.Parameter(tables)

        self.key_positions = table()
        self.value_positions = table() if values else None

    reads_projections = True  # for q_i·aK_r
    said_by_steps = True  # the steps read no keys, and ``attend`` computes the same

    def distances(self, frame: Frame) -> ClippedDistances:
        """Return the clipped distances of a call."""
        return ClippedDistances(frame.query_length, frame.key_length, frame.offset, self.max_distance)

    def attend(self, call: Call, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """Compute the steps; in a full pass on a GPU with shared tables, in fewer operations."""
        frame, q = call.frame, call.q
        full = self.self_attention and frame.query_length == frame.key_length
        plain = full and not (need_weights or self.own_tables) and q.dtype != torch.float16
        few = plain and q.device.type not in CHEAP_ON
        if not few or queries_at_once(call, self.own_scores + 2) < frame.query_length:
            return super().attend(call, need_weights)
        hidden, bias = hidden_and_bias(frame, None, None, q.dtype)
        if bias is not None and bias.requires_grad:  # an attn_mask
            return super().attend(call, need_weights)
        attended = relative_attention(
            q,
            call.k,
            call.v,
            tables=(self.key_positions, self.value_positions),
            limit=self.max_distance,
            mask=join_masks(hidden, bias, q.dtype),
            scaling=self.scaling,
            dropout=self.dropout_rate,
        )
        return attended, None

    def score_bias(self, call: Call) -> Tensor:
        """Return ``s · q_i·aK_r``, B×H×T×S, in at least fp32."""
        return spread(*self._key_products(call))

    def position_scores(self, call: Call) -> tuple[Score, ...] | None:
        """Return ``s · q_i·aK_r`` as a function of positions; None with aV, which needs the weights."""
        if self.value_positions is not None:
            return None
        products, distances = self._key_products(call)
        products = products.contiguous()
        first, last = (torch.full((), end, device=call.q.device) for end in (distances.first, distances.last))

        def score(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return products[b, h, i, torch.minimum(torch.maximum(j - i, first), last) - first]

        return (score,)

    def _key_products(self, call: Call) -> tuple[Tensor, ClippedDistances]:
        """Return ``s · q_i·aK_r`` of the n distances that occur, B×H×T×n, in at least fp32, and the distances."""
        distances = self.distances(call.frame)
        table = self._rows(self.key_positions, distances).transpose(1, 2) * self.scaling
        return self._multiply(call.q, table), distances

    def has(self, step: str) -> bool:
        """Return whether this attention overrides a step; without aV the attended values stay as they are."""
        return super().has(step) and not (step == "add_values" and self.value_positions is None)

    def add_values(self, attended: Tensor, weights: Tensor, call: Call) -> Tensor:
        """Add the weights, summed by distance, times aV."""
        if self.value_positions is None:
            return attended
        distances = self.distances(call.frame)
        by_distance = self._multiply(collect(weights, distances), self._rows(self.value_positions, distances))
        return attended + by_distance.to(attended.dtype)

    def _rows(self, tables: Tensor, distances: ClippedDistances) -> Tensor:
        """Return the rows of a table for the distances that occur, (H or 1)×n×D, in at least fp32."""
        rows = tables[:, distances.first + self.max_distance : distances.last + self.max_distance + 1]
        return rows.to(at_least_fp32(rows.dtype))

    def _multiply(self, x: Tensor, tables: Tensor) -> Tensor:
        """Multiply x, B×H×T×E, by the table of each head, (H or 1)×E×F. Returns B×H×T×F in the table's precision."""
        length, batch, heads = x.size(2), x.size(0), x.size(1)
        rows = x.permute(2, 0, 1, 3)  # the layout of the projections: rows of one head, or of all, at equal steps
        with torch.autocast(x.device.type, enabled=False):  # which would compute the product in half precision
            if self.own_tables:
                product = torch.bmm(rows.flatten(0, 1).transpose(0, 1).to(tables.dtype), tables)
                return product.unflatten(1, (length, batch)).permute(2, 0, 1, 3)
            product = torch.mm(rows.flatten(0, 2).to(tables.dtype), tables[0])
            return product.unflatten(0, (length, batch, heads)).permute(1, 2, 0, 3)

    def extra_repr(self) -> str:
        tables = f"own_tables={self.own_tables}, values={self.value_positions is not None}"
        return f"{super().extra_repr()}, max_distance={self.max_distance}, {tables}"


def bucket_of(distance: Tensor, buckets: int, max_distance: int, bidirectional: bool) -> Tensor:
    """Return T5's bucket, 0 … ``buckets`` - 1, of each distance j - i.

    In the bidirectional form the upper half of the buckets is that of keys after the query (j > i); in the other form
    all keys after it have bucket 0. Half of a direction's buckets are for one distance each; the others grow in
    equal steps of the logarithm up to ``max_distance``, beyond which all distances have the last one.
    """
    if bidirectional:
        buckets //= 2
        side = torch.where(distance > 0, buckets, 0)
        apart = distance.abs()
    else:
        side = torch.zeros_like(distance)
        apart = (-distance).clamp(min=0)
    exact = buckets // 2
    # In fp32 and in this order, as in T5's own code: some distances lie on the border of two buckets.
    logarithm = torch.log(apart.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    beyond = exact + (logarithm * (buckets - exact)).long()
    return side + torch.where(apart < exact, apart, beyond.clamp(max=buckets - 1))


@kept(8)
def buckets_of(
    lengths: tuple[int, int, int], buckets: int, max_distance: int, *, bidirectional: bool, device: torch.device
) -> Tensor:
    """Return :func:`bucket_of` all distances of T queries and S keys at an offset, ``lengths``: T+S-1."""
    return bucket_of(all_distances(*lengths, device=device), buckets, max_distance, bidirectional=bidirectional)


class DistanceBiasAttention(LocalAttention, ABC):
    """Attention with a bias for each head and distance, given by ``entries``."""

    said_by_steps = True  # ``attend`` computes the same as the other steps

    @abstractmethod
    def entries(self, call: Call) -> Tensor:
        """Return the bias of all distances (:func:`all_distances`) and each head, H×(T+S-1), in at least fp32."""

    def score_bias(self, call: Call) -> Tensor:
        """Return the bias of each head, H×T×S, in at least fp32."""
        return by_position(self.entries(call), call.frame.key_length)

    def position_scores(self, call: Call) -> tuple[Score, ...]:
        """Return the bias as a function of positions."""
        return (by_distance(self.entries(call), call.frame.query_length),)

    def attend(self, call: Call, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """Compute the steps; on a CPU without padding by a view of the entries, where torch's fused kernel is taken.

        The bias of the queries in reversed order is such a view, so no tensor H×T×S is made.
        """
        frame, q, k = call.frame, call.q, call.k
        mask = frame.attn_mask
        by_view = not need_weights and q.device.type in CHEAP_ON and q.size(2) > 1 and frame.key_padding_mask is None
        if by_view and (mask is None or is_future(mask)):
            entries = self.entries(call)
            if not use_products(q, k, entries, dropout=self.dropout_rate, implementation=self.implementation):
                if mask is not None:
                    entries = entries.index_fill(-1, torch.arange(frame.query_length, entries.size(-1)), -torch.inf)
                bias = entries.to(q.dtype).unfold(-1, frame.key_length, 1)
                return self.fused(q.flip(2), k, call.v, bias=bias).flip(2), None
        return super().attend(call, need_weights)


class BucketedAttention(DistanceBiasAttention):
    """T5's relative position bias: ``e_ij = s · q_i·k_j + b[bucket(j - i), h]`` (Raffel et al. 2020).

    The table ``position_bias`` has a number for each bucket of distances and head (:func:`bucket_of`), and starts from
    N(0, 1/C). T5 itself leaves the scaling s out and has one table for all layers of a stack.

    Args:
        buckets: rows of the table, an even number, 4 or more.
        max_distance: distances from here on share the last bucket; more than the distances with a bucket of their own.
        embed_dim, num_heads, kwargs: see :class:`LocalAttention`; if causal, all buckets are for the past.

    Raises ValueError for other numbers of buckets and too small a ``max_distance``.
    """

    kind = "t5bias"
    undefined_at = {"cross": "a distance between a source and a target position means nothing"}

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        buckets: int = 32,
        max_distance: int = 128,
        **kwargs: object,
    ) -> None:
        super().__init__(embed_dim, num_heads, **kwargs)  # type: ignore[arg-type]
        exact = buckets // 2 if self.causal else buckets // 4
        if buckets < 4 or buckets % 2:
            raise ValueError(f"the number of buckets must be even and 4 or more, not {buckets}")
        check_number("the number of buckets", buckets, 4, MAX_DISTANCES)
        if max_distance <= exact:
            raise ValueError(f"the greatest distance must be above {exact} with {buckets} buckets, not {max_distance}")
        self.buckets, self.max_distance = buckets, max_distance
        self.position_bias = nn.Parameter(torch.empty(buckets, num_heads))
        nn.init.normal_(self.position_bias, std=embed_dim**-0.5)

    def entries(self, call: Call) -> Tensor:
        table = self.position_bias.to(at_least_fp32(self.position_bias.dtype))
        return table[self._buckets(call)].T.contiguous()  # which by_position copies row by row

    def score_bias(self, call: Call) -> Tensor:
        """Return the bias of each head, H×T×S: in at least fp32, or on a GPU in the dtype of the table.

        The numbers are those of the table in either case.
        """
        if call.q.device.type in CHEAP_ON:
            return super().score_bias(call)
        lengths = {"queries": call.frame.query_length, "keys": call.frame.key_length}
        return bias_by_distance(self.position_bias, self._buckets(call), **lengths)

    def _buckets(self, call: Call) -> Tensor:
        """Return the bucket of all distances, T+S-1."""
        frame, device = call.frame, call.q.device
        lengths = frame.query_length, frame.key_length, frame.offset
        return buckets_of(lengths, self.buckets, self.max_distance, bidirectional=not self.causal, device=device)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, buckets={self.buckets}, max_distance={self.max_distance}"
