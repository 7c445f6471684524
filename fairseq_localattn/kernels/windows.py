"""What queries see, and what is added to their scores, as functions of positions. Depends on torch alone.

A mechanism states its hard window once, as a :class:`Window`: spans of keys, a predicate of positions, or both. From it
come dense masks (:func:`hidden_keys`), the blocks and the mask of FlexAttention (:mod:`.flex`) and the queries that see
no key (:mod:`.blind`); from windows of distances, attention in bands as well (``core/banded.py``). A term of the scores
is a :data:`Score`.

Dense masks have **True = hidden**, the polarity of fairseq's padding masks. The T queries stand at positions
``offset … offset+T-1`` among the S keys, which stand at ``0 … S-1``: in a full pass of self-attention ``offset = 0``
and ``T = S``, in an incremental step ``T = 1`` and ``offset = S - 1``. A query's own position is visible in every
window, so every real query has a key. B sentences, H heads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from itertools import groupby, product

import torch
from torch import Tensor

from .kept import kept
from .masks import Frame
from .passes import is_exporting, shared

# A function of the indices (sentence, head, position of the query, position of the key), which broadcast: the term that
# is added to the score, or whether the key is seen. A tensor that needs a gradient may be indexed only once. Numbers
# are literals or tensors without dimensions: others do not compile in torch 2.13 where lengths change.
Score = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
# The first and the last key that a query sees, integers broadcastable to B×H×T.
Span = tuple[Tensor, Tensor]
# The lowest and the highest ``j - i`` that a head sees, of key j and query i; None = any.
Bounds = tuple[int | None, int | None]

# Masks of up to this many entries T·S that depend on lengths alone are kept over batches: more would be held to the end
# of the process.
KEPT_UP_TO = 1 << 20


@dataclass(frozen=True)
class Window:
    """A hard window: a query sees the keys that lie in one of the spans and for which ``seen`` returns True.

    Args:
        name: identifies the window: equal names mean equal windows, given equal lengths and padding.
        spans: (frame, device) → pairs of first and last key, inclusive; may reach beyond 0…S-1. None: all keys.
        seen: (frame, device) → a function of (sentence, head, query, key), True = seen. None: all keys of the spans.
        by_padding: whether the window depends on padding.
        bounds: if the window is ``low ≤ j - i ≤ high`` for query i and key j: (low, high) of each head, or one pair.
        sinks: with ``bounds``: number of words at the start of the sentence that every query sees too.
    """

    name: Hashable
    spans: Callable[[Frame, torch.device], Sequence[Span]] | None = field(default=None, compare=False)
    seen: Callable[[Frame, torch.device], Score] | None = field(default=None, compare=False)
    by_padding: bool = field(default=True, compare=False)
    bounds: tuple[Bounds, ...] = field(default=(), compare=False)
    sinks: int = field(default=0, compare=False)

    @property
    def half_width(self) -> int | None:
        """w, if every query of every head sees exactly the keys within w positions of its own; else None."""
        return None if self.sinks or len(set(self.bounds)) != 1 else half_width_of(self.bounds[0])

    def columns(self, frame: Frame, device: torch.device) -> Tensor | None:
        """Return the positions of the sinks, (B or 1)×a; positions from S on do not exist. None without sinks."""
        if not self.sinks:
            return None
        return _first_word(frame, device) + torch.arange(min(self.sinks, frame.key_length), device=device)


def half_width_of(bounds: Bounds) -> int | None:
    """Return w for the bounds (-w, w), and None for all others."""
    low, high = bounds
    return high if high is not None and low == -high else None


@lru_cache(maxsize=64)
def distance_windows(bounds: tuple[Bounds, ...], sinks: int = 0) -> tuple[Window, ...]:
    """Return the window ``low ≤ j - i ≤ high``, with bounds for each head or for all; nothing if no key is hidden.

    Args:
        bounds: (low, high), each a number or None.
        sinks: words at the start of the sentence, after padding, that every query sees besides.
    """
    if set(bounds) == {(None, None)}:
        return ()

    def spans(frame: Frame, device: torch.device) -> list[Span]:
        query = torch.arange(frame.offset, frame.offset + frame.query_length, device=device)

        def ends(side: int, farthest: int) -> Tensor:
            runs = groupby(farthest if bound is None else bound for bound in (each[side] for each in bounds))
            # Made on the device: a copy from the host would wait, and cannot be in a CUDA graph.
            numbers = [torch.full((len(list(run)),), number, device=device) for number, run in runs]
            return query + torch.cat(numbers)[:, None]

        reach = frame.query_length + frame.offset + frame.key_length
        window = ends(0, -reach), ends(1, reach)
        if not sinks:
            return [window]
        first = _first_word(frame, device)[:, None]  # (B or 1)×1×1
        return [window, (first, first + sinks - 1)]

    return (Window(("distance", bounds, sinks), spans, by_padding=sinks > 0, bounds=bounds, sinks=sinks),)


def _first_word(frame: Frame, device: torch.device) -> Tensor:
    """Return the position of each sentence's first word, (B or 1)×1: the number of keys of padding before it."""
    if frame.key_padding_mask is None:
        return torch.zeros(1, 1, dtype=torch.long, device=device)
    return (~frame.key_padding_mask).cumsum(dim=1).eq(0).sum(dim=1, keepdim=True)


