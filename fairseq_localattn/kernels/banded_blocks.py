"""Attention inside a band, and to neighbouring heads, as batched matrix products over overlapping views of blocks.

The positions of a sentence are cut into n blocks of s queries. For the keys and values of each block there is a
*stretch*: the r = s + 2·half_width positions that its queries can reach, so neighbouring stretches share rows. Blocks
are stored in one dimension, ordered by sentence, block and head. The stretches of the heads next to a block's own head
are then the rows before and behind its own, and all keys that a block sees are one overlapping view with equal strides,
which a batched product accepts without a copy. At the first and the last head this view reaches into another block;
the scores there are set to -inf.

Shapes: B sentences, H heads, T positions, D channels per head; n blocks of s queries, r keys per stretch, N heads seen
by a query; m = B·n·H blocks in all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.amp import custom_bwd, custom_fwd

from .dropout import dropout_factors
from .masks import at_least_fp32
from .once import once_differentiable


@dataclass(frozen=True)
class BlockLayout:
    """The layout of a batch of blocks in memory.

    All methods work on *padded* tensors, whose first dimension is the m blocks with N // 2 rows of padding before the
    first and behind the last block, so that :meth:`visible` stays inside of the tensor.

    Args:
        batch: B. heads: H.
        blocks: n, blocks of a sentence. block: s, positions of a block.
        half_width: positions that a stretch adds on either side of its block; at most ``block``.
        head_span: N, heads that a query sees, its own in the middle; odd.
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
    def padding(self) -> int:
        """N // 2: heads seen on either side, and rows of padding at either end."""
        return self.head_span // 2

    @property
    def stretch(self) -> int:
        """r, the positions of a stretch."""
        return self.block + 2 * self.half_width

    def new_empty(self, like: Tensor, *shape: int) -> Tensor:
        """Return an uninitialised padded tensor whose rows have this shape; the padding is 0."""
        padded = like.new_empty(self.count + 2 * self.padding, *shape)
        if self.padding:
            padded[: self.padding].zero_()
            padded[-self.padding :].zero_()
        return padded

    def unpad(self, padded: Tensor) -> Tensor:
        """Return the m blocks without the padding: a view m×…"""
        return padded[self.padding : self.padding + self.count]

    def split(self, blocks: Tensor) -> Tensor:
        """Return blocks m×… by sentence, block and head: a view B×n×H×…"""
        return blocks.unflatten(0, (self.batch, self.blocks, self.heads))

    def cut(self, x: Tensor, half_width: int = 0) -> Tensor:
        """Cut x, B×H×T×D, into blocks that overlap by ``half_width`` positions on either side.

        Returns a padded tensor of rows s×D (or r×D with ``half_width``); positions outside of the sentence are 0.
        """
        length, rows = x.size(2), self.block + 2 * half_width
        padded = self.new_empty(x, rows, x.size(3))
        blocks = self.split(self.unpad(padded))
        # Blocks that lie wholly inside of the sentence are windows of x at equal strides.
        first = 1 if half_width else 0
        start = first * self.block - half_width
        whole = max(0, (length - start - rows) // self.block + 1)
        if whole:
            windows = x[:, :, start:].unfold(2, rows, self.block)  # B×H×whole×D×rows
            blocks[:, first : first + whole] = windows.permute(0, 2, 1, 4, 3)
        for at in (*range(min(first, self.blocks)), *range(first + whole, self.blocks)):  # the first, and the last few
            before = at * self.block - half_width
            inside = slice(max(0, before), max(0, min(length, before + rows)))
            place = blocks[:, at]
            place[:, :, : inside.start - before] = 0
            place[:, :, inside.start - before : inside.stop - before] = x[:, :, inside]
            place[:, :, max(0, inside.stop - before) :] = 0
        return padded

    def merge(self, blocks: Tensor, length: int, half_width: int = 0) -> Tensor:
        """Invert :meth:`cut` for blocks m×…×D, summing positions that several blocks share. Returns B×H×``length``×D.

        The result is laid out as T×B×H×D, which the output projection, or that of the gradient, reads without a copy.
        """
        rows = self.split(blocks).permute(1, 3, 0, 2, 4)  # n×…×B×H×D
        whole = rows.new_empty(self.blocks, self.block, self.batch, self.heads, blocks.size(-1))
        whole.copy_(rows[:, half_width : half_width + self.block])
        if half_width:
            whole[:-1, self.block - half_width :] += rows[1:, :half_width]
            whole[1:, :half_width] += rows[:-1, self.block + half_width :]
        return whole.flatten(0, 1)[:length].permute(1, 2, 0, 3)

    def visible(self, padded: Tensor) -> Tensor:
        """Return for each block the rows of all N heads that it sees, head by head: an overlapping view m×(N·…)×D."""
        rows, channels = padded.shape[1:]
        return padded.as_strided((self.count, self.head_span * rows, channels), (rows * channels, channels, 1))

    def by_key(self, padded: Tensor) -> Tensor:
        """Regroup values of query-key pairs by the block of the key.

        ``padded`` has rows s×(N·r): queries of a block by the keys that they see. Returns m×(N·s)×r: the queries of
        all heads that see the block's own stretch, in the order of :meth:`visible`.
        """
        if self.head_span == 1:
            return padded
        row = self.head_span * self.stretch
        # In the next head, this stretch stands one head earlier in the row.
        strides = self.block * row, self.block * row - self.stretch, row, 1
        shape = self.count, self.head_span, self.block, self.stretch
        first = padded.storage_offset() + (self.head_span - 1) * self.stretch
        return padded.as_strided(shape, strides, first).flatten(1, 2)

    def missing_heads(self, scores: Tensor) -> Iterator[Tensor]:
        """Yield views of the parts of scores, m×s×(N·r), that belong to heads before the first or after the last."""
        by_head = self.split(scores).unflatten(-1, (self.head_span, self.stretch))
        for place in range(self.head_span):
            distance = place - self.padding
            if distance < 0:
                yield by_head[:, :, :-distance, :, place]
            elif distance > 0:
                yield by_head[:, :, max(0, self.heads - distance) :, :, place]


def banded_products(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor,
    bias: Tensor | None = None,
    *,
    layout: BlockLayout,
    scaling: float,
    dropout: float = 0.0,
) -> Tensor:
    """Compute ``dropout(softmax(scaling · QKᵀ + bias + mask)) V`` of each query over its block's stretch.

    Differentiable once.

    Args:
        q, k, v: B×H×T×D.
        mask: added to the scores of each block, (B or 1)×n×s×r, finite, without gradient; it must hide keys outside
            of the sentence and of the band.
        bias: broadcastable to B×n×H×s×r, may need a gradient; only where a query sees its own head alone.
        layout: how the positions are cut into blocks, and the heads that a query sees.
        scaling: factor of the dot products.
        dropout: rate on the weights.

    Factors in half precision are computed in fp32. Returns B×H×T×D.
    """
    with torch.autocast(q.device.type, enabled=False):
        factors = (x.to(at_least_fp32(x.dtype)) for x in (q, k, v))
        attended = _BandedProducts.apply(*factors, mask, bias, layout, scaling, dropout)
    return attended.to(v.dtype)


class _BandedProducts(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cpu")
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor,
        bias: Tensor | None,
        layout: BlockLayout,
        scaling: float,
        dropout: float,
    ) -> Tensor:
        queries, keys, values = layout.cut(q), layout.cut(k, layout.half_width), layout.cut(v, layout.half_width)
        weights = layout.new_empty(q, layout.block, layout.head_span * layout.stretch)
        scores = layout.unpad(weights)
        keys_seen = layout.visible(keys).transpose(1, 2)
        torch.baddbmm(q.new_empty(()), layout.unpad(queries), keys_seen, beta=0, alpha=scaling, out=scores)
        if bias is not None:
            layout.split(scores).add_(bias)
        by_head = layout.split(scores).unflatten(-1, (layout.head_span, layout.stretch))  # B×n×H×s×N×r
        by_head += mask[:, :, None, :, None]
        for part in layout.missing_heads(scores):
            part.fill_(float("-inf"))
        torch.softmax(scores, dim=-1, out=scores)
        factors = dropout_factors(weights, dropout) if dropout else None
        ctx.save_for_backward(queries, keys, values, weights, factors)
        ctx.layout, ctx.scaling, ctx.length = layout, scaling, q.size(2)
        ctx.bias = (bias.shape, bias.dtype) if bias is not None and ctx.needs_input_grad[4] else None
        kept = weights if factors is None else weights * factors
        return layout.merge(torch.bmm(layout.unpad(kept), layout.visible(values)), q.size(2))

    @staticmethod
    @custom_bwd(device_type="cpu")  # without autocast, as the forward pass
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        layout: BlockLayout = ctx.layout
        queries, keys, values, weights, factors = ctx.saved_tensors
        blocks = layout.cut(gradient)
        kept = weights if factors is None else weights * factors
        by_values = torch.bmm(layout.by_key(kept).transpose(1, 2), layout.visible(blocks))
        by_scores = layout.new_empty(weights, *weights.shape[1:])
        inner = layout.unpad(by_scores)
        torch.bmm(layout.unpad(blocks), layout.visible(values).transpose(1, 2), out=inner)
        if factors is not None:
            inner *= layout.unpad(factors)
        torch._softmax_backward_data(inner, layout.unpad(weights), -1, weights.dtype, grad_input=inner)
        by_bias = None
        if ctx.bias is not None:
            shape, dtype = ctx.bias
            by_bias = layout.split(inner).sum_to_size(shape).to(dtype)
        scaled = {"beta": 0, "alpha": ctx.scaling}
        nothing = gradient.new_empty(())
        by_queries = torch.baddbmm(nothing, layout.unpad(by_scores), layout.visible(keys), **scaled)
        by_keys = torch.baddbmm(nothing, layout.by_key(by_scores).transpose(1, 2), layout.visible(queries), **scaled)
        by_q = layout.merge(by_queries, ctx.length)
        by_k, by_v = (layout.merge(x, ctx.length, layout.half_width) for x in (by_keys, by_values))
        return by_q, by_k, by_v, None, by_bias, None, None, None


def by_key_position(weights: Tensor, key_index: Tensor, key_length: int) -> Tensor:
    """Scatter weights of stretches, B×H×n×s×r, to key positions: B×H×(n·s)×S."""
    batch, heads, _, rows, _ = weights.shape
    index = (
        key_index.clamp(0, key_length - 1)[:, None, :].expand(-1, rows, -1).flatten(0, 1).expand(batch, heads, -1, -1)
    )
    return weights.new_zeros(batch, heads, index.size(2), key_length).scatter_add(3, index, weights.flatten(2, 3))
