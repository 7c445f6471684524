"""Positions and masks of one attention call, and how masks are combined. Depends on torch alone.

Boolean masks have **True = hidden**; float masks are added to the scaled scores. Shapes: B sentences, H heads, T
queries, S keys.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Frame:
    """Positions of the queries and keys of one attention call, and the masks that the caller passed.

    Args:
        query_length: T.
        key_length: S.
        offset: position of the first query among the keys (self-attention only; 0 in a full pass).
        key_padding_mask: B×S, boolean, True = padding.
        attn_mask: T×S, boolean (True = hidden) or added to the scores.
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
        ``hidden`` (True = hidden) and ``bias``, each broadcastable to B×H×T×S, or None where there is nothing.
    """
    hidden: Tensor | None = None
    if frame.key_padding_mask is not None:
        hidden = frame.key_padding_mask[:, None, None, :]
    if window is not None:
        hidden = window if hidden is None else hidden | window
    if frame.attn_mask is not None:
        closed = _as_boolean(frame.attn_mask, dtype)
        if closed is not None:
            hidden = closed if hidden is None else hidden | closed
        else:
            # In the range of the bias: a key that the mask hides stays below one that the bias cuts off.
            wide = torch.promote_types(frame.attn_mask.dtype, dtype if bias is None else bias.dtype)
            added = frame.attn_mask.to(wide).clamp(min=lowest_score(wide))
            bias = added if bias is None else bias + added
    return hidden, bias


def _as_boolean(mask: Tensor, dtype: torch.dtype) -> Tensor | None:
    """Return a mask T×S as boolean (True = hidden) if it only hides keys, as fairseq's causal mask of 0 and -inf does.

    Returns None if the mask has other values or needs a gradient, or if reading its values would synchronise a GPU.
    """
    if mask.dtype == torch.bool:
        return mask
    if mask.device.type != "cpu" or mask.requires_grad:
        return None
    closed = hides(mask, dtype)
    return None if bool(mask.masked_fill(closed, 0).any()) else closed


def hides(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return where an ``attn_mask``, boolean or added to scores of ``dtype``, hides a key; True = hidden."""
    if mask.dtype == torch.bool:
        return mask
    if not mask.is_floating_point():
        return torch.zeros_like(mask, dtype=torch.bool)
    return mask.detach() <= max(lowest_score(dtype), lowest_score(mask.dtype))


def join_masks(hidden: Tensor | None, bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Merge the two results of :func:`hidden_and_bias` into one term added to the scores, or None if both are None.

    Hidden keys get :func:`lowest_score`.
    """
    lowest = lowest_score(dtype)
    if bias is not None:
        bias = bias if hidden is None else bias.masked_fill(hidden, lowest_score(bias.dtype))
        if bias.dtype != dtype:
            # Numbers far from 0 are coarse in half precision, so each row is shifted to a maximum of 0. The softmax
            # does not change.
            bias = (bias - bias.detach().amax(-1, keepdim=True)).to(dtype).clamp(min=lowest)
        return bias
    if hidden is None:
        return None
    return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, lowest)


def normalise(scores: Tensor) -> Tensor:
    """Compute the softmax over the keys, the last dimension, in at least fp32; the result has that precision."""
    return torch.softmax(scores, dim=-1, dtype=at_least_fp32(scores.dtype))
