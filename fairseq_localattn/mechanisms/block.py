"""Block attention: within blocks of words, and between summaries of the blocks (Bi-BloSAN, Shen et al., ICLR 2018).

In the form that CSAN compares with, inside of multi-head attention. A sentence is cut into blocks m of r words:

1. ``h``: ordinary attention of each head inside of each block
2. ``z = W_2 sigmoid(W_1 h + b_1) + b_2``, one logit a head; ``y_m = Σ_{j∈m} softmax_j(z_j) h_j``, the block's summary
3. ``o = softmax(s (W_3 y + b_3) yᵀ) y``: attention of each head between the summaries, s = D^-½
4. ``G = sigmoid(W_4 [y; o] + b_4)``, ``e = G ⊙ o + (1 - G) ⊙ y``
5. every word takes its block's e: ``W^O (h + P e)``

Blocks begin at the first real word; the last one may be short, and padding has no part in any of the steps. Time
and memory are proportional to T·r + M² for M blocks.

CSAN's code projects [h; e] from 2C to C channels, with as many parameters; there a length that r divides gets a block
of padding, which takes part. Dropout on the weights of both attentions is our choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.attention import LocalAttention
from ..core.call import Call
from ..core.projections import xavier_linear
from ..kernels.dense import scaled_scores, weighted_sum
from ..kernels.dropout import dropout
from ..kernels.masks import at_least_fp32, join_masks, lowest_score, normalise
from ..kernels.once import once_differentiable


@dataclass(frozen=True)
class Blocks:
    """Sentences cut into M blocks of r slots, the last of which may be empty.

    Args:
        count, size: M and r.
        hidden: B×M×r (or 1×M×r), True = the slot is empty; None if no slot is.
        places: for each slot its word, B×(M·r), and for each word its slot, B×T; None where word t is in slot t.
        real: B×T, False at padding; None where word t is in slot t.
    """

    count: int
    size: int
    hidden: Tensor | None
    places: tuple[Tensor, Tensor] | None = None
    real: Tensor | None = None

    @classmethod
    def of(cls, padding: Tensor | None, length: int, size: int, device: torch.device) -> Blocks:
        """Cut sentences with ``padding``, B×T (True = padding) or None, into blocks of ``size`` words; 0: ⌈(2n)^⅓⌉."""
        size = min(size, max(length, 1))  # a longer block would be empty slots
        most = size or _cube_root(2 * length)
        if padding is None:
            count = -(-length // most)
            slots = torch.arange(count * most, device=device).view(1, count, most)
            return cls(count, most, hidden=slots >= length if length % most else None)
        # n / ⌈(2n)^⅓⌉ ≤ (n²/2)^⅓ bounds the number of blocks without reading how long the sentences are.
        count = -(-length // size) if size else _cube_root(length**2 / 2)
        real = ~padding
        seen = real.cumsum(1)
        first, words = (seen == 0).sum(1, keepdim=True), seen[:, -1:]
        sizes = torch.full_like(words, size) if size else _cube_roots(words).clamp(1, most)
        slot = torch.arange(count * most, device=device)
        block = slot // most
        inside = slot - block * most  # a remainder by a size that is no number has no form in ONNX
        word = block * sizes + inside  # from the sentence's first
        empty = (inside >= sizes) | (word >= words)
        position = torch.arange(length, device=device) - first
        to_slot = position.div(sizes, rounding_mode="floor") * most + position.remainder(sizes)
        places = (word + first).clamp(max=length - 1), to_slot.clamp(0, count * most - 1)
        return cls(count, most, hidden=empty.unflatten(1, (count, most)), places=places, real=real)

    def cut(self, x: Tensor) -> Tensor:
        """Sort words into blocks: B×H×T×E → B×H×M×r×E, with 0 in empty slots."""
        if self.places is not None:
            assert self.hidden is not None and self.real is not None
            x = _Move.apply(x, *self.places, ~self.hidden.flatten(1), self.real)
        else:
            x = F.pad(x, (0, 0, 0, self.count * self.size - x.size(2)))
        return x.unflatten(2, (self.count, self.size))

    def join(self, x: Tensor, length: int) -> Tensor:
        """Undo :meth:`cut`: B×H×M×r×E → B×H×T×E, with 0 at padding."""
        x = x.flatten(2, 3)
        if self.places is None:
            return x[:, :, :length]
        assert self.hidden is not None and self.real is not None
        to_word, to_slot = self.places
        return _Move.apply(x, to_slot, to_word, self.real, ~self.hidden.flatten(1))


def _cube_root(number: float) -> int:
    """Return ⌈number^⅓⌉, exact for cubes; at least 1."""
    return max(1, math.ceil(round(number ** (1 / 3), 9)))


def _cube_roots(words: Tensor) -> Tensor:
    """Return ⌈(2n)^⅓⌉ of each number of words."""
    doubled = 2 * words
    roots = doubled.double().pow(1 / 3).round().long()  # the nearest whole number
    return roots + (roots**3 < doubled)


class _Move(torch.autograd.Function):
    """``y[b, :, i] = x[b, :, places[b, i]]`` where ``valid``, else 0; the backward pass moves back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, places: Tensor, back: Tensor, valid: Tensor, valid_back: Tensor) -> Tensor:
        ctx.save_for_backward(places, back, valid, valid_back)
        return _take(x, places, valid)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        _, back, _, valid_back = ctx.saved_tensors
        return _take(gradient, back, valid_back), None, None, None, None


