"""Differentiable windows: each query points to both ends of the keys that it attends to (Nguyen et al., ACL 2020).

Two pointers ``φ_l`` and ``φ_r`` are distributions over the keys. Each has projections of its own (Eq. 7, 8), so each
head has its own window. The soft mask of key i sums the probabilities that it lies between both ends in the one order
and in the other (Eq. 9):

    m_i = P(l ≤ i) P(r ≥ i) + P(r ≤ i) P(l ≥ i)

In the segment form, keys are cut into segments of b, and windows begin and end with segments (Eq. 10, 11). The mask
multiplies the weights (MW, Eq. 12, 13), or a second set of scores that is added to the ordinary ones (AW, Eq. 14-17).

Eq. 14 and 15 write Q for the keys; in attention to an encoder they are K. Segments begin at the first word, wherever
fairseq pads. The authors' code makes the mask by a product with a triangular matrix, in O(T³).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core.attention import LocalAttention
from ..core.call import Call
from ..kernels.dense import paired_scores, scaled_scores
from ..kernels.kept import may_keep
from ..kernels.masks import Frame, hidden_and_bias, is_future, join_masks, normalise
from ..kernels.once import once_differentiable
from ..kernels.triton import soft_windows
from ..ranges import check_number

LEAST_SUM = 1e-20  # by which renormalised weights are divided at least: gradients of less would overflow


def soft_window(pointers: Tensor) -> Tensor:
    """Compute the soft mask of two pointers (Eq. 9), in time and memory linear in the keys. Differentiable once.

    Args:
        pointers: 2×…×S, left and right, each a distribution over the keys.

    Returns …×S, for each key the probability that it lies between the ends in the one order plus that in the other. The
    case that both ends are the key itself counts twice, as in Eq. 9, so values reach 2. One-hot pointers with l ≠ r
    give the discrete window of Eq. 3.
    """
    return _SoftWindow.apply(pointers)


def _from_the_end(pointer: Tensor) -> Tensor:
    """Compute P(end ≥ i) for each key i; ``1 - P(end < i)`` would lose small values to rounding."""
    return pointer.flip(-1).cumsum_(-1).flip(-1)


def _between(before: Tensor, after: Tensor) -> Tensor:
    """Compute Eq. 9 from P(end ≤ i) and P(end ≥ i) of both ends, 2×…×S each."""
    return (before[0] * after[1]).addcmul_(before[1], after[0])


def _between_gradients(gradient: Tensor, before: Tensor, after: Tensor) -> Tensor:
    """Return the gradient with respect to the pointers, given that of :func:`_between`.

    The gradient of a cumulative sum from the front is a cumulative sum from the end, and vice versa.
    """
    by_pointers = torch.empty_like(before)
    for pointer, by_pointer in enumerate(by_pointers):
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
    """Compute the soft mask of two pointers in the segment form (Eq. 10, 11). Differentiable once.

    Args:
        pointers: 2×B×H×T×S, left and right, each a distribution over the keys without padding.
        segments: the segments of the S keys.

    Returns B×H×T×S: for each key the mask of its segment.
    """
    return _SegmentWindow.apply(pointers, segments)


def _wrapped(position: Tensor, keys: int) -> Tensor:
    """Return positions below ``2·keys`` modulo ``keys``, in operations that have a form in ONNX for any ``keys``."""
    return torch.where(position < keys, position, position - keys)


@dataclass(frozen=True)
class Segments:
    """Keys cut into n = ⌈S/size⌉ segments of ``size`` from each sentence's first real key on; the last may be shorter.

    ``order`` and ``last`` hold positions of keys. Without padding, B is 1.

    Args:
        size: keys in a segment.
        order: B×S, the keys in the order of segments, or None if they already stand in it.
        of_key: B×S, the segment of each key.
        first: B×n, the first key of each segment, counted backwards from the last key.
        last: B×n, the last key of each segment.
    """

    size: int
    order: Tensor | None
    of_key: Tensor
    first: Tensor
    last: Tensor

    @classmethod
    def of(cls, padding: Tensor | None, keys: int, size: int, device: torch.device) -> Segments:
        """Cut ``keys`` positions with ``padding``, B×S (True = padding) or None, into segments of ``size``."""
        size = min(size, max(keys, 1))  # a longer segment would be padded
        position = torch.arange(keys, device=device)
        start = position.new_zeros(1, 1)  # the first real key of each sentence
        if padding is not None:
            start = (~padding).cumsum(dim=1).eq(0).sum(dim=1, keepdim=True)
        first = start + position[::size]
        return cls(
            size=size,
            order=None if padding is None else _wrapped(position + start, keys),
            of_key=_wrapped(position - start + keys, keys) // size,
            first=(keys - 1 - first).clamp(min=0),
            last=(first + size - 1).clamp(max=keys - 1),
        )

    def sums(self, x: Tensor) -> Tensor:
        """Sum over the keys of each segment: B×H×T×S → B×H×T×n."""
        x = x if self.order is None else _take(x, self.order)
        return F.pad(x, (0, -x.size(-1) % self.size)).unflatten(-1, (-1, self.size)).sum(-1)


def _take(x: Tensor, places: Tensor) -> Tensor:
    """Gather from x, …×B×H×T×S, the entries at ``places``, (B or 1)×N, of each sentence: …×B×H×T×N."""
    return x.gather(-1, places[:, None, None, :].expand(*x.shape[:-1], -1))


class _SegmentWindow(torch.autograd.Function):
    """Eq. 9 over segments: cumulative sums of segments are those of keys, read at the segments' ends."""

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
    """The base class of both windows, with the pointers' projections and the soft mask.

    The projections ``left_q_proj``, ``left_k_proj``, ``right_q_proj`` and ``right_k_proj`` are initialised as fairseq
    initialises queries and keys.

    Args:
        segment_size: b of Eq. 10, 1 or more; 1 is the token form. A segment form needs all keys at once, as in an
            encoder and in cross-attention; segments begin at a sentence's first real key.
        embed_dim, num_heads, kwargs: see :class:`LocalAttention`.

    Raises ValueError for a segment size below 1, and above 1 for a causal attention. In the segment form, ``forward``
    raises it with an ``attn_mask`` and from the second step of incremental self-attention on, where a query would
    point to a segment with future keys.
    """

    # Names of the additional pairs of query and key projections.
    pairs: tuple[str, ...] = ("left", "right")

    def __init__(self, embed_dim: int, num_heads: int, *, segment_size: int = 1, **kwargs: object) -> None:
        super().__init__(embed_dim, num_heads, **kwargs)  # type: ignore[arg-type]
        check_number("the size of a segment", segment_size, 1)
        if segment_size > 1 and self.causal:
            raise ValueError("a decoder cannot point to a segment that is not finished: its windows need segments of 1")
        self.segment_size = segment_size
        self._kept: tuple[Tensor, Segments] | None = None  # the last padding mask and its segments
        bias = self.with_bias
        gain = 2**-0.5 if self.kdim == self.vdim == self.embed_dim else 1.0  # that of q_proj and k_proj
        self.extra_queries = tuple(f"{name}_q_proj" for name in self.pairs)
        self.extra_keys = tuple(f"{name}_k_proj" for name in self.pairs)
        for name in self.pairs:
            for letter, channels in (("q", embed_dim), ("k", self.kdim)):
                projection = nn.Linear(channels, self.inner_dim, bias=bias)
                nn.init.xavier_uniform_(projection.weight, gain=gain)
                self.add_module(f"{name}_{letter}_proj", projection)

    @property
    def own_scores(self) -> int:
        """The pointers, their sums from both ends, and the mask."""
        return 8

    def pointer_scores(self, extra: Mapping[str, Tensor]) -> Tensor:
        """Compute the scaled scores of the left and the right pointer, 2×B×H×T×S (Eq. 7, 8 before the softmax)."""
        if "left_scores" in extra:  # of a decoding along paths
            return torch.stack([extra["left_scores"], extra["right_scores"]])
        queries, keys = ((extra[f"left_{x}_proj"], extra[f"right_{x}_proj"]) for x in "qk")
        return paired_scores(*queries, *keys, scaling=self.scaling)

    def soft_mask(self, frame: Frame, scores: Tensor) -> Tensor:
        """Compute the mask m of Eq. 9 or 11, B×H×T×S, in at least fp32, from the pointers' scores 2×B×H×T×S.

        Padding and the future take no part in the pointers' distributions. Overwrites ``scores``.
        """
        hidden = join_masks(*hidden_and_bias(frame, None, None, scores.dtype), scores.dtype)
        if hidden is not None:
            scores = scores + hidden if hidden.requires_grad else scores.add_(hidden)
        pointers = normalise(scores)
        if self.segment_size == 1:
            return soft_window(pointers)
        return segment_window(pointers, self._segments(frame, scores.device))

    said_by_steps = True  # the steps need the pointers' scores alone, and no keys

    def attend_by_kernel(self, call: Call) -> Tensor | None:
        """Attend by kernels that keep no tensor T×S; with an ``attn_mask`` only if it hides the future."""
        frame, mask = call.frame, call.frame.attn_mask
        longest = soft_windows.BLOCK if mask is None else 1  # a segment
        if self.segment_size > longest or self.head_dim * call.q.element_size() > soft_windows.MOST_BYTES:
            return None
        if mask is not None and not is_future(mask):
            return None
        return soft_windows.window_attention(
            [call.q, *(call.extra[name] for name in self.extra_queries)],
            [call.k, *(call.extra[name] for name in self.extra_keys), call.v],
            padding=frame.key_padding_mask,
            scaling=self.scaling,
            dropout=self.dropout_rate,
            segment=self.segment_size,
            causal=mask is not None,
        )

    def _segments(self, frame: Frame, device: torch.device) -> Segments:
        """Return the segments of a call; cached for the next decoding step, which has the same encoder keys."""
        padding = frame.key_padding_mask
        if padding is None or padding.device.type != "cpu" or not may_keep():
            return Segments.of(padding, frame.key_length, self.segment_size, device)
        kept = self._kept  # another thread may put its own there
        if kept is None or not torch.equal(kept[0], padding):
            with torch.inference_mode(False):  # they may be used in a training step later
                kept = padding.clone(), Segments.of(padding, frame.key_length, self.segment_size, padding.device)
            self._kept = kept
        return kept[1]

    def prepare(self, call: Call) -> Mapping[str, Tensor]:
        """Return nothing; raise ValueError if segments are impossible in this call."""
        frame = call.frame
        if self.segment_size > 1 and (frame.attn_mask is not None or frame.offset > frame.before):
            raise ValueError("segments need all keys at once: without attn_mask, and not word by word")
        return {}

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.segment_size == 1 else f", segment_size={self.segment_size}")


