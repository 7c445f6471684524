"""Attention by torch's FlexAttention: masks and biases as functions of positions, compiled into one fused kernel.

A mechanism describes its mask as :class:`Window` objects, the keys that each query sees as spans of positions, and its
bias as functions of the indices of sentence, head, query and key (:class:`PositionTerms`). No tensor of size T×S is
made: blocks of keys that no query sees are left out, and :func:`key_mask` finds them from the ends of the spans.
FlexAttention is imported when it is first used, because that takes seconds.

Shapes: B sentences, H heads, T queries, S keys, D channels per head.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby, product
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from .kept import may_keep
from .masks import Frame

BLOCK = 128  # queries and keys of a block of the mask; FlexAttention's own
# What compiles the kernel on a device: Triton on a GPU. On a CPU torch's reference runs, which computes T×S scores: its
# C++ backend (torch 2.13) fails where such functions read tensors and lengths change.
BACKENDS = {"cuda": "inductor", "cpu": "eager"}
_WITHOUT_PADDING = 16  # masks of batches without padding that are kept

# Called with the indices (sentence, head, query, key), which broadcast; returns the term that is added to the score.
# A tensor that needs a gradient may be indexed only once. Numbers are literals or tensors without dimensions: others do
# not compile in torch 2.13 where lengths change.
Score = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
# The first and the last key that a query sees, integers broadcastable to B×H×T.
Span = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Window:
    """The keys that queries see: the union of a few spans.

    Args:
        name: what the spans depend on, beside the call's lengths and padding.
        spans: returns the spans of a call. They may end outside of 0…S-1. A query's own position is in one of them.
        half_width: w, if every query of every head sees exactly the keys within w positions of its own; else None.
        by_padding: whether the spans depend on padding.
    """

    name: Hashable
    spans: Callable[[Frame, torch.device], Sequence[Span]]
    half_width: int | None = None
    by_padding: bool = True


@dataclass(frozen=True)
class PositionTerms:
    """What a mechanism does to the scores, as functions of positions; the default is nothing.

    Args:
        windows: a key is seen if it is in all of them.
        scores: terms that are added to the scaled scores.
    """

    windows: tuple[Window, ...] = ()
    scores: tuple[Score, ...] = ()

    @property
    def half_width(self) -> int | None:
        """The half width of all windows together; None without windows, or if one has another form."""
        widths = [window.half_width for window in self.windows]
        return None if None in widths else min(widths, default=None)  # type: ignore[type-var]

    def __and__(self, other: PositionTerms) -> PositionTerms:
        """Return the terms of two mechanisms on the same heads."""
        return PositionTerms(self.windows + other.windows, self.scores + other.scores)


def distance_window(low: Sequence[int | None], high: Sequence[int | None]) -> Window:
    """Return the window ``low ≤ j - i ≤ high`` of keys j around query i.

    ``low`` and ``high`` hold one number for each head, or one for all; None is no bound.
    """

    def spans(frame: Frame, device: torch.device) -> list[Span]:
        query = torch.arange(frame.offset, frame.offset + frame.query_length, device=device)

        def ends(bounds: Sequence[int | None], farthest: int) -> Tensor:
            runs = groupby(farthest if bound is None else bound for bound in bounds)
            # Made on the device: a copy from the host would wait, and cannot be in a CUDA graph.
            numbers = [torch.full((len(list(run)),), number, device=device) for number, run in runs]
            return query + torch.cat(numbers)[:, None]

        reach = frame.query_length + frame.offset + frame.key_length
        return [(ends(low, -reach), ends(high, reach))]

    (first, last), *others = set(zip(low, high, strict=True))
    half_width = last if not others and last is not None and first == -last else None
    return Window(("distance", tuple(low), tuple(high)), spans, half_width, by_padding=False)


def by_distance(entries: Tensor, queries: int) -> Score:
    """Return the score of entries H×(T+S-1) of all distances ``j - i`` in ascending order, for T queries."""
    entries, last = entries.contiguous(), torch.full((), queries - 1, device=entries.device)
    return lambda b, h, i, j: entries[h, j - i + last]


@dataclass(frozen=True)
class KeyMask:
    """The keys that the queries of a batch see.

    Args:
        blocks: FlexAttention's ``BlockMask``.
        spans: the number of spans of a query's keys.
        padded: whether keys are hidden by padding.
    """

    blocks: Any
    spans: int
    padded: bool


def key_mask(
    windows: tuple[Window, ...], frame: Frame, *, causal: bool, batch: int, heads: int, device: torch.device
) -> KeyMask | None:
    """Return the mask of windows, padding and, if ``causal``, the future; None if all keys are seen.

    It is made once and shared by all layers that call with the same padding tensor and equal windows; with the padding
    tensor it is released. Making it does not wait for a GPU. A padding tensor may be changed by its own methods, but
    not through ``.data``, which torch does not count. One made in inference mode, where nothing is counted, is read in
    every call.
    """
    padding = frame.key_padding_mask
    if not windows and not causal and padding is None:
        return None
    names = tuple(window.name for window in windows)
    lengths = frame.query_length, frame.key_length, frame.offset
    # inference_mode(False): a kept tensor may be used in a training step later.
    with torch.inference_mode(False), torch.no_grad():
        if not may_keep() or (padding is not None and padding.is_inference()):
            return _make_mask(windows, frame, causal=causal, batch=batch, heads=heads, device=device)
        if padding is None:
            key = (names, causal, batch, heads, lengths, device)
            if key not in _kept:
                _kept[key] = _make_mask(windows, frame, causal=causal, batch=batch, heads=heads, device=device)
            _kept.move_to_end(key)
            while len(_kept) > _WITHOUT_PADDING:
                _kept.popitem(last=False)
            return _kept[key]
        of_padding = _kept_with_padding.setdefault(padding, {})
        of_batch = (names, causal, heads, lengths, padding._version)
        if of_batch not in of_padding:
            of_padding[of_batch] = _make_mask(windows, frame, causal=causal, batch=batch, heads=heads, device=device)
        return of_padding[of_batch]


_kept: OrderedDict[Hashable, KeyMask] = OrderedDict()
_kept_with_padding: WeakIdKeyDictionary = WeakIdKeyDictionary()


def _make_mask(
    windows: tuple[Window, ...], frame: Frame, *, causal: bool, batch: int, heads: int, device: torch.device
) -> KeyMask:
    spans = spans_of(windows, frame, device, causal=causal)
    real = None if frame.key_padding_mask is None else ~frame.key_padding_mask
    shape = batch, heads, frame.query_length
    some, whole = _blocks(spans, real, frame)
    seen = _seen([tuple(end.expand(shape).to(torch.int32).contiguous() for end in span) for span in spans], real)
    from torch.nn.attention.flex_attention import BlockMask

    blocks = BlockMask.from_kv_blocks(
        *_listed(some & ~whole),
        *_listed(whole),
        BLOCK_SIZE=BLOCK,
        mask_mod=seen,
        seq_lengths=(frame.query_length, frame.key_length),
    )
    return KeyMask(blocks, len(spans), padded=real is not None)


def spans_of(windows: Sequence[Window], frame: Frame, device: torch.device, *, causal: bool) -> list[Span]:
    """Return the spans of the keys that all windows and, if ``causal``, the past show; ends inside of 0…S-1."""
    spans = _intersection([window.spans(frame, device) for window in windows], frame, device)
    if causal:
        query = torch.arange(frame.offset, frame.offset + frame.query_length, device=device)
        spans = [(first, torch.minimum(last, query)) for first, last in spans]
    return [_within(span, frame) for span in spans]


def _intersection(windows: Sequence[Sequence[Span]], frame: Frame, device: torch.device) -> list[Span]:
    """Return the spans of the keys that are in all windows; (1 or B)×(1 or H)×(1 or T) each."""
    everything = torch.zeros(1, 1, 1, dtype=torch.long, device=device)
    found = []
    for chosen in product(*windows):
        first, last = everything, everything + (frame.key_length - 1)
        for low, high in chosen:
            first, last = torch.maximum(first, low), torch.minimum(last, high)
        found.append((first, last))
    return found


def _within(span: Span, frame: Frame) -> Span:
    """Return a span inside of 0…S-1; an empty one ends before its first key."""
    first, last = span
    return first.clamp(0, frame.key_length), last.clamp(-1, frame.key_length - 1)


def _blocks(spans: Sequence[Span], real: Tensor | None, frame: Frame) -> tuple[Tensor, Tensor]:
    """Return the blocks in which a query may see a key, and those in which all see all, (1 or B)×(1 or H)×n×m.

    A block in which no query sees a key may be among the first: the spans' ends are looked at, not each query.
    """
    queries, keys = -(-frame.query_length // BLOCK), -(-frame.key_length // BLOCK)
    start = torch.arange(keys, device=spans[0][0].device) * BLOCK
    end = start + BLOCK - 1
    room = queries * BLOCK - frame.query_length
    some = whole = start.new_zeros(1, 1, queries, keys, dtype=torch.bool)
    for span in spans:
        first, last = (x.expand(*x.shape[:2], frame.query_length) for x in torch.broadcast_tensors(*span))
        first = F.pad(first, (0, room), value=frame.key_length).unflatten(2, (queries, BLOCK))  # no query: no key
        last = F.pad(last, (0, room), value=-1).unflatten(2, (queries, BLOCK))
        some = some | (first.amin(3, keepdim=True) <= end) & (last.amax(3, keepdim=True) >= start)
        whole = whole | (first.amax(3, keepdim=True) <= start) & (last.amin(3, keepdim=True) >= end)
    if real is not None:
        by_block = F.pad(real, (0, keys * BLOCK - frame.key_length)).unflatten(1, (keys, BLOCK))
        some = some & by_block.any(2)[:, None, None]
        whole = whole & by_block.all(2)[:, None, None]
    return some, whole & some


def _listed(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of blocks of each row, and their places, the blocks of the row first; both int32."""
    order = blocks.to(torch.int8).argsort(dim=-1, descending=True, stable=True)
    return blocks.sum(-1, dtype=torch.int32), order.to(torch.int32).contiguous()


