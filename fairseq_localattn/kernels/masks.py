"""Positions and masks of one attention call, and how masks are combined. Depends on torch alone.

Boolean masks have **True = hidden**; float masks are added to the scaled scores. Shapes: B sentences, H heads, T
queries, S keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from .kept import kept
from .passes import is_shared, shared


@dataclass(frozen=True)
class Frame:
    """Positions of the queries and keys of one attention call, and the masks that the caller passed.

    Args:
        query_length: T.
        key_length: S.
        offset: position of the first query among the keys (self-attention only; 0 in a full pass).
        key_padding_mask: B×S, boolean, True = padding.
        attn_mask: T×S, or B×T×S if sentences differ, boolean (True = hidden) or added to the scores.
        before: in a block of queries, those of the same self-attention before it, which ``offset`` counts as well.
    """

    query_length: int
    key_length: int
    offset: int = 0
    key_padding_mask: Tensor | None = None
    attn_mask: Tensor | None = None
    before: int = 0


def lowest_score(dtype: torch.dtype) -> float:
    """Return the score of a hidden key: half of the lowest finite number of ``dtype``.

    In a row with a visible key, the weight of a hidden key underflows to exactly 0. In a row without one (a padded
    query, an empty sentence) a kernel's results are finite, where -inf may make them NaN, and are replaced by 0
    (:mod:`kernels.blind`). Half of the range is left so that a score can be added in fp16 without overflow.
    """
    return torch.finfo(dtype).min / 2


def at_least_fp32(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which a softmax or a mask of numbers of ``dtype`` is computed: fp32, or fp64 for fp64."""
    return torch.promote_types(dtype, torch.float32)


def hidden_and_bias(
    frame: Frame, window: Tensor | None, bias: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor | None, Tensor | None]:
    """Combine padding, window, ``attn_mask`` and bias into one boolean mask and one added term.

    Args:
        frame: holds padding and ``attn_mask``.
        window: broadcastable to B×H×T×S, of three or four dimensions, True = hidden.
        bias: added to the scores, finite.
        dtype: of the scores.

    Returns:
        ``hidden`` (True = hidden) and ``bias``, each broadcastable to B×H×T×S, or None where there is nothing. The
        layers of a forward pass share them.
    """
    padding, mask = frame.key_padding_mask, frame.attn_mask
    mask = mask[:, None] if mask is not None and mask.dim() == 3 else mask
    if is_shared(window):
        hidden, added = shared(lambda: _hidden(padding, window, mask, dtype), "hidden", padding, window, mask, dtype)
    else:
        hidden, added = _hidden(padding, window, mask, dtype)
    if added is None:
        return hidden, bias
    # In the range of the bias: a key that the mask hides stays below one that the bias cuts off.
    wide = torch.promote_types(added.dtype, dtype if bias is None else bias.dtype)

    def join() -> Tensor:
        finite = added.to(wide).clamp(min=lowest_score(wide))
        return finite if bias is None else bias + finite

    return hidden, shared(join, "added", added, bias, wide) if is_shared(bias) else join()


def _hidden(
    padding: Tensor | None, window: Tensor | None, mask: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor | None, Tensor | None]:
    """Return which keys are hidden, and ``mask`` if it does not only hide keys."""
    closed = None if mask is None else _as_boolean(mask, dtype)
    found = [None if padding is None else padding[:, None, None, :], window, closed]
    parts = [each for each in found if each is not None]
    hidden = reduce(torch.logical_or, parts) if parts else None
    return hidden, mask if closed is None else None


def _as_boolean(mask: Tensor, dtype: torch.dtype) -> Tensor | None:
    """Return a mask …×T×S as boolean (True = hidden) if it only hides keys, as fairseq's causal one of 0 and -inf does.

    Returns None if the mask has other values or needs a gradient, or if reading its values would synchronise a GPU:
    there the masks of :func:`future_mask` are known.
    """
    if mask.dtype == torch.bool:
        return mask
    if mask.requires_grad:
        return None
    if mask.device.type != "cpu":
        return hides(mask, dtype) if is_future(mask, read=False) else None
    closed = hides(mask, dtype)
    return None if bool(mask.masked_fill(closed, 0).any()) else closed


