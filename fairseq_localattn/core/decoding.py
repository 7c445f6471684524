"""Cached keys and values of a decoder's self-attention, which beam search reorders and then makes one word longer."""

from __future__ import annotations

import torch
from torch import Tensor

Buffer = dict[str, Tensor | None]


class GrowableCache:
    """Room for the next word behind what is cached, made when it is reordered: so both take one copy, not two.

    The room belongs to the tensor that :meth:`reorder` gave and is used once: who appends to it again copies.
    """

    def __init__(self) -> None:
        self._made: dict[str, tuple[Tensor, Tensor]] = {}

    def reorder(self, name: str, tensor: Tensor, order: Tensor) -> Tensor:
        """Rows ``order`` of a tensor B×H×S×D, with room for one word more."""
        batch, (_, heads, length, channels) = order.size(0), tensor.shape
        whole = tensor.new_empty(batch, heads, length + 1, channels)
        taken = whole[:, :, :length]
        torch.index_select(tensor, 0, order, out=taken)
        self._made[name] = taken, whole
        return taken

    def append(self, name: str, before: Tensor, now: Tensor) -> Tensor:
        """B×H×S×D and B×H×T×D → B×H×(S+T)×D."""
        taken, whole = self._made.pop(name, (None, None))
        if whole is None or taken is not before or now.size(2) != 1:
            return torch.cat([before, now], dim=2)
        whole[:, :, -1:] = now
        return whole


def cached(buffer: Buffer, name: str) -> Tensor:
    """An entry of the decoding state that must be there."""
    tensor = buffer[name]
    assert tensor is not None, f"{name} is missing from the decoding state"
    return tensor


def append_padding(before: Tensor | None, now: Tensor | None, old: Tensor, new: Tensor) -> Tensor | None:
    """Padding of cached keys ``old`` and this step's ``new`` (B×H×·×D), where either may be unknown (= none)."""
    if before is None and now is None:
        return None
    if before is None:
        before = torch.zeros(old.size(0), old.size(2), dtype=torch.bool, device=old.device)
    if now is None:
        now = torch.zeros(new.size(0), new.size(2), dtype=torch.bool, device=new.device)
    return torch.cat([before.to(torch.bool), now.to(torch.bool)], dim=1)
