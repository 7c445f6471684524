"""Decoding in which the hypotheses of a sentence share one cache of keys and values, copied only to grow or shrink.

A word that was ever in the beam is a *column* of its sentence's cache. A hypothesis is a path: the columns of its
words. Following the beam reorders paths alone, which all layers share.

Shapes: B sentences, P hypotheses of each, N columns, S words of a path; R = P·B rows, hypothesis by hypothesis. So
sentences and heads are one dimension without a copy, in queries as in the cache B×H×N×D.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ..kernels.masks import hidden_and_bias, join_masks, normalise
from .call import Call
from .decoding import Buffer, IncrementalState, KeyCache
from .steps import AttentionSteps

LEAST = 16  # columns below which none are dropped; also those that a cache grows by, at least
GROWTH = 1.25  # room of a new cache, as a multiple of the columns that it must hold
NARROW_FROM = 16  # sentences from which products in another precision pay for the conversions


class BeamState(IncrementalState):
    """The state of a decoding whose hypotheses follow ``paths``; None before the first step."""

    paths: Paths | None = None
    kept_in: torch.dtype | None = None  # of keys and values, from NARROW_FROM sentences on; None: as they come
    _crowded = LEAST  # columns from which those on no path are looked for

    def begin_step(self, tokens: Tensor) -> None:
        """Add the newest words, R, to the paths; each layer fills their columns. In the first step each is a path."""
        if self.paths is None:
            self.kept_in = self.kept_in if len(tokens) >= NARROW_FROM else None
            self.paths = Paths(torch.empty(1, len(tokens), 0, dtype=torch.long, device=tokens.device), columns=0)
        self.paths = self.paths.longer()

    def reorder(self, rows: Tensor, sentences: int) -> Tensor | None:
        """Let row r follow the former row ``rows[r]``, for so many sentences.

        Returns the columns B×M that each layer is to keep, where many are on no path any more; else None.
        """
        assert self.paths is not None
        self.paths, kept = self.paths.reordered(rows, sentences), None
        if self.paths.columns >= self._crowded:
            self.paths, kept = self.paths.compact()
            self._crowded = max(LEAST, 2 * self.paths.columns)
        return kept


@dataclass(frozen=True)
class Paths:
    """The columns of the words of each hypothesis, ``places`` P×B×S, among the ``columns`` that are there."""

    places: Tensor
    columns: int

    @property
    def length(self) -> int:
        """S, the words of each path."""
        return self.places.size(2)

    @property
    def sentences(self) -> int:
        """B."""
        return self.places.size(1)

    def longer(self) -> Paths:
        """Return the paths with one more word each, in columns of their own."""
        count = self.places.size(0)
        new = torch.arange(self.columns, self.columns + count, device=self.places.device)
        added = new[:, None, None].expand(-1, self.sentences, -1)
        return Paths(torch.cat([self.places, added], dim=2), self.columns + count)

    def reordered(self, rows: Tensor, sentences: int) -> Paths:
        """Return the paths of the former ``rows``."""
        return Paths(self.places.flatten(0, 1).index_select(0, rows).unflatten(0, (-1, sentences)), self.columns)

    def compact(self) -> tuple[Paths, Tensor | None]:
        """Renumber the columns that are on a path. Returns the new paths, and the columns to keep, B×M.

        They ascend; in a sentence with fewer, some others follow. Where few would be dropped: the same paths, and None.
        """
        live = torch.zeros(self.sentences, self.columns, dtype=torch.bool, device=self.places.device)
        live.scatter_(1, self.places.transpose(0, 1).flatten(1), True)
        count = int(live.sum(1).amax())
        if 4 * count > 3 * self.columns:
            return self, None
        kept = live.byte().sort(dim=1, descending=True, stable=True).indices[:, :count]
        moved = (live.cumsum(1) - 1).expand(self.places.size(0), -1, -1)
        return Paths(moved.gather(2, self.places), count), kept

    def fold(self, x: Tensor) -> Tensor:
        """Return R×H×1×D as P×B×H×D."""
        return x[:, :, 0].unflatten(0, (-1, self.sentences))

    def scores(self, q: Tensor, keys: Tensor, scaling: float) -> Tensor:
        """Return the scaled scores R×H×1×S of queries R×H×1×D and keys B×H×N×D, for each path those of its words."""
        queries = self.fold(q).to(keys.dtype).flatten(1, 2).transpose(0, 1)
        columns = keys.flatten(0, 1).transpose(1, 2)
        found = torch.baddbmm(keys.new_empty(()), queries, columns, beta=0, alpha=scaling)
        by_path = found.unflatten(0, keys.shape[:2]).permute(2, 0, 1, 3)
        return by_path.gather(-1, self._of_heads(by_path)).flatten(0, 1).unsqueeze(2).to(q.dtype)

    def weighted_sum(self, weights: Tensor, values: Tensor) -> Tensor:
        """Multiply the weights of each path's words, R×H×1×S, by values B×H×N×D. Returns R×H×1×D."""
        whole = weights.new_zeros(*values.shape[:2], len(self.places), values.size(2))
        by_path = whole.permute(2, 0, 1, 3)
        by_path.scatter_(-1, self._of_heads(by_path), self.fold(weights))
        attended = torch.bmm(whole.flatten(0, 1).to(values.dtype), values.flatten(0, 1))
        return attended.unflatten(0, whole.shape[:2]).permute(2, 0, 1, 3).flatten(0, 1).unsqueeze(2)

    def _of_heads(self, x: Tensor) -> Tensor:
        """Return the places for each head of x, P×B×H×N: P×B×H×S."""
        return self.places.unsqueeze(2).expand(*x.shape[:-1], -1)