def hides(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return where an ``attn_mask``, boolean or added to scores of ``dtype``, hides a key; True = hidden."""
    if mask.dtype == torch.bool:
        return mask
    if not mask.is_floating_point():
        return torch.zeros_like(mask, dtype=torch.bool)
    return mask.detach() <= max(lowest_score(dtype), lowest_score(mask.dtype))


@kept(1)
def future_mask(length: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the mask that hides the keys after each query, T×T, added to the scores: -inf there, else 0."""
    with torch.inference_mode(False):
        mask = torch.full((length, length), -torch.inf, dtype=dtype, device=device).triu_(1)
        _futures[mask] = mask._version, True  # known without being read
    return mask


def is_future(mask: Tensor, read: bool = True) -> bool:
    """Return whether a mask …×T×S, boolean or added to the scores, hides the keys after each query and nothing else.

    The answer is stored for the tensor of which the mask is a view: fairseq's, which is read once, and again when it
    grows. Reading waits for the GPU. With ``read=False`` a mask that was not read before gives False. A change through
    ``.data`` is not noticed.
    """
    whole = mask._base
    if whole is None or whole.dim() != 2 or whole.stride() != mask.stride() or mask.storage_offset():
        whole = mask
    if not read:
        return not whole.is_inference() and _futures.get(whole) == (whole._version, True)
    if whole.is_inference():
        return _is_future(mask)
    if _futures.get(whole, (None, False))[0] != whole._version:
        _futures[whole] = whole._version, _is_future(whole)
    return _futures[whole][1] if whole is mask or _futures[whole][1] else _is_future(mask)


_futures: WeakIdKeyDictionary = WeakIdKeyDictionary()


def _is_future(mask: Tensor) -> bool:
    if mask.requires_grad:
        return False
    future = torch.ones_like(mask, dtype=torch.bool).triu(1)
    if mask.dtype == torch.bool:
        return torch.equal(mask, future)
    lowest = lowest_score(mask.dtype) if mask.is_floating_point() else -float("inf")
    return bool((torch.where(future, mask <= lowest, mask == 0)).all())


def join_masks(hidden: Tensor | None, bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Merge the two results of :func:`hidden_and_bias` into one term added to the scores, or None if both are None.

    Hidden keys get :func:`lowest_score`. The layers of a forward pass share the result of what they share.
    """
    if (hidden is not None or bias is not None) and is_shared(hidden) and is_shared(bias):
        return shared(lambda: _join(hidden, bias, dtype), "joined", hidden, bias, dtype)
    return _join(hidden, bias, dtype)


def _join(hidden: Tensor | None, bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    if bias is not None:
        needs = bias.requires_grad and torch.is_grad_enabled()
        return _Join.apply(bias, hidden, dtype) if needs else _joined(bias, hidden, dtype)
    if hidden is None:
        return None
    return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, lowest_score(dtype))


def _joined(bias: Tensor, hidden: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Return a bias, with the lowest score at hidden keys, in the dtype of the scores."""
    if bias.dtype == dtype and hidden is None:
        return bias
    shape, out = bias.shape if hidden is None else torch.broadcast_shapes(bias.shape, hidden.shape), None
    if bias.device.type != "cpu":  # one operation instead of two or three
        out = aligned(shape, like=bias, dtype=dtype)
    if bias.dtype == dtype:
        lowest = shared(lambda: bias.new_full((), lowest_score(dtype)), "lowest", dtype, bias.device)
        return torch.where(hidden, lowest, bias, out=out)  # type: ignore[arg-type]
    joined = bias if hidden is None else bias.masked_fill(hidden, lowest_score(bias.dtype))
    # Numbers far from 0 are coarse in half precision, so each row is shifted to a maximum of 0. The softmax does not
    # change.
    return torch.sub(joined, joined.amax(-1, keepdim=True), out=out).to(dtype).clamp_(min=lowest_score(dtype))


class _Join(torch.autograd.Function):
    """:func:`_joined`, of a bias that needs a gradient.

    The gradient of a hidden key is that of its score, which is 0: its weight is 0, or its query sees no key and is
    cleared (:mod:`kernels.blind`).
    """

    @staticmethod
    def forward(ctx: Any, bias: Tensor, hidden: Tensor | None, dtype: torch.dtype) -> Tensor:
        ctx.shape, ctx.dtype = bias.shape, bias.dtype
        joined = _joined(bias, hidden, dtype)
        return joined.view_as(joined)  # autograd refuses an input as the output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        lead = gradient.dim() - len(ctx.shape)
        dims = [n for n, size in enumerate(gradient.shape) if n < lead or (ctx.shape[n - lead] == 1 and size > 1)]
        if dims:
            gradient = gradient.sum(dims, keepdim=True, dtype=ctx.dtype)
        return gradient.view(gradient.shape[lead:]).to(ctx.dtype), None, None


ALIGNED = 8  # row strides of masks are multiples of this, as torch's kernels on GPUs need


def aligned(shape: Sequence[int], *, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return an uninitialised tensor on the device of ``like``; elsewhere than on a CPU its rows are aligned."""
    room = 0 if like.device.type == "cpu" else -shape[-1] % ALIGNED
    return like.new_empty((*shape[:-1], shape[-1] + room), dtype=dtype)[..., : shape[-1]]


def normalise(scores: Tensor) -> Tensor:
    """Compute the softmax over the keys, the last dimension, in at least fp32; the result has that precision."""
    return torch.softmax(scores, dim=-1, dtype=at_least_fp32(scores.dtype))
