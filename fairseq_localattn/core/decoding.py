"""Cached keys and values of a decoder during beam search."""

from __future__ import annotations

import uuid
from typing import Any

import torch
from torch import Tensor

from ..kernels.projections import is_column_major, to_column_major

Buffer = dict[str, Tensor | None]
IncrementalState = dict[str, Buffer]


class GrowableCache:
    """Cached tensors with room for one more position, so that reordering and appending take one copy instead of two.

    Each decoding step reorders the cached tensors to follow the beam, then appends one position. :meth:`reorder`
    copies into a tensor that is one position longer and returns a view of all but the last; :meth:`append` writes into
    the last. The room is used once: a second append to the same view copies.
    """

    def __init__(self) -> None:
        self._made: dict[str, tuple[Tensor, Tensor]] = {}

    def reorder(self, name: str, tensor: Tensor, order: Tensor) -> Tensor:
        """Return the rows ``order`` of a tensor B×H×S×D, with room for one more position behind the last."""
        batch, (_, heads, length, channels) = order.size(0), tensor.shape
        whole = tensor.new_empty(batch, heads, length + 1, channels)
        taken = whole[:, :, :length]
        torch.index_select(tensor, 0, order, out=taken)
        self._made[name] = taken, whole
        return taken

    def append(self, name: str, before: Tensor, now: Tensor) -> Tensor:
        """Concatenate B×H×S×D and B×H×T×D to B×H×(S+T)×D, using the room of :meth:`reorder` where there is one."""
        taken, whole = self._made.pop(name, (None, None))
        if whole is None or taken is not before or now.size(2) != 1:
            return torch.cat([before, now], dim=2)
        whole[:, :, -1:] = now
        return whole


def cached(buffer: Buffer, name: str) -> Tensor:
    """Return an entry of the decoding state that is never None."""
    tensor = buffer[name]
    assert tensor is not None, f"{name} is missing from the decoding state"
    return tensor


def cached_length(buffer: Buffer) -> int:
    """Return the number of keys in the decoding state; 0 where it is empty."""
    keys = buffer.get("prev_key")
    return 0 if keys is None else keys.size(2)


def append_padding(before: Tensor | None, now: Tensor | None, old: Tensor, new: Tensor) -> Tensor | None:
    """Concatenate the padding masks of cached and new keys.

    Args:
        before: B×S, boolean, True = padding, of the cached keys; None if none of them is padding.
        now: B×T, True = padding, of the new keys; None if none of them is padding.
        old, new: the cached and the new keys, B×H×S×D and B×H×T×D.

    Returns B×(S+T), or None if both masks are None.
    """
    if before is None and now is None:
        return None
    if before is None:
        before = torch.zeros(old.size(0), old.size(2), dtype=torch.bool, device=old.device)
    if now is None:
        now = torch.zeros(new.size(0), new.size(2), dtype=torch.bool, device=new.device)
    return torch.cat([before, now], dim=1)


def beam_copies(key: Tensor, rows: int, beam_size: int) -> int:
    """Return how often beam search has repeated each sentence of an encoder output.

    Args:
        key: S×B×C, the encoder output.
        rows: the number of rows of the queries.
        beam_size: the last size that fairseq's generator set. It sets none for a beam of 1, so this size may be of an
            earlier search, and the columns of ``key`` are compared to be sure.

    Returns ``beam_size``, or 1 if neighbouring columns of ``key`` differ.
    """
    if beam_size == 1 or rows != key.size(1) or rows % beam_size:
        return 1
    sentences = key.unflatten(1, (-1, beam_size))
    return beam_size if torch.equal(sentences[:, :, 1:], sentences[:, :, :-1]) else 1