def by_distance(entries: Tensor, queries: int) -> Score:
    """Return the score function that reads ``entries``, H×(T+S-1): a number for each distance ``j - i``, ascending."""
    entries, last = entries.contiguous(), torch.full((), queries - 1, device=entries.device)
    return lambda b, h, i, j: entries[h, j - i + last]


# ---------------------------------------------------------------------- dense tensors


def hidden_keys(windows: Sequence[Window], frame: Frame, heads: int, device: torch.device) -> Tensor | None:
    """Return which keys some window hides, broadcastable to B×H×T×S, of three or four dimensions; None without windows.

    Layers of a forward pass share it; where it depends on lengths alone, it is kept for later batches.
    """
    found = [_hidden(window, frame, heads, device) for window in windows]
    return shared(lambda: reduce(torch.logical_or, found), "hidden", *found) if len(found) > 1 else (*found, None)[0]


def _hidden(window: Window, frame: Frame, heads: int, device: torch.device) -> Tensor:
    lengths = frame.query_length, frame.key_length, frame.offset
    if window.by_padding:
        key = "window", window, lengths, heads, device, frame.key_padding_mask
        return shared(lambda: _dense(window, frame, heads, device), *key)
    make = hidden_by_lengths if is_exporting() or lengths[0] * lengths[1] <= KEPT_UP_TO else hidden_by_lengths.in_pass
    return make(window, lengths, heads, device=device)


@kept(4)
def hidden_by_lengths(window: Window, lengths: tuple[int, int, int], heads: int, *, device: torch.device) -> Tensor:
    """Return which keys a window hides that depends on T, S and the offset alone."""
    return _dense(window, Frame(*lengths), heads, device)


def _dense(window: Window, frame: Frame, heads: int, device: torch.device) -> Tensor:
    if window.bounds:
        return _beyond(window, frame, device)
    keys = torch.arange(frame.key_length, device=device)
    parts = []
    if window.spans is not None:
        inside = [(keys >= first[..., None]) & (keys <= last[..., None]) for first, last in window.spans(frame, device)]
        parts.append(~reduce(torch.logical_or, inside))
    if window.seen is not None:
        batch = 1 if frame.key_padding_mask is None else frame.key_padding_mask.size(0)
        parts.append(~window.seen(frame, device)(*indices(frame, batch, heads, device)))
    hidden = reduce(torch.logical_or, parts)
    return hidden if hidden.dim() > 2 else hidden[None]


def _beyond(window: Window, frame: Frame, device: torch.device) -> Tensor:
    """Return :func:`_dense` of a window of distances, in fewer operations than from its spans."""
    relative = relative_positions(frame.query_length, frame.key_length, frame.offset, device)
    by_bounds = {bounds: _out_of(bounds, relative) for bounds in dict.fromkeys(window.bounds)}
    hidden = torch.stack([by_bounds[bounds] for bounds in window.bounds])
    if not window.sinks:
        return hidden
    behind = torch.arange(frame.key_length, device=device) >= _first_word(frame, device) + window.sinks  # (B or 1)×S
    return hidden & behind[:, None] if frame.key_padding_mask is None else hidden & behind[:, None, None]


def _out_of(bounds: Bounds, relative: Tensor) -> Tensor:
    low, high = bounds
    half_width = half_width_of(bounds)
    if half_width is not None:
        return local_window(relative, half_width)
    if low is None:
        return torch.zeros_like(relative, dtype=torch.bool) if high is None else relative > high
    return relative < low if high is None else (relative < low) | (relative > high)


def sum_by_position(scores: Sequence[Score], frame: Frame, sizes: tuple[int, int], device: torch.device) -> Tensor:
    """Evaluate score functions at all positions and add them; ``sizes`` is (B, H). Broadcastable to B×H×T×S."""
    at = indices(frame, *sizes, device)
    return sum((score(*at) for score in scores[1:]), scores[0](*at))


def indices(frame: Frame, batch: int, heads: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return sentence, head, position of the query and position of the key, which broadcast to B×H×T×S."""
    query = torch.arange(frame.offset, frame.offset + frame.query_length, device=device)
    sentence, head = torch.arange(batch, device=device), torch.arange(heads, device=device)
    key = torch.arange(frame.key_length, device=device)
    return sentence.view(-1, 1, 1, 1), head.view(-1, 1, 1), query[:, None], key


def relative_positions(query_length: int, key_length: int, offset: int, device: torch.device | None = None) -> Tensor:
    """Return ``j - i`` for each query position i and key position j: T×S, int64; negative for keys in the past."""
    query = torch.arange(offset, offset + query_length, device=device)
    key = torch.arange(key_length, device=device)
    return key[None, :] - query[:, None]


def local_window(relative: Tensor, half_width: int | Tensor) -> Tensor:
    """Hide keys unless ``|i - j| ≤ half_width`` (MMA Eq. 9, CSAN Eq. 4, MAN Eq. 11).

    ``half_width`` is a number, or a tensor broadcastable to ``relative``.
    """
    return relative.abs() > half_width


# ---------------------------------------------------------------------- spans


def spans_of(windows: Sequence[Window], frame: Frame, device: torch.device, *, causal: bool) -> list[Span]:
    """Return the spans of the keys that all windows and, if ``causal``, the past show; ends inside of 0…S-1.

    A window without spans is left out.
    """
    spans = _intersection([window.spans(frame, device) for window in windows if window.spans], frame, device)
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
