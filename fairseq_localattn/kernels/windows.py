"""Hard attention windows as pure functions of positions.

The windows are boolean tensors T×S with **True = hidden**, the polarity of fairseq's padding masks. The T
queries stand at positions ``offset … offset+T-1`` among the S keys, which stand at ``0 … S-1``: in a full pass of
self-attention ``offset = 0`` and ``T = S``, in an incremental step ``T = 1`` and ``offset = S - 1``.

Windows depend on differences of positions alone, so left padding does not move them. The diagonal, a query's own
position, is visible in every window, so every real query has a key.
"""

from __future__ import annotations

import torch
from torch import Tensor

HEAD_KINDS = ("global", "local", "forward", "backward")


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


def forward_window(relative: Tensor) -> Tensor:
    """Hide keys unless ``i ≤ j``: a query sees itself and the future (MMA Eq. 10)."""
    return relative < 0


def backward_window(relative: Tensor) -> Tensor:
    """Hide keys unless ``i ≥ j``: a query sees itself and the past (MMA Eq. 11)."""
    return relative > 0


def bounds_of_kind(kind: str, half_width: int) -> tuple[int | None, int | None]:
    """Return the lowest and the highest ``j - i`` that a kind of head sees, one of :data:`HEAD_KINDS`; None = any."""
    low = {"global": None, "local": -half_width, "forward": 0, "backward": None}
    high = {"global": None, "local": half_width, "forward": None, "backward": 0}
    return low[kind], high[kind]


def window_of_kind(kind: str, relative: Tensor, half_width: int) -> Tensor:
    """Return the window of a kind of head, one of :data:`HEAD_KINDS`; ``global`` hides nothing (MMA Eq. 8).

    Raises ValueError for another kind.
    """
    if kind == "global":
        return torch.zeros_like(relative, dtype=torch.bool)
    if kind == "local":
        return local_window(relative, half_width)
    if kind == "forward":
        return forward_window(relative)
    if kind == "backward":
        return backward_window(relative)
    raise ValueError(f"unknown kind of head {kind!r}: choose from {', '.join(HEAD_KINDS)}")