class MultiplicativeWindowAttention(WindowAttention):
    """Multiplicative window (MW): ``(softmax(QKᵀ/√d) ⊙ M) V`` (Eq. 13). The weights of a query need not sum to 1.

    Args:
        renormalise: divide the masked weights by their sum, which the paper does not.
        embed_dim, num_heads, kwargs: see :class:`WindowAttention`.
    """

    kind = "mw"

    def __init__(self, embed_dim: int, num_heads: int, *, renormalise: bool = False, **kwargs: object) -> None:
        super().__init__(embed_dim, num_heads, **kwargs)  # type: ignore[arg-type]
        self.renormalise = renormalise

    def attend_by_kernel(self, call: Call) -> Tensor | None:
        """Return None with ``renormalise``: the kernels' windows are not exact enough to be divided by their sum."""
        return None if self.renormalise else super().attend_by_kernel(call)

    def reweight(self, weights: Tensor, call: Call) -> Tensor:
        """Multiply the weights by the soft mask (Eq. 12, 13)."""
        masked = weights * self.soft_mask(call.frame, self.pointer_scores(call.extra))
        if not self.renormalise:
            return masked
        return masked / masked.sum(-1, keepdim=True).clamp(min=LEAST_SUM)

    def extra_repr(self) -> str:
        return super().extra_repr() + (", renormalise=True" if self.renormalise else "")


class AdditiveWindowAttention(WindowAttention):
    """Additive window (AW): ``softmax((s_glb + s_loc ⊙ M)/√d) V``, with an additional local score (Eq. 14-17).

    The local score has projections of its own, ``local_q_proj`` and ``local_k_proj``. Eq. 14 and 15 write Q for the
    keys as well; in cross-attention they are the encoder's.
    """

    kind = "aw"
    pairs = ("left", "right", "local")

    def score_bias(self, call: Call) -> Tensor:
        """Return the local scores times the soft mask (Eq. 14-17)."""
        local = call.extra.get("local_scores")  # of a decoding along paths
        if local is None:
            local = scaled_scores(call.extra["local_q_proj"], call.extra["local_k_proj"], self.scaling)
        return local * self.soft_mask(call.frame, self.pointer_scores(call.extra))
