"""Differentiable windows: each query points to both ends of the keys that it attends to (Nguyen et al., ACL 2020).

Two pointers ``φ_l, φ_r`` are distributions over the keys, each with projections of its own (Eq. 7, 8), so that each
head has its own window. The soft mask of a query is the probability that a key lies between both ends, whichever is
left (Eq. 9):

    m_i = P(l ≤ i) P(r ≥ i) + P(r ≤ i) P(l ≥ i)

In the segment form the keys are cut into segments of b and the ends are those of segments (Eq. 10, 11). The mask
multiplies the weights (MW, Eq. 12, 13), or a second set of scores that is added to the ordinary ones (AW, Eq. 14-17).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..core.attention import LocalAttention
from ..kernels.dense import paired_scores, scaled_scores
from ..kernels.masks import Frame, combine_masks, normalise


def soft_window(pointers: Tensor) -> Tensor:
    """The soft mask of two pointers, in time and memory linear in the keys (Eq. 9).

    Args:
        pointers: 2×…×S, the left one and the right one, each a distribution over the keys.

    Returns …×S, P(key i lies between the ends); a key where both ends may meet is counted twice, as in Eq. 9, so that
    values reach 2. One-hot pointers l ≠ r give the discrete window of Eq. 3. Differentiable once.
    """
    return _SoftWindow.apply(pointers)


def _from_the_end(pointer: Tensor) -> Tensor:
    """P(end ≥ i) of each key i. (1 - P(end < i) would be all rounding where it is small.)"""
    return pointer.flip(-1).cumsum_(-1).flip(-1)


def _between(before: Tensor, after: Tensor) -> Tensor:
    """Eq. 9 from P(end ≤ i) and P(end ≥ i) of both ends, 2×…×S."""
    return (before[0] * after[1]).addcmul_(before[1], after[0])


def _between_gradients(gradient: Tensor, before: Tensor, after: Tensor) -> Tensor:
    """That of the pointers. The gradient of a sum from the front is a sum from the end, and the other way round."""
    by_pointers = torch.empty_like(before)
    for pointer, by_pointer in enumerate(by_pointers):  # that of a sum is the mask's times the other pointer's sum
        torch.cumsum(gradient * before[1 - pointer], -1, out=by_pointer)
        by_pointer += _from_the_end(gradient * after[1 - pointer])
    return by_pointers


class _SoftWindow(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pointers: Tensor) -> Tensor:
        before, after = pointers.cumsum(-1), _from_the_end(pointers)
        ctx.save_for_backward(before, after)
        return _between(before, after)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _between_gradients(gradient, *ctx.saved_tensors)


def segment_window(pointers: Tensor, segments: Segments) -> Tensor:
    """The soft mask of two pointers whose ends are those of segments (Eq. 10, 11).

    Args:
        pointers: 2×B×H×T×S, the left one and the right one, each a distribution over the keys that are no padding.

    Returns B×H×T×S, for each key the mask of its segment. Differentiable once.
    """
    return _SegmentWindow.apply(pointers, segments)


@dataclass(frozen=True)
class Segments:
    """Keys in segments of ``size``, which begin at a sentence's first key that is no padding; the last may be shorter.

    All are positions of keys, for n = ⌈S/size⌉ segments, or 1×… where no key is padding. ``order``: B×S, in which
    segments follow each other, None if as they stand; ``of_key``: B×S, the segment of each key; ``first``, ``last``:
    B×n, the keys at the ends of each segment, ``first`` counted from the last key.
    """

    size: int
    order: Tensor | None
    of_key: Tensor
    first: Tensor
    last: Tensor

    @classmethod
    def of(cls, padding: Tensor | None, keys: int, size: int, device: torch.device) -> Segments:
        """Those of keys with ``padding``, B×S (True = padding) or None."""
        position = torch.arange(keys, device=device)
        start = position.new_zeros(1, 1)  # of each sentence
        if padding is not None:
            start = padding.long().cumprod(dim=1).sum(dim=1, keepdim=True)
        first = start + position[::size]
        return cls(
            size=size,
            order=None if padding is None else (position + start) % keys,
            of_key=(position - start) % keys // size,
            first=(keys - 1 - first).clamp(min=0),
            last=(first + size - 1).clamp(max=keys - 1),
        )

    def sums(self, x: Tensor) -> Tensor:
        """B×H×T×S → B×H×T×n: the sum over each segment."""
        x = x if self.order is None else _take(x, self.order)
        return F.pad(x, (0, -x.size(-1) % self.size)).unflatten(-1, (-1, self.size)).sum(-1)


def _take(x: Tensor, places: Tensor) -> Tensor:
    """Of x, …×B×H×T×S, the entries at ``places``, (B or 1)×N, of each sentence: …×B×H×T×N."""
    return x.gather(-1, places[:, None, None, :].expand(*x.shape[:-1], -1))


class _SegmentWindow(torch.autograd.Function):
    """:class:`_SoftWindow` of the segments' sums. What is up to a segment's end is the sum up to its last key."""

    @staticmethod
    def forward(ctx: Any, pointers: Tensor, segments: Segments) -> Tensor:
        before = _take(pointers.cumsum(-1), segments.last)
        after = _take(pointers.flip(-1).cumsum_(-1), segments.first)
        ctx.save_for_backward(before, after)
        ctx.segments = segments
        return _take(_between(before, after), segments.of_key)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        by_pointers = _between_gradients(ctx.segments.sums(gradient), *ctx.saved_tensors)
        return _take(by_pointers, ctx.segments.of_key), None


class WindowAttention(LocalAttention):
    """What both forms share: the pointers' projections and the soft mask.

    The projections are ``left_q_proj``, ``left_k_proj``, ``right_q_proj`` and ``right_k_proj``, with fairseq's
    initialisation.

    Args:
        segment_size: b of Eq. 10, 1 or more; 1 is the token form. Segments begin at a sentence's first key that is no
            padding. More than 1 needs all keys at once, as in an encoder and in attention to it.
        Others: see :class:`LocalAttention`.

    Raises ValueError for a segment size below 1, and in ``forward`` for segments with an ``attn_mask`` or in
    incremental self-attention: a segment that is not finished cannot be pointed to.
    """

    # What there are projections of queries and keys for, beside the ordinary ones.
    pairs: tuple[str, ...] = ("left", "right")

    def __init__(self, embed_dim: int, num_heads: int, *, segment_size: int = 1, **kwargs: object) -> None:
        super().__init__(embed_dim, num_heads, **kwargs)  # type: ignore[arg-type]
        if segment_size < 1:
            raise ValueError(f"the size of a segment must be 1 or more, not {segment_size}")
        self.segment_size = segment_size
        self._kept: tuple[Tensor, Segments] | None = None  # the last padding, and what follows from it
        bias = self.q_proj.bias is not None
        gain = 2**-0.5 if self.kdim == self.embed_dim else 1.0  # as q_proj and k_proj have it
        self.further_queries = tuple(f"{name}_q_proj" for name in self.pairs)
        self.further_keys = tuple(f"{name}_k_proj" for name in self.pairs)
        for name in self.pairs:
            for side, channels in (("q", embed_dim), ("k", self.kdim)):
                projection = nn.Linear(channels, embed_dim, bias=bias)
                nn.init.xavier_uniform_(projection.weight, gain=gain)
                self.add_module(f"{name}_{side}_proj", projection)

    def pointer_scores(self, side: Mapping[str, Tensor]) -> Tensor:
        """Scaled scores of the left and the right pointer: 2×B×H×T×S."""
        queries = side["left_q_proj"], side["right_q_proj"]
        return paired_scores(*queries, side["left_k_proj"], side["right_k_proj"], self.scaling)

    def soft_mask(self, frame: Frame, scores: Tensor) -> Tensor:
        """The mask m of Eq. 9 or 11, B×H×T×S, from the pointers' scores, 2×B×H×T×S; in fp32 or better.

        Only keys that the query may see are pointed to: padding and the future have no part in it. Writes into scores.
        """
        hidden = combine_masks(frame, None, None, scores.dtype)
        if hidden is not None:
            scores = scores + hidden if hidden.requires_grad else scores.add_(hidden)
        pointers = normalise(scores)
        if self.segment_size == 1:
            return soft_window(pointers)
        return segment_window(pointers, self._segments(frame, scores.device))

    def _segments(self, frame: Frame, device: torch.device) -> Segments:
        """Those of a call; in decoding the keys are an encoder's, the same for every word, and so are they."""
        padding = None if frame.key_padding_mask is None else frame.key_padding_mask.to(torch.bool)
        if padding is None or padding.device.type != "cpu":
            return Segments.of(padding, frame.key_length, self.segment_size, device)
        if self._kept is None or not torch.equal(self._kept[0], padding):
            self._kept = padding.clone(), Segments.of(padding, frame.key_length, self.segment_size, padding.device)
        return self._kept[1]

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
        """As ever, after a look whether there may be segments."""
        if self.segment_size > 1 and (frame.attn_mask is not None or frame.offset):
            raise ValueError("segments need all keys at once: without attn_mask, and not word by word")
        return super().attend(frame, query, q, k, v, side, need_weights)

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.segment_size == 1 else f", segment_size={self.segment_size}")


