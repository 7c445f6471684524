"""Attention inside a band, and to neighbouring heads, as matrix products on overlapping views of the keys.

All sentences and heads stand in one line of rows, each padded to whole blocks. The keys that a block of queries can
reach are a stretch of that line, and so are those of the head beside it, a sentence's length further: each is a view
with equal steps from block to block, which a product takes as it is. Where a stretch leaves its sentence, the mask of
the band hides what it meets; where there is no neighbouring head, the score is -∞.

Letters in shapes: B sentences, H heads, T positions, D channels a head; n blocks of s queries, r keys a stretch, N
heads seen; m = B·H·n blocks in all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .dropout import dropout_factors


@dataclass(frozen=True)
class Line:
    """Where rows stand: ``batch`` × ``heads`` runs of ``blocks`` × ``block`` rows, and room before and behind.

    ``half_width``: rows of a stretch before and behind its block. ``head_span``: N, odd.
    """

    batch: int
    heads: int
    blocks: int
    block: int
    half_width: int
    head_span: int

    @property
    def run(self) -> int:
        """Rows of a sentence and head."""
        return self.blocks * self.block

    @property
    def count(self) -> int:
        """m, the number of blocks."""
        return self.batch * self.heads * self.blocks

    @property
    def room(self) -> int:
        """Rows before the first and behind the last."""
        return self.half_width + self.head_span // 2 * self.run

    @property
    def reach(self) -> int:
        """r, the rows of a stretch."""
        return self.block + 2 * self.half_width

    def empty(self, x: Tensor) -> Tensor:
        """A line of zeros, as long as it takes, with the channels of x."""
        return x.new_zeros(2 * self.room + self.count * self.block, x.size(-1))

    def sentences(self, line: Tensor, length: int) -> Tensor:
        """The first ``length`` rows of each sentence and head: a view, B×H×length×D."""
        rows = line[self.room : line.size(0) - self.room]
        return rows.view(self.batch, self.heads, self.run, line.size(1))[:, :, :length]

    def laid_out(self, x: Tensor) -> Tensor:
        """x, B×H×T×D, as a line."""
        line = self.empty(x)
        self.sentences(line, x.size(2)).copy_(x)
        return line

    def all_blocks(self, line: Tensor) -> Tensor:
        """The blocks of a line: a view, m×s×D."""
        return line[self.room : line.size(0) - self.room].view(self.count, self.block, line.size(1))

    def distances(self) -> Iterator[tuple[int, int]]:
        """Place (0 … N-1) and distance of each head seen."""
        return ((place, place - self.head_span // 2) for place in range(self.head_span))

    def _first(self, distance: int) -> int:
        """The first row of the first stretch in the head at this distance."""
        return self.room + distance * self.run - self.half_width

    def stretches(self, line: Tensor, distance: int) -> Tensor:
        """Of each block, the rows that it reaches in the head at this distance: a view with overlaps, m×r×D."""
        channels = line.size(-1)
        steps = self.block * channels, channels, 1
        return line.as_strided((self.count, self.reach, channels), steps, self._first(distance) * channels)

    def add_stretches(self, line: Tensor, rows: Tensor, distance: int) -> None:
        """Add m×r×D to the rows that :meth:`stretches` shows, where they overlap to each its sum."""
        for start in range(0, self.reach, self.block):
            part = rows[:, start : start + self.block]
            first = self._first(distance) + start
            # The last of these blocks may reach beyond the line's end; of the others each has a place of its own.
            whole = min(self.count, (line.size(0) - first) // self.block)
            line[first : first + whole * self.block].view(whole, self.block, line.size(1))[:, : part.size(1)] += part[
                :whole
            ]
            if whole < self.count:
                last = first + whole * self.block
                line[last : last + part.size(1)] += part[whole]

    def fill_missing(self, x: Tensor, distance: int, value: float) -> None:
        """Fill the rows of x, m×s×r, whose head has no neighbour at this distance."""
        by_head = x.unflatten(0, (self.batch, self.heads, self.blocks))
        missing = slice(0, -distance) if distance < 0 else slice(self.heads - distance, self.heads)
        by_head[:, missing].fill_(value)


def banded_products(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor, line: Line, scaling: float, dropout: float = 0.0
) -> Tensor:
    """Attention of queries B×H×T×D to the keys and values in their stretches: B×H×T×D. Differentiable once.

    ``mask``: added to the scores of each block, (B or 1)×n×s×r, finite, without gradient; it must hide what is not of
    the sentence and the band.
    """
    return _BandedProducts.apply(q, k, v, mask, line, scaling, dropout)


class _BandedProducts(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, line: Line, scaling: float, dropout: float
    ) -> Tensor:
        lines = line.laid_out(q), line.laid_out(k), line.laid_out(v)
        blocks = line.all_blocks(lines[0])
        scores = q.new_empty(line.count, line.block, line.head_span, line.reach)
        for place, distance in line.distances():
            keys = line.stretches(lines[1], distance).transpose(1, 2)
            product = torch.baddbmm(q.new_empty(()), blocks, keys, beta=0, alpha=scaling)
            by_head = (line.batch, line.heads, line.blocks)
            torch.add(product.unflatten(0, by_head), mask[:, None], out=scores[:, :, place].unflatten(0, by_head))
            if distance:
                line.fill_missing(scores[:, :, place], distance, float("-inf"))
        weights = torch.softmax(scores.flatten(2), dim=-1)
        factors = dropout_factors(weights, dropout) if dropout else None
        ctx.save_for_backward(*lines, weights, factors)
        ctx.line, ctx.scaling, ctx.length = line, scaling, q.size(2)
        kept = (weights if factors is None else weights * factors).view_as(scores)
        attended = q.new_zeros(line.count, line.block, v.size(-1))
        for place, distance in line.distances():
            attended.baddbmm_(kept[:, :, place], line.stretches(lines[2], distance))
        return attended.view(line.batch, line.heads, line.run, v.size(-1))[:, :, : q.size(2)]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        line: Line = ctx.line
        q_line, k_line, v_line, weights, factors = ctx.saved_tensors
        blocks = line.all_blocks(line.laid_out(gradient))
        shape = line.count, line.block, line.head_span, line.reach
        kept = (weights if factors is None else weights * factors).view(shape)
        by_kept = weights.new_empty(shape)
        by_q, by_k, by_v = (line.empty(gradient) for _ in range(3))
        for place, distance in line.distances():
            by_kept[:, :, place] = torch.bmm(blocks, line.stretches(v_line, distance).transpose(1, 2))
            line.add_stretches(by_v, torch.bmm(kept[:, :, place].transpose(1, 2), blocks), distance)
        by_weights = by_kept.flatten(2)
        if factors is not None:
            by_weights *= factors
        by_scores = torch._softmax_backward_data(by_weights, weights, -1, weights.dtype).view(shape)
        queries, nothing = line.all_blocks(q_line), gradient.new_empty(())
        for place, distance in line.distances():
            scores = by_scores[:, :, place]
            line.all_blocks(by_q).baddbmm_(scores, line.stretches(k_line, distance), alpha=ctx.scaling)
            by_keys = torch.baddbmm(nothing, scores.transpose(1, 2), queries, beta=0, alpha=ctx.scaling)
            line.add_stretches(by_k, by_keys, distance)
        return *(line.sentences(x, ctx.length) for x in (by_q, by_k, by_v)), None, None, None, None
