"""Attention inside a band, and to neighbouring heads, as matrix products on overlapping views of blocks.

Queries are cut into blocks; of keys and values there is, for each block, the stretch that its queries can reach, so
neighbouring stretches share rows. Blocks stand in one line in the order of sentence, block and head: what a block sees
of the heads beside its own are the stretches before and behind its own, so all that it sees is a view of the line with
equal steps, which a product takes as it is. At the first and last head that view shows a stretch of another block: the
score there is -∞.

Letters in shapes: B sentences, H heads, T positions, D channels a head; n blocks of s queries, r keys a stretch, N
heads seen; m = B·n·H blocks in all.
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
class BlockLayout:
    """How ``batch`` sentences of ``heads`` heads stand in a line: each in ``blocks`` blocks of ``block`` positions.

    A stretch is a block with ``half_width`` rows before and behind it, at most ``block``. ``head_span``: N, odd.
    N // 2 empty places stand before the first block and behind the last.
    """

    batch: int
    heads: int
    blocks: int
    block: int
    half_width: int
    head_span: int

    @property
    def count(self) -> int:
        """m, the number of blocks."""
        return self.batch * self.blocks * self.heads

    @property
    def side(self) -> int:
        """Heads seen on either side, and places before the first block and behind the last."""
        return self.head_span // 2

    @property
    def reach(self) -> int:
        """r, the rows of a stretch."""
        return self.block + 2 * self.half_width

    def empty(self, like: Tensor, *shape: int) -> Tensor:
        """A line of m places of this shape, with zeros in the places at its ends."""
        line = like.new_empty(self.count + 2 * self.side, *shape)
        if self.side:
            line[: self.side].zero_()
            line[-self.side :].zero_()
        return line

    def places(self, line: Tensor) -> Tensor:
        """The line without its ends: a view, m×…"""
        return line[self.side : self.side + self.count]

    def by_block(self, line: Tensor) -> Tensor:
        """Of a line without its ends, m×…, by sentence, block and head: a view, B×n×H×…"""
        return line.unflatten(0, (self.batch, self.blocks, self.heads))

    def cut(self, x: Tensor, half_width: int = 0) -> Tensor:
        """The blocks of x, B×H×T×D, each with ``half_width`` rows of its neighbours on either side, and zeros beyond.

        A line of places s×D, or r×D.
        """
        length, rows = x.size(2), self.block + 2 * half_width
        line = self.empty(x, rows, x.size(3))
        by_block = self.by_block(self.places(line))
        # Blocks whose rows are all there are windows of x at equal steps.
        first = 1 if half_width else 0
        start = first * self.block - half_width
        whole = max(0, (length - start - rows) // self.block + 1)
        if whole:
            windows = x[:, :, start:].unfold(2, rows, self.block)  # B×H×whole×D×rows
            by_block[:, first : first + whole] = windows.permute(0, 2, 1, 4, 3)
        for at in (*range(min(first, self.blocks)), *range(first + whole, self.blocks)):  # the first, and the last few
            before = at * self.block - half_width
            there = slice(max(0, before), max(0, min(length, before + rows)))
            place = by_block[:, at]
            place[:, :, : there.start - before] = 0
            place[:, :, there.start - before : there.stop - before] = x[:, :, there]
            place[:, :, max(0, there.stop - before) :] = 0
        return line

    def joined(self, blocks: Tensor, length: int, half_width: int = 0) -> Tensor:
        """The inverse of :meth:`cut` for places m×…×D, where rows in several places are summed: B×H×``length``×D.

        In memory it is T×B×H×D, which the projections of its gradient, or of itself, need not copy.
        """
        rows = self.by_block(blocks).permute(1, 3, 0, 2, 4)  # n×…×B×H×D
        whole = rows.new_empty(self.blocks, self.block, self.batch, self.heads, blocks.size(-1))
        whole.copy_(rows[:, half_width : half_width + self.block])
        if half_width:
            whole[:-1, self.block - half_width :] += rows[1:, :half_width]
            whole[1:, :half_width] += rows[:-1, self.block + half_width :]
        return whole.flatten(0, 1)[:length].permute(1, 2, 0, 3)

    def seen(self, line: Tensor) -> Tensor:
        """Of each block the places of all heads that it sees, one after the other: a view with overlaps, m×(N·…)×D."""
        rows, channels = line.shape[1:]
        return line.as_strided((self.count, self.head_span * rows, channels), (rows * channels, channels, 1))

    def by_key(self, line: Tensor) -> Tensor:
        """What queries have for keys, by the keys' place: m×(N·s)×r from a line of places s×(N·r).

        The queries are those of the places that see this one: those that it sees, in the same order.
        """
        if self.head_span == 1:
            return line
        row = self.head_span * self.reach
        # One place further on, these keys are those of the head before.
        steps = self.block * row, self.block * row - self.reach, row, 1
        shape = self.count, self.head_span, self.block, self.reach
        first = line.storage_offset() + (self.head_span - 1) * self.reach
        return line.as_strided(shape, steps, first).flatten(1, 2)

    def missing(self, scores: Tensor) -> Iterator[Tensor]:
        """The parts of scores, m×s×(N·r), whose head does not exist: views."""
        by_head = self.by_block(scores).unflatten(-1, (self.head_span, self.reach))
        for place in range(self.head_span):
            distance = place - self.side
            if distance < 0:
                yield by_head[:, :, :-distance, :, place]
            elif distance > 0:
                yield by_head[:, :, max(0, self.heads - distance) :, :, place]


def banded_products(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor, line: BlockLayout, scaling: float, dropout: float = 0.0
) -> Tensor:
    """Attention of queries B×H×T×D to the keys and values in their stretches: B×H×T×D. Differentiable once.

    ``mask``: added to the scores of each block, (B or 1)×n×s×r, finite, without gradient; it must hide what is not of
    the sentence and the band.
    """
    return _BandedProducts.apply(q, k, v, mask, line, scaling, dropout)


class _BandedProducts(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, line: BlockLayout, scaling: float, dropout: float
    ) -> Tensor:
        queries, keys, values = line.cut(q), line.cut(k, line.half_width), line.cut(v, line.half_width)
        weights = line.empty(q, line.block, line.head_span * line.reach)
        scores = line.places(weights)
        keys_seen = line.seen(keys).transpose(1, 2)
        torch.baddbmm(q.new_empty(()), line.places(queries), keys_seen, beta=0, alpha=scaling, out=scores)
        by_head = line.by_block(scores).unflatten(-1, (line.head_span, line.reach))  # B×n×H×s×N×r
        by_head += mask[:, :, None, :, None]
        for part in line.missing(scores):
            part.fill_(float("-inf"))
        torch.softmax(scores, dim=-1, out=scores)
        factors = dropout_factors(weights, dropout) if dropout else None
        ctx.save_for_backward(queries, keys, values, weights, factors)
        ctx.line, ctx.scaling, ctx.length = line, scaling, q.size(2)
        kept = weights if factors is None else weights * factors
        return line.joined(torch.bmm(line.places(kept), line.seen(values)), q.size(2))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        line: BlockLayout = ctx.line
        queries, keys, values, weights, factors = ctx.saved_tensors
        blocks = line.cut(gradient)
        kept = weights if factors is None else weights * factors
        by_values = torch.bmm(line.by_key(kept).transpose(1, 2), line.seen(blocks))
        by_scores = line.empty(weights, *weights.shape[1:])
        inner = line.places(by_scores)
        torch.bmm(line.places(blocks), line.seen(values).transpose(1, 2), out=inner)
        if factors is not None:
            inner *= line.places(factors)
        torch._softmax_backward_data(inner, line.places(weights), -1, weights.dtype, grad_input=inner)
        scaled = {"beta": 0, "alpha": ctx.scaling}
        nothing = gradient.new_empty(())
        by_queries = torch.baddbmm(nothing, line.places(by_scores), line.seen(keys), **scaled)
        by_keys = torch.baddbmm(nothing, line.by_key(by_scores).transpose(1, 2), line.seen(queries), **scaled)
        by_q = line.joined(by_queries, ctx.length)
        by_k, by_v = (line.joined(x, ctx.length, line.half_width) for x in (by_keys, by_values))
        return by_q, by_k, by_v, None, None, None, None
