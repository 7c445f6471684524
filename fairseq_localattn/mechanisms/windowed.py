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
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..attention import LocalAttention
from ..frame import Frame, combine_masks, normalise
from ..products import scaled_scores


def soft_window(left: Tensor, right: Tensor) -> Tensor:
    """The soft mask of two pointers, in time and memory linear in the keys (Eq. 9).

    Args:
        left, right: …×S, each a distribution over the keys.

    Returns …×S, P(key i lies between the ends); a key where both ends may meet is counted twice, as in Eq. 9, so that
    values reach 2. One-hot pointers l ≠ r give the discrete window of Eq. 3. Differentiable once.
    """
    return _SoftWindow.apply(left, right)


def _from_the_end(pointer: Tensor) -> Tensor:
    """P(end ≥ i) of each key i. (1 - P(end < i) would be all rounding where it is small.)"""
    return pointer.flip(-1).cumsum(-1).flip(-1)


class _SoftWindow(torch.autograd.Function):
    """The gradient of a sum from the front is a sum from the end, and the other way round."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        sums = left.cumsum(-1), _from_the_end(left), right.cumsum(-1), _from_the_end(right)
        ctx.save_for_backward(*sums)
        left_before, left_after, right_before, right_after = sums
        return (left_before * right_after).addcmul_(right_before, left_after)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        left_before, left_after, right_before, right_after = ctx.saved_tensors
        by_left = _from_the_end(gradient * right_after).add_((gradient * right_before).cumsum_(-1))
        by_right = _from_the_end(gradient * left_after).add_((gradient * left_before).cumsum_(-1))
        return by_left, by_right


def segment_sums(pointer: Tensor, size: int) -> Tensor:
    """…×S → …×⌈S/size⌉: what a pointer gives to each segment of ``size`` keys; the last one may be shorter."""
    return F.pad(pointer, (0, -pointer.size(-1) % size)).unflatten(-1, (-1, size)).sum(-1)


def spread_segments(mask: Tensor, size: int, keys: int) -> Tensor:
    """…×⌈S/size⌉ → …×S: the value of a segment at each of its keys."""
    return mask[..., None].expand(*mask.shape, size).flatten(-2)[..., :keys]


def _turns(frame: Frame, device: torch.device) -> tuple[Tensor | None, Tensor | None]:
    """Two orders of the keys, B×S: that in which each sentence begins with a real one, and the one back; or None."""
    if frame.key_padding_mask is None:
        return None, None
    padding = frame.key_padding_mask.to(torch.bool)
    first = padding.long().cumprod(dim=1).sum(dim=1, keepdim=True)  # of the real keys, B×1
    position = torch.arange(frame.key_length, device=device)
    return (position + first) % frame.key_length, (position - first) % frame.key_length


def _turned(x: Tensor, order: Tensor | None) -> Tensor:
    """x, B×H×T×S, with the keys of each sentence in this order."""
    return x if order is None else x.gather(3, order[:, None, None, :].expand_as(x))


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
        bias = self.q_proj.bias is not None
        gain = 2**-0.5 if self.kdim == self.embed_dim else 1.0  # as q_proj and k_proj have it
        self.further_queries = tuple(f"{name}_q_proj" for name in self.pairs)
        self.further_keys = tuple(f"{name}_k_proj" for name in self.pairs)
        for name in self.pairs:
            for side, channels in (("q", embed_dim), ("k", self.kdim)):
                projection = nn.Linear(channels, embed_dim, bias=bias)
                nn.init.xavier_uniform_(projection.weight, gain=gain)
                self.add_module(f"{name}_{side}_proj", projection)

    def window_scores(self, side: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """Scaled scores of each of ``pairs``, each B×H×T×S."""
        return tuple(
            scaled_scores(side[q], side[k], self.scaling)
            for q, k in zip(self.further_queries, self.further_keys, strict=True)
        )

    def soft_mask(self, frame: Frame, left: Tensor, right: Tensor) -> Tensor:
        """The mask m of Eq. 9 or 11 from the pointers' scores, all B×H×T×S; in fp32 or better.

        Only keys that the query may see are pointed to: padding and the future have no part in it.
        """
        hidden = combine_masks(frame, None, None, left.dtype)
        pointers = [normalise(scores if hidden is None else scores + hidden) for scores in (left, right)]
        if self.segment_size == 1:
            return soft_window(*pointers)
        turn, back = _turns(frame, left.device)
        sums = (segment_sums(_turned(pointer, turn), self.segment_size) for pointer in pointers)
        return _turned(spread_segments(soft_window(*sums), self.segment_size, frame.key_length), back)

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
        mask = self.soft_mask(frame, *self.window_scores(side))
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
        left, right, local = self.window_scores(side)
        return local * self.soft_mask(frame, left, right)
