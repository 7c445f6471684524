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
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import Frame, LocalAttention, combine_masks, normalise


def soft_window(left: Tensor, right: Tensor) -> Tensor:
    """The soft mask of two pointers, in time and memory linear in the keys (Eq. 9).

    Args:
        left, right: …×S, each a distribution over the keys.

    Returns …×S, P(key i lies between the ends); a key where both ends may meet is counted twice, as in Eq. 9, so that
    values reach 2. One-hot pointers l ≠ r give the discrete window of Eq. 3.
    """
    return left.cumsum(-1) * _from_the_end(right) + right.cumsum(-1) * _from_the_end(left)


def _from_the_end(pointer: Tensor) -> Tensor:
    """P(end ≥ i) of each key i. (1 - P(end < i) would be all rounding where it is small.)"""
    return pointer.flip(-1).cumsum(-1).flip(-1)


def segment_sums(pointer: Tensor, size: int) -> Tensor:
    """…×S → …×⌈S/size⌉: what a pointer gives to each segment of ``size`` keys; the last one may be shorter."""
    return F.pad(pointer, (0, -pointer.size(-1) % size)).unflatten(-1, (-1, size)).sum(-1)


def spread_segments(mask: Tensor, size: int, keys: int) -> Tensor:
    """…×⌈S/size⌉ → …×S: the value of a segment at each of its keys."""
    return mask[..., None].expand(*mask.shape, size).flatten(-2)[..., :keys]


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

    # Projections of queries and keys beside the ordinary ones, in the order in which their heads stand in `windows`.
    pairs: tuple[str, ...] = ("left", "right")

    def __init__(self, embed_dim: int, num_heads: int, *, segment_size: int = 1, **kwargs: object) -> None:
        super().__init__(embed_dim, num_heads, **kwargs)  # type: ignore[arg-type]
        if segment_size < 1:
            raise ValueError(f"the size of a segment must be 1 or more, not {segment_size}")
        self.segment_size = segment_size
        bias = self.q_proj.bias is not None
        gain = 2**-0.5 if self.kdim == self.embed_dim else 1.0  # as q_proj and k_proj have it
        for name in self.pairs:
            for side, channels in (("q", embed_dim), ("k", self.kdim)):
                projection = nn.Linear(channels, embed_dim, bias=bias)
                nn.init.xavier_uniform_(projection.weight, gain=gain)
                self.add_module(f"{name}_{side}_proj", projection)

    def key_side(self, key: Tensor) -> dict[str, Tensor]:
        """``windows``: B×(n·H)×S×D, the keys of each of ``pairs``."""
        return {"windows": self._windows(key, "k")}

    def _windows(self, x: Tensor, side: str) -> Tensor:
        """The projections of queries (``q``) or keys (``k``) of all ``pairs``: ·×B×C → B×(n·H)×·×D."""
        projections = [self.get_submodule(f"{name}_{side}_proj") for name in self.pairs]
        if x.size(0) > 1:
            joined = self._fused(x, *projections)  # type: ignore[arg-type]
        else:  # a decoding step: joining the parameters would cost more than the products
            joined = torch.cat([projection(x) for projection in projections], dim=-1)
        return self._split_heads(joined)

    def window_scores(self, query: Tensor, key_side: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """Scaled scores of each of ``pairs``, each B×H×T×S, from queries T×B×C."""
        q = self._windows(query, "q") * self.scaling
        return torch.matmul(q, key_side["windows"].transpose(-1, -2)).split(self.num_heads, dim=1)

    def soft_mask(self, frame: Frame, left: Tensor, right: Tensor) -> Tensor:
        """The mask m of Eq. 9 or 11 from the pointers' scores, all B×H×T×S; in fp32 or better.

        Only keys that the query may see are pointed to: padding and the future have no part in it.
        """
        hidden = combine_masks(frame, None, None, left.dtype)
        pointers = [normalise(scores if hidden is None else scores + hidden) for scores in (left, right)]
        if self.segment_size == 1:
            return soft_window(*pointers)
        mask = soft_window(*(segment_sums(pointer, self.segment_size) for pointer in pointers))
        return spread_segments(mask, self.segment_size, frame.key_length)

    def attend(
        self,
        frame: Frame,
        query: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        key_side: Mapping[str, Tensor],
        need_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """As ever; with segments, the keys of each sentence are first turned so that they begin with a real one."""
        if self.segment_size == 1:
            return super().attend(frame, query, q, k, v, key_side, need_weights)
        if frame.attn_mask is not None or frame.offset:
            raise ValueError("segments need all keys at once: without attn_mask, and not word by word")
        if frame.key_padding_mask is None:
            return super().attend(frame, query, q, k, v, key_side, need_weights)
        padding = frame.key_padding_mask.to(torch.bool)
        first = padding.long().cumprod(dim=1).sum(dim=1, keepdim=True)  # of the real keys, B×1
        position = torch.arange(frame.key_length, device=padding.device)
        order = (position + first) % frame.key_length  # B×S
        frame = replace(frame, key_padding_mask=padding.gather(1, order))

        def turned(x: Tensor) -> Tensor:
            return x.gather(2, order[:, None, :, None].expand_as(x))

        side = {name: turned(x) for name, x in key_side.items()}
        attended, weights = super().attend(frame, query, q, turned(k), turned(v), side, need_weights)
        if weights is not None:
            back = (position - first) % frame.key_length
            weights = weights.gather(3, back[:, None, None, :].expand_as(weights))
        return attended, weights

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

    def reweight(self, weights: Tensor, frame: Frame, query: Tensor, key_side: Mapping[str, Tensor]) -> Tensor:
        mask = self.soft_mask(frame, *self.window_scores(query, key_side))
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

    def score_bias(self, frame: Frame, query: Tensor, q: Tensor, key_side: Mapping[str, Tensor]) -> Tensor:
        left, right, local = self.window_scores(query, key_side)
        return local * self.soft_mask(frame, left, right)