def sentence_order(order: Tensor, sentences: int, copies: int) -> tuple[Tensor | None, int]:
    """Convert a reordering of hypotheses into one of cached sentences, of which each serves ``copies`` hypotheses.

    Args:
        order: the former row of each hypothesis. On a GPU one of all rows is not read: they must stay within their
            sentence then, as in fairseq's generator.
        sentences: the number of cached sentences.
        copies: hypotheses of each sentence.

    Returns the former index of each sentence (None: unchanged), and the new number of copies. It is 1 if hypotheses of
    one sentence are not kept together, so that each row needs its own cache.
    """
    all_rows = order.numel() == sentences * copies
    if all_rows and order.device.type != "cpu":
        return None, copies
    found = order // copies
    if all_rows and torch.equal(found, torch.arange(sentences).repeat_interleave(copies)):
        return None, copies  # hypotheses moved within their sentences
    if found.numel() % copies == 0:
        beams = found.view(-1, copies)
        if torch.equal(beams, beams[:, :1].expand_as(beams)):
            return beams[:, 0], copies
    return found, 1


class KeyCache:
    """Keys and values of one attention between the steps of decoding, in fairseq's state, which follows a beam.

    Args:
        growing: each step adds its keys, as in self-attention; otherwise they stay those of the first step.
    """

    def __init__(self, *, growing: bool) -> None:
        self.growing = growing
        self.name = str(uuid.uuid4())
        self.key = f"{self.name}.attn_state"  # of the entries in fairseq's state
        self._room = GrowableCache()

    def read(self, state: IncrementalState | None) -> Buffer:
        """Return the entries of this attention; nothing before the first step."""
        return (state or {}).get(self.key, {})

    def write(self, state: IncrementalState, buffer: Buffer) -> None:
        """Set the entries of this attention."""
        state[self.key] = buffer

    def projections(self, state: IncrementalState) -> dict[Any, Any]:
        """Return what is kept of joined projections during one decoding."""
        return state.setdefault(f"{self.name}.projections", {})

    def update(
        self,
        state: IncrementalState,
        k: Tensor,
        v: Tensor,
        *,
        key_extra: dict[str, Tensor],
        padding: Tensor | None,
        copies: int,
        by_columns: bool,
    ) -> tuple[Tensor, Tensor, dict[str, Tensor], Tensor | None]:
        """Add keys, values, extra projections of keys, and padding of this step; return those of all steps so far.

        ``copies``: rows of a beam for which one row of keys is kept. ``by_columns``: lay the keys of
        cross-attention out by column, for products with single queries.
        """
        saved = self.read(state)
        before = saved.get("prev_key")
        if before is not None:
            padding = append_padding(saved.get("prev_key_padding_mask"), padding, before, k)
            names = ("prev_key", "prev_value", *(f"extra_{name}" for name in key_extra))
            k, v, *rest = (
                self._room.append(name, cached(saved, name), x)
                for name, x in zip(names, (k, v, *key_extra.values()), strict=True)
            )
            key_extra = dict(zip(key_extra, rest, strict=True))
        elif not self.growing:  # laid out for single queries, since every step reads them
            v = v.contiguous()
            k, *rest = (to_column_major(x) if by_columns else x.contiguous() for x in (k, *key_extra.values()))
            key_extra = dict(zip(key_extra, rest, strict=True))
        buffer: Buffer = {"prev_key": k, "prev_value": v, "prev_key_padding_mask": padding}
        buffer |= {f"extra_{name}": x for name, x in key_extra.items()}
        if copies > 1:
            buffer["copies"] = torch.tensor(copies)
        self.write(state, buffer)
        return k, v, key_extra, padding

    def reorder(self, state: IncrementalState, new_order: Tensor) -> None:
        """Let row r of the cached tensors become the former row ``new_order[r]``."""
        buffer = self.read(state)
        copies = buffer.pop("copies", None)
        if copies is not None:
            order, rows = sentence_order(new_order, cached(buffer, "prev_key").size(0), int(copies))
            if rows > 1:
                buffer["copies"] = copies
            if order is None:
                return
            new_order = order
        for name, tensor in buffer.items():
            if tensor is None or name == "copies":
                continue
            grows = self.growing and name.startswith(("prev_", "extra_"))
            if grows and tensor.dim() == 4 and not tensor.requires_grad:
                buffer[name] = self._room.reorder(name, tensor, new_order)
            else:
                moved = tensor.index_select(0, new_order)
                buffer[name] = to_column_major(moved) if is_column_major(tensor) else moved
