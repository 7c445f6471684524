"""Attention by torch's FlexAttention: masks and biases as functions of positions, compiled into one fused kernel.

A mechanism's windows and scores are those of :mod:`.windows`. No tensor of size T×S is made: blocks of keys that no
query sees are left out, and :func:`key_mask` finds them from the ends of the spans. FlexAttention is imported when it
is first used, because that takes seconds.

Shapes: B sentences, H heads, T queries, S keys, D channels per head.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from .kept import may_keep
from .masks import Frame
from .windows import Score, Span, Window, spans_of

BLOCK = 128  # queries and keys of a block of the mask; FlexAttention's own
# What compiles the kernel on a device: Triton on a GPU. On a CPU torch's reference runs, which computes T×S scores: its
# C++ backend (torch 2.13) fails where such functions read tensors and lengths change.
BACKENDS = {"cuda": "inductor", "cpu": "eager"}
_WITHOUT_PADDING = 16  # masks of batches without padding that are kept


@dataclass(frozen=True)
class KeyMask:
    """The keys that the queries of a batch see.

    Args:
        blocks: FlexAttention's ``BlockMask``.
        kind: masks of one kind share a compiled kernel.
    """

    blocks: Any
    kind: Hashable


def key_mask(
    windows: tuple[Window, ...], frame: Frame, *, causal: bool, batch: int, heads: int, device: torch.device
) -> KeyMask | None:
    """Return the mask of windows, padding and, if ``causal``, the future; None if all keys are seen.

    Layers with the same padding tensor and equal windows share one mask, which is released with that tensor. Making it
    does not wait for a GPU. In-place changes of the padding make a new mask, but not changes through ``.data``. With
    padding made in inference mode the mask is made in every call.
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
    terms = [window.seen(frame, device) for window in windows if window.seen]
    some, whole = _blocks(spans, real, frame)
    if terms:  # any key may be hidden
        whole = torch.zeros_like(some)
    ends = [tuple(end.expand(shape).to(torch.int32).contiguous() for end in span) for span in spans]
    seen = _seen(ends, real, terms)
    from torch.nn.attention.flex_attention import BlockMask

    blocks = BlockMask.from_kv_blocks(
        *_listed(some & ~whole),
        *_listed(whole),
        BLOCK_SIZE=BLOCK,
        mask_mod=seen,
        seq_lengths=(frame.query_length, frame.key_length),
    )
    return KeyMask(blocks, (len(spans), real is not None, *(term.__code__ for term in terms)))


def _blocks(spans: Sequence[Span], real: Tensor | None, frame: Frame) -> tuple[Tensor, Tensor]:
    """Return the blocks in which a query may see a key, and those in which all see all, (1 or B)×(1 or H)×n×m.

    The former may hold blocks in which no query sees a key: only the extremes of the spans' ends are compared.
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


def _seen(spans: Sequence[tuple[Tensor, ...]], real: Tensor | None, terms: Sequence[Score]) -> Callable[..., Tensor]:
    """Return FlexAttention's ``mask_mod``, True = seen, from spans B×H×T, real keys B×S and windows' ``seen``."""

    def in_spans(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        first, last = spans[0]
        found = (j >= first[b, h, i]) & (j <= last[b, h, i])
        for first, last in spans[1:]:
            found = found | (j >= first[b, h, i]) & (j <= last[b, h, i])
        for term in terms:
            found = found & term(b, h, i, j)
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
        kinds += (mask.kind,)
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
