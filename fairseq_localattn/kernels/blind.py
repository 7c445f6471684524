"""Queries that see no key, because windows, padding and ``attn_mask`` together hide them all.

Such a query has attended values of 0, weights of 0, and no gradient, as with a boolean mask in torch: the output of the
attention is the bias of its output projection there. Kernels may return any finite values for it, which are replaced.

Shapes: B sentences, H heads, T queries, S keys.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .masks import Frame, hides, is_future
from .once import once_differentiable
from .passes import is_shared, may_read, shared
from .windows import Window, spans_of


def blind_queries(
    frame: Frame,
    windows: tuple[Window, ...] = (),
    hidden: Tensor | None = None,
    *,
    dtype: torch.dtype,
    device: torch.device,
) -> Tensor | None:
    """Return which queries see no key, broadcastable to B×H×T, True = none; None if each is known to see one.

    Nothing is read from a GPU: there the result is None only without padding, ``attn_mask`` and ``hidden``. The layers
    of a forward pass share it.

    Args:
        frame: positions, padding and ``attn_mask``.
        windows: the windows as spans; each shows every query the key at its own position.
        hidden: a window that has no spans, (1 or H)×T×S or B×(1 or H)×T×S, True = hidden.
        dtype: of the scores.
        device: of the tensors.
    """
    padding, mask, on_cpu = frame.key_padding_mask, frame.attn_mask, may_read(device)
    if padding is None and mask is None and hidden is None:
        return None
    causal = mask is not None and hidden is None and on_cpu and not frame.offset and is_future(mask)
    if causal and padding is None:
        return None
    if on_cpu and hidden is None and (mask is None or causal):
        return _hidden_by_padding(windows, frame, causal)

    def find() -> Tensor | None:
        blind = _find(frame, windows, hidden, dtype=dtype, device=device)
        return None if on_cpu and not bool(blind.any()) else blind

    if not is_shared(hidden):
        return find()
    lengths, names = (frame.query_length, frame.key_length, frame.offset), tuple(window.name for window in windows)
    return shared(find, "blind", padding, mask, hidden, lengths, names, dtype)


def _find(
    frame: Frame, windows: tuple[Window, ...], hidden: Tensor | None, *, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Return :func:`blind_queries` from ends of spans or from a mask of T×S, without looking whether there are some."""
    padding, mask = frame.key_padding_mask, frame.attn_mask
    closed = None if mask is None else hides(mask, dtype)
    if windows:
        rows = [each for each in (None if padding is None else padding[:, None], closed) if each is not None]
        return _none_open(reduce(torch.logical_or, rows), *_ends(windows, frame, device, causal=False))
    if hidden is None and closed is None:
        return padding.all(1)[:, None, None]  # type: ignore[union-attr]
    closed = closed[:, None] if closed is not None and closed.dim() == 3 else closed
    both = [each for each in (hidden, closed) if each is not None]
    return _none_seen(reduce(torch.logical_or, both), padding)


def _none_seen(hidden: Tensor, padding: Tensor | None) -> Tensor:
    """Return where ``hidden``, T×S or …×T×S, and padding hide all keys, broadcastable to B×H×T."""
    if padding is None:
        return hidden.all(-1)
    # A product counts the keys that are seen, without a tensor B×H×T×S.
    seen, real = (~hidden).float(), (~padding).float()
    if hidden.dim() == 4:
        return (seen @ real[:, None, :, None] == 0)[..., 0]
    blind = (seen @ real.T == 0).movedim(-1, 0)
    return blind if blind.dim() == 3 else blind[:, None]


# The spans' ends by query, and how many spans and heads they are of: see _ends.
_Ends = tuple[Tensor, tuple[int, int, int]]


def _ends(windows: tuple[Window, ...], frame: Frame, device: torch.device, *, causal: bool) -> _Ends:
    """Return the first key of n spans, and the key after the last, (B or 1)×(T or 1)×(2·n·H), and (2, n, H)."""
    spans = spans_of(windows, frame, device, causal=causal)
    ends = [end for first, last in spans for end in (first, torch.maximum(last + 1, first))]
    joined = torch.stack(torch.broadcast_tensors(*ends), dim=-1)  # (B or 1)×(H or 1)×(T or 1)×(n·2)
    return joined.transpose(1, 2).flatten(2), (joined.size(1), len(spans), 2)


