"""Where queries and keys of one call stand, and what of it is hidden. Needs torch alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Frame:
    """Where the queries and the keys of one call stand.

    ``offset`` is the position of the first query among the keys (self-attention only; 0 in the full pass).
    ``key_padding_mask``: B×S, True = padding. ``attn_mask``: T×S, boolean (True = hidden) or added to the logits.
    """

    query_length: int
    key_length: int
    offset: int = 0
    key_padding_mask: Tensor | None = None
    attn_mask: Tensor | None = None


def lowest_score(dtype: torch.dtype) -> float:
    """What a hidden key's logit is set to: far below any score, and finite.

    With -inf a row that has every key hidden (a padded query, an empty sentence) becomes NaN; with half of the lowest
    number it becomes uniform, stays finite when a score is added in fp16, and in every other row the hidden keys'
    weight underflows to an exact zero.
    """
    return torch.finfo(dtype).min / 2


def hidden_and_bias(
    frame: Frame, window: Tensor | None, bias: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor | None, Tensor | None]:
    """Padding, window, ``attn_mask`` and bias as what is hidden (boolean, True = hidden) and what is added.

    ``window``: True = hidden, (B×)H×T×S; ``bias``: finite. Both results are broadcastable to B×H×T×S, or None.
    """
    hidden: Tensor | None = None
    if frame.key_padding_mask is not None:
        hidden = frame.key_padding_mask[:, None, None, :].to(torch.bool)
    if window is not None:
        window = window if window.dim() == 4 else window[None]  # the fused kernels take masks of 2 or 4 dimensions
        hidden = window if hidden is None else hidden | window
    if frame.attn_mask is not None:
        closed = _closed_keys(frame.attn_mask, dtype)
        if closed is not None:
            hidden = closed if hidden is None else hidden | closed
        else:
            added = frame.attn_mask.to(torch.promote_types(frame.attn_mask.dtype, dtype))
            added = added.clamp(min=lowest_score(dtype))
            bias = added if bias is None else bias + added
    return hidden, bias


def _closed_keys(mask: Tensor, dtype: torch.dtype) -> Tensor | None:
    """What a mask T×S hides (True = hidden) if it does nothing else; fairseq's causal mask has 0 and -∞.

    None if it adds something besides, may learn to, or if a look at it would make a GPU wait.
    """
    if mask.dtype == torch.bool:
        return mask
    if mask.device.type != "cpu" or mask.requires_grad or not mask.is_floating_point():
        return None
    closed = mask <= max(lowest_score(dtype), lowest_score(mask.dtype))
    return None if bool(mask.masked_fill(closed, 0).any()) else closed


def join_masks(hidden: Tensor | None, bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """:func:`hidden_and_bias` as one term added to the logits; None when there is nothing to add.

    Hidden keys get :func:`lowest_score`.
    """
    lowest = lowest_score(dtype)
    if bias is not None:
        bias = bias if hidden is None else bias.masked_fill(hidden, lowest)
        if bias.dtype != dtype:
            # In half precision numbers far from 0 are coarse. What the visible keys of a query have in common goes: the
            # softmax does not see it.
            bias = bias - bias.detach().amax(-1, keepdim=True)
        return bias.to(dtype)
    if hidden is None:
        return None
    return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, lowest)


def combine_masks(frame: Frame, window: Tensor | None, bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Padding, window, ``attn_mask`` and bias as one term added to the logits, broadcastable to B×H×T×S, or None.

    ``window``: True = hidden, (B×)H×T×S; ``bias``: finite. Hidden keys get :func:`lowest_score`.
    """
    return join_masks(*hidden_and_bias(frame, window, bias, dtype), dtype)


def normalise(scores: Tensor) -> Tensor:
    """Softmax over the keys, in fp32 or better whatever the scores are in."""
    return torch.softmax(scores, dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))
