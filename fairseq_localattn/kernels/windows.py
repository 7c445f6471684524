"""Which keys a query may see: hard windows as pure functions of positions.

Every function returns a boolean tensor with **True = hidden** (the polarity of fairseq's padding masks), of shape
T×S: T queries whose positions among the keys are ``offset … offset+T-1``, S keys at positions ``0 … S-1``. In the full
pass of self-attention ``offset = 0`` and ``T = S``; in an incremental step ``T = 1`` and ``offset = S - 1``.

Only differences of positions count, so the windows do not move when fairseq pads a sentence on the left. The diagonal
(the query's own position) is open in every window: no real query can be left without a key.
"""

from __future__ import annotations

import torch
from torch import Tensor

HEAD_KINDS = ("global", "local", "forward", "backward")


def relative_positions(query_length: int, key_length: int, offset: int, device: torch.device | None = None) -> Tensor:
    """``j - i`` for query position i and key position j: T×S, int64; negative is the past."""
    query = torch.arange(offset, offset + query_length, device=device)
    key = torch.arange(key_length, device=device)
    return key[None, :] - query[:, None]


def local_window(relative: Tensor, half_width: int | Tensor) -> Tensor:
    """Hidden beyond ``|i - j| ≤ half_width`` (MMA Eq. 9, CSAN Eq. 4, MAN Eq. 11): as ``relative``; or broadcast."""
    return relative.abs() > half_width


def forward_window(relative: Tensor) -> Tensor:
    """Hidden unless ``i ≤ j``: the query sees itself and the future (MMA Eq. 10)."""
    return relative < 0


def backward_window(relative: Tensor) -> Tensor:
    """Hidden unless ``i ≥ j``: the query sees itself and the past (MMA Eq. 11)."""
    return relative > 0


def window_of_kind(kind: str, relative: Tensor, half_width: int) -> Tensor:
    """The window of one of :data:`HEAD_KINDS`; ``global`` hides nothing (MMA Eq. 8). Raises ValueError on others."""
    if kind == "global":
        return torch.zeros_like(relative, dtype=torch.bool)
    if kind == "local":
        return local_window(relative, half_width)
    if kind == "forward":
        return forward_window(relative)
    if kind == "backward":
        return backward_window(relative)
    raise ValueError(f"unknown kind of head {kind!r}: choose from {', '.join(HEAD_KINDS)}")