def _take(x: Tensor, places: Tensor, valid: Tensor) -> Tensor:
    """Gather rows of x, B×H×T×E, at ``places``, B×N: B×H×N×E, 0 where ``valid`` is False."""
    batch = torch.arange(x.size(0), device=x.device)[:, None]
    return x.transpose(1, 2)[batch, places].masked_fill_(~valid[:, :, None, None], 0).transpose(1, 2)


class BlockAttention(LocalAttention):
    """Self-attention within blocks and between their summaries, for an encoder.

    Args:
        block_length: r, words in a block; 0 is ⌈(2n)^⅓⌉ for a sentence of n words.
        embed_dim, num_heads, kwargs: see :class:`LocalAttention`.

    The weights that ``need_weights`` returns are those inside of the blocks. Raises ValueError for a negative length;
    ``forward`` raises it with an ``attn_mask`` and from the second step of incremental decoding on, where a block would
    see its own future.
    """

    kind = "block"
    whole = True
    undefined_at = {
        "decoder": "the summary of an unfinished block would show a word the words after it",
        "cross": "queries and keys are words of one sentence here, cut into the same blocks",
    }

    def __init__(self, embed_dim: int, num_heads: int, *, block_length: int = 4, **kwargs: object) -> None:
        super().__init__(embed_dim, num_heads, **kwargs)  # type: ignore[arg-type]
        if block_length < 0:
            raise ValueError(f"the length of a block must be 1 or more, or 0 for ⌈(2n)^⅓⌉, not {block_length}")
        self.block_length = block_length
        channels = self.inner_dim
        self.block_hidden = xavier_linear(channels, channels)  # W_1
        self.block_score = xavier_linear(channels, num_heads)  # W_2
        self.block_query = xavier_linear(channels, channels)  # W_3
        self.block_gate = xavier_linear(2 * channels, channels)  # W_4
        self.block_proj = xavier_linear(channels, channels, bias=False)  # P

    def attend(self, call: Call, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """Compute h + P e, B×H×T×D, and the weights inside of the blocks, B×H×T×S, if asked for."""
        frame = call.frame
        if frame.attn_mask is not None or frame.query_length != frame.key_length:
            raise ValueError("blocks need the whole sentence at once: without attn_mask, and not word by word")
        length = frame.query_length
        blocks = Blocks.of(frame.key_padding_mask, length, self.block_length, call.q.device)
        h, weights = self._within(blocks, *(blocks.cut(x) for x in (call.q, call.k, call.v)), need_weights=need_weights)
        e = self.block_proj(self._between(blocks, self._summaries(blocks, h)))  # B×M×C
        h = h + e.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)[:, :, :, None]
        if weights is not None:
            weights = self._by_word(blocks, weights, length)
        return blocks.join(h, length), weights

    def blind_queries(self, call: Call) -> None:
        """Return None: every word sees itself, and padding, which is in no block, already has values of 0."""
        return None

    def _within(
        self, blocks: Blocks, q: Tensor, k: Tensor, v: Tensor, *, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Attend inside of the blocks: h, B×H×M×r×D, and the weights B×H×M×r×r if asked for."""
        batch = q.size(0)
        q, k, v = (x.transpose(1, 2).flatten(0, 1) for x in (q, k, v))  # (B·M)×H×r×D
        hidden = None
        if blocks.hidden is not None:
            hidden = blocks.hidden.expand(batch, -1, -1).flatten(0, 1)[:, None, None]
        weights = None
        if need_weights:
            scores, mask = scaled_scores(q, k, self.scaling), join_masks(hidden, None, q.dtype)
            weights = normalise(scores if mask is None else scores + mask)
            h = weighted_sum(dropout(weights, self.dropout_rate).to(v.dtype), v)
            weights = weights.unflatten(0, (batch, -1)).transpose(1, 2)
        else:
            h = self.fused(q, k, v, hidden=hidden)
        return h.unflatten(0, (batch, -1)).transpose(1, 2), weights

    def _summaries(self, blocks: Blocks, h: Tensor) -> Tensor:
        """Return y, B×H×M×D, from h, B×H×M×r×D."""
        joined = h.permute(0, 2, 3, 1, 4).flatten(3)  # B×M×r×C
        z = self.block_score(self.block_hidden(joined).sigmoid())  # B×M×r×H
        if blocks.hidden is not None:
            z = z.masked_fill(blocks.hidden[..., None], lowest_score(z.dtype))
        share = torch.softmax(z, dim=2, dtype=at_least_fp32(z.dtype)).to(h.dtype)
        return (share.permute(0, 3, 1, 2)[..., None] * h).sum(3)

    def _between(self, blocks: Blocks, y: Tensor) -> Tensor:
        """Return e, B×M×C, from the blocks' summaries y, B×H×M×D."""
        joined = y.transpose(1, 2).flatten(2)
        queries = self.block_query(joined).unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
        hidden = None if blocks.places is None else blocks.hidden
        if hidden is not None:  # a block without words
            hidden = hidden.all(-1)[:, None, None]
        o = self.fused(queries.to(y.dtype), y, y, hidden=hidden).transpose(1, 2).flatten(2)
        gate = self.block_gate(torch.cat([joined, o], dim=-1)).sigmoid()
        return joined + gate * (o - joined)

    def _by_word(self, blocks: Blocks, weights: Tensor, length: int) -> Tensor:
        """Spread weights B×H×M×r×r over the words: B×H×T×T, 0 outside of a block and at padding."""
        slots = blocks.count * blocks.size
        whole = weights.new_zeros(*weights.shape[:2], slots, slots)
        columns = torch.arange(slots, device=weights.device).view(blocks.count, 1, blocks.size)
        columns = columns.expand(-1, blocks.size, -1).flatten(0, 1).expand(*weights.shape[:2], -1, -1)
        whole = whole.scatter(3, columns, weights.flatten(2, 3))
        for _ in range(2):  # first the queries, then the keys, go from slots to words
            whole = blocks.join(whole.unflatten(2, (blocks.count, blocks.size)), length).transpose(2, 3)
        return whole

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, block_length={self.block_length}"