def _seen(spans: Sequence[tuple[Tensor, ...]], real: Tensor | None) -> Callable[..., Tensor]:
    """Return FlexAttention's ``mask_mod``, True = seen, from spans B×H×T and real keys B×S."""

    def in_spans(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        first, last = spans[0]
        found = (j >= first[b, h, i]) & (j <= last[b, h, i])
        for first, last in spans[1:]:
            found = found | (j >= first[b, h, i]) & (j <= last[b, h, i])
        return found

    def in_spans_and_real(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return in_spans(b, h, i, j) & real[b, j]  # type: ignore[index]

    return in_spans if real is None else in_spans_and_real


# ---------------------------------------------------------------------- the kernel


def reason_against_flex(q: Tensor, k: Tensor, dropout: float) -> str | None:
    """Return why FlexAttention cannot compute attention of q and k, B×H×·×D, or None where it can."""
    if dropout:
        return "it has no dropout on the weights"
    if q.device.type not in BACKENDS:
        return f"it does not run on the device {q.device.type}"
    if q.device.type == "cpu" and torch.is_grad_enabled() and (q.requires_grad or k.requires_grad):
        return "it has no backward pass on a CPU"
    if q.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return f"it does not compute in {str(q.dtype).removeprefix('torch.')}"
    if q.device.type == "cuda" and q.size(3) < 16:
        return "it needs heads of 16 channels or more on a GPU"
    if _torch_version() < (2, 7):
        return "torch before 2.7 does not compile it for lengths that change"
    return None


@cache
def _torch_version() -> tuple[int, ...]:
    return tuple(int(part) for part in torch.__version__.split(".")[:2])


def flex_attention(
    q: Tensor, k: Tensor, v: Tensor, *, scores: tuple[Score, ...], mask: KeyMask | None, scaling: float
) -> Tensor:
    """Compute ``softmax(scaling · QKᵀ + scores) V`` over the keys that are seen, B×H×T×D.

    A query that sees no key gets 0, and has no gradient. On a GPU the first call with a kind of score and mask, a dtype
    and a kind of pass compiles a kernel, which takes seconds to a minute; lengths may change then.

    Args:
        q: B×H×T×D.
        k, v: B×H×S×D.
        scores: terms that are added to the scaled scores, in fp32 on a GPU.
        mask: the keys that are seen; None for all.
        scaling: factor of the dot products.
    """
    kinds: tuple[Hashable, ...] = tuple(score.__code__ for score in scores)
    if mask is not None:
        kinds += (mask.spans, mask.padded)
    attend = _compiled((kinds, q.dtype, torch.is_grad_enabled()), BACKENDS[q.device.type])
    blocks = None if mask is None else mask.blocks
    return attend(q, k, v, score_mod=_sum_of(scores) if scores else None, blocks=blocks, scaling=scaling)


def _sum_of(scores: tuple[Score, ...]) -> Callable[..., Tensor]:
    """Return FlexAttention's ``score_mod``."""

    def add(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        for term in scores:
            score = score + term(b, h, i, j)
        return score

    return add


@cache
def _compiled(kind: Hashable, backend: str) -> Callable[..., Tensor]:
    """Return FlexAttention compiled with dynamic lengths.

    Each kind has a copy of the code, because torch limits the number of compilations of one code object, and runs the
    slow reference beyond it. ``fullgraph`` makes that an error.
    """
    code = _attend.__code__.replace(co_name="flex_attention_of_one_kind")
    return torch.compile(FunctionType(code, globals()), dynamic=True, fullgraph=True, backend=backend)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, *, score_mod: Callable[..., Tensor] | None, blocks: Any, scaling: float
) -> Tensor:
    from torch.nn.attention.flex_attention import flex_attention as attend

    return attend(q, k, v, score_mod=score_mod, block_mask=blocks, scale=scaling)