def _none_open(hidden: Tensor, ends: Tensor, sizes: tuple[int, int, int]) -> Tensor:
    """Return where no span has a key that is not hidden, broadcastable to B×H×T; ``hidden``: (B or 1)×(T or 1)×S."""
    hidden = hidden if hidden.dim() == 3 else hidden[None]
    before = F.pad((~hidden).cumsum(-1, dtype=torch.int32), (1, 0))  # the number of open keys before each
    batch, rows = max(before.size(0), ends.size(0)), before.size(1)
    index = ends.expand(batch, -1, -1)
    index = index.flatten(1)[:, None] if rows == 1 else index.expand(-1, rows, -1)
    counts = before.expand(batch, -1, -1).gather(2, index).view(batch, -1, *sizes)
    return (counts[..., 0] == counts[..., 1]).all(-1).transpose(1, 2)


@dataclass(frozen=True)
class _Kept:
    """The last padding of a kind of call, which queries are blind, and the ends of spans that padding does not move."""

    padding: Tensor
    blind: Tensor | None
    ends: _Ends | None


_CALLS = 64  # kinds of calls that are kept
_kept: OrderedDict[Hashable, _Kept] = OrderedDict()


def _hidden_by_padding(windows: tuple[Window, ...], frame: Frame, causal: bool) -> Tensor | None:
    """Return :func:`blind_queries` of windows, padding and, if ``causal``, the future, on a CPU.

    The layers of a batch share the result, for as long as they have equal padding.
    """
    padding = frame.key_padding_mask
    assert padding is not None
    key: Hashable = ()
    if windows or causal:
        lengths = frame.query_length, frame.key_length, frame.offset
        key = tuple(window.name for window in windows), causal, lengths
    kept = _kept.get(key)
    if kept is not None and torch.equal(kept.padding, padding):
        return kept.blind
    ends = kept.ends if kept is not None else None
    with torch.inference_mode(False):  # a kept tensor may be used in a training step later
        if not windows and not (causal and bool(padding[:, 0].any())):  # if causal, each query sees the first key
            blind = padding.all(1)[:, None, None]
        else:
            ends = ends or _ends(windows, frame, padding.device, causal=causal)
            blind = _none_open(padding[:, None], *ends)
        ends = None if any(window.by_padding for window in windows) else ends
        _kept.pop(key, None)  # then it is the newest; another thread may take it out at any time
        _kept[key] = kept = _Kept(padding.clone(), blind if bool(blind.any()) else None, ends)
    while len(_kept) > _CALLS:
        _kept.popitem(last=False)
    return kept.blind


def clear(x: Tensor, blind: Tensor) -> Tensor:
    """Return x, B×H×T×E and finite, with 0 for the queries in ``blind``, which then have no gradient."""
    if not may_read(x.device):

        def sees() -> Tensor:
            return (~blind).to(x.dtype)[..., None]

        return x * (shared(sees, "sees", blind, x.dtype) if is_shared(blind) else sees())
    rows = blind.expand(x.shape[:3]).permute(2, 0, 1).flatten().nonzero()[:, 0]
    return _Clear.apply(x, rows)


class _Clear(torch.autograd.Function):
    """Set rows of T×B×H×E to 0. On a CPU a pass over all of x would take some 2 % of a step.

    The result lies in memory as T×B×H×E, as the output projection reads it, which spares that copy.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        cleared = x.permute(2, 0, 1, 3).clone(memory_format=torch.contiguous_format)
        cleared.flatten(0, 2).index_fill_(0, rows, 0)
        return cleared.permute(1, 2, 0, 3)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        by_row = gradient.permute(2, 0, 1, 3).reshape(-1, gradient.size(-1))
        if bool(by_row.index_select(0, rows).any()):  # not where the loss is over words alone
            by_row = by_row.index_fill(0, rows, 0)
            gradient = by_row.view(gradient.permute(2, 0, 1, 3).shape).permute(1, 2, 0, 3)
        return gradient, None