def attend_along(attention: AttentionSteps, paths: Paths, call: Call, *, cache: KeyCache, state: BeamState) -> Tensor:
    """Store the key and the value of the newest word of each path, and attend to all words; R×H×1×D."""
    extra = attention.extra_keys
    new = {"values": call.v, "keys": call.k, **{name: call.extra[name] for name in extra}}
    values, *keys = _stored(cache, paths, new, state)
    stems = [name.removesuffix("k_proj") for name in extra]
    queries = [call.q, *(call.extra[f"{stem}q_proj"] for stem in stems)]
    scores, *others = (paths.scores(q, k, attention.scaling) for q, k in zip(queries, keys, strict=True))
    call = call.with_extra({f"{stem}scores": x for stem, x in zip(stems, others, strict=True)})
    call = call.with_extra(attention.prepare(call))
    frame, bias, device = call.frame, attention.score_bias(call), call.q.device
    mask = join_masks(*hidden_and_bias(frame, attention.hidden_keys(frame, device), bias, scores.dtype), scores.dtype)
    weights = normalise(scores if mask is None else scores.add_(mask))
    if attention.has("reweight"):
        weights = attention.reweight(weights, call)
    attended = paths.weighted_sum(weights, values).to(call.q.dtype)
    return attention.add_values(attended, weights, call) if attention.has("add_values") else attended


def _stored(cache: KeyCache, paths: Paths, added: dict[str, Tensor], state: BeamState) -> list[Tensor]:
    """Store what is ``added``, R×H×1×D each. Returns it with that of former steps, B×H×N×D, as the state keeps it.

    In bf16 on a CPU N counts the free room as well, whose numbers are finite: oneDNN would copy a part of a cache.
    """
    found, end, buffer = [], paths.columns, cache.read(state)
    stored: Buffer = {}
    for name, x in added.items():
        new = paths.fold(x).permute(1, 2, 0, 3)
        first, whole = end - new.size(2), buffer.get(name)
        if whole is None or whole.size(2) < end:
            larger = x.new_zeros(*new.shape[:2], _room(end), new.size(3), dtype=state.kept_in)
            if whole is not None:
                larger[:, :, :first] = whole[:, :, :first]
            whole = larger
        whole[:, :, first:end] = new
        stored[name] = whole
        found.append(whole if whole.dtype == torch.bfloat16 and whole.device.type == "cpu" else whole[:, :, :end])
    cache.write(state, stored)
    return found


def _room(columns: int) -> int:
    """Return the columns to make room for in a cache that must hold ``columns``."""
    return max(int(GROWTH * columns), columns + LEAST)


def follow(cache: KeyCache, state: IncrementalState, sentences: Tensor | None, columns: Tensor | None) -> None:
    """Keep these ``sentences`` of a cache, and of each its ``columns`` B×M, in the given order; None keeps all."""
    buffer = cache.read(state)
    for name, whole in buffer.items():
        assert whole is not None
        if columns is not None:
            count, heads, room, _ = whole.shape
            kept = torch.arange(count, device=whole.device) if sentences is None else sentences
            first = (kept[:, None] * heads + torch.arange(heads, device=whole.device)) * room
            taken = F.pad(columns, (0, _room(columns.size(1)) - columns.size(1)))  # free room: copies of a column
            rows = (first[..., None] + taken[:, None]).flatten()
            buffer[name] = whole.flatten(0, 2).index_select(0, rows).unflatten(0, (len(kept), heads, -1))
        elif sentences is not None:
            buffer[name] = whole.index_select(0, sentences)