class MultiplicativeWindowAttention(WindowAttention):
    """MW: ``(softmax(QKᵀ/√d) ⊙ M) V`` (Eq. 13). The weights of a query need not sum to 1.

    Args:
        renormalise: divide the masked weights by their sum, which the paper does not.
        Others: see :class:`WindowAttention`.
    """

    kind = "mw"

    def __init__(self, embed_dim: int, num_heads: int, *, renormalise: bool = False, **kwargs: object) -> None:
        super().__init__(embed_dim, num_heads, **kwargs)  # type: ignore[arg-type]
        self.renormalise = renormalise

    def reweight(self, weights: Tensor, frame: Frame, query: Tensor, side: Mapping[str, Tensor]) -> Tensor:
        mask = self.soft_mask(frame, self.pointer_scores(side))
        if not self.renormalise:
            return weights * mask
        masked = weights * mask
        return masked / masked.sum(-1, keepdim=True).clamp(min=torch.finfo(masked.dtype).tiny)

    def extra_repr(self) -> str:
        return super().extra_repr() + (", renormalise=True" if self.renormalise else "")


class AdditiveWindowAttention(WindowAttention):
    """AW: ``softmax((s_glb + s_loc ⊙ M)/√d) V`` (Eq. 14-17): a local score is added to the ordinary one.

    The local score has projections of its own, ``local_q_proj`` and ``local_k_proj``. (Eq. 14 and 15 write Q for the
    keys; in attention to an encoder they are K.)
    """

    kind = "aw"
    pairs = ("left", "right", "local")

    def score_bias(self, frame: Frame, query: Tensor, q: Tensor, side: Mapping[str, Tensor]) -> Tensor:
        local = scaled_scores(side["local_q_proj"], side["local_k_proj"], self.scaling)
        return local * self.soft_mask(frame, self.pointer_scores(side))
