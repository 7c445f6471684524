"""Decoding in which the hypotheses of a sentence share one cache of keys and values, which no step copies.

A word that was ever in the beam is a *column* of its sentence's cache. A hypothesis is a path: the columns of its
words. Following the beam reorders paths alone, which all layers share.

Shapes: B sentences, P hypotheses of each, N columns, S words of a path; R = B·P rows, sentence by sentence.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..kernels.dense import scaled_scores
from ..kernels.masks import hidden_and_bias, join_masks, lowest_score, normalise
from ..kernels.passes import is_shared, shared
from .call import Call
from .decoding import Buffer, IncrementalState, KeyCache
from .steps import AttentionSteps

LEAST = 16  # columns below which nothing is gained by dropping some


class BeamState(IncrementalState):
    """The state of a decoding whose hypotheses follow ``paths``; None before the first step."""

    paths: Paths | None = None
    _crowded = LEAST  # columns from which those on no path are looked for

    def begin_step(self, tokens: Tensor) -> None:
        """Add the newest words, R, to the paths; each layer fills their columns. In the first step each is a path."""
        if self.paths is None:
            self.paths = Paths(torch.empty(len(tokens), 1, 0, dtype=torch.long, device=tokens.device), columns=0)
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
    """The columns of the words of each hypothesis, ``places`` B×P×S, among the ``columns`` that are there."""

    places: Tensor
    columns: int

    @property
    def length(self) -> int:
        """S, the words of each path."""
        return self.places.size(2)

    def longer(self) -> Paths:
        """Return the paths with one more word each, in columns of their own."""
        sentences, count, _ = self.places.shape
        new = torch.arange(self.columns, self.columns + count, device=self.places.device)
        added = new[:, None].expand(sentences, count, 1)
        return Paths(torch.cat([self.places, added], dim=2), self.columns + count)

    def reordered(self, rows: Tensor, sentences: int) -> Paths:
        """Return the paths of the former ``rows``."""
        return Paths(self.places.flatten(0, 1).index_select(0, rows).unflatten(0, (sentences, -1)), self.columns)

    def compact(self) -> tuple[Paths, Tensor | None]:
        """Return the paths among the columns that are on one, and these columns B×M in ascending order.

        A sentence with fewer of them than others keeps some more. None, and the same paths, where few would be dropped.
        """
        live = torch.zeros(self.places.size(0), self.columns, dtype=torch.bool, device=self.places.device)
        live.scatter_(1, self.places.flatten(1), True)
        count = int(live.sum(1).amax())
        if 4 * count > 3 * self.columns:
            return self, None
        kept = live.byte().sort(dim=1, descending=True, stable=True).indices[:, :count]
        places = (live.cumsum(1) - 1).gather(1, self.places.flatten(1)).view_as(self.places)
        return Paths(places, count), kept

    def fold(self, x: Tensor) -> Tensor:
        """Return R×H×1×… as B×H×P×…; what is the same for all rows stays as it is."""
        if x.dim() < 4 or x.size(0) == 1:
            return x
        return x[:, :, 0].unflatten(0, self.places.shape[:2]).transpose(1, 2)

    def unfold(self, x: Tensor) -> Tensor:
        """Return B×H×P×… as R×H×1×…."""
        return x.transpose(1, 2).flatten(0, 1).unsqueeze(2)

    def spread(self, x: Tensor | None, heads: int, fill: float, *, like: Tensor) -> Tensor:
        """Return (B·H)×P×N from what paths have, broadcastable to B×H×P×S, None for 0; other columns have ``fill``."""
        sentences, count, _ = self.places.shape
        found, index = like.new_full((sentences, heads, count, self.columns), fill), self._of_heads(heads)
        found = found.scatter_(-1, index, 0.0) if x is None else found.scatter_(-1, index, x.expand(index.shape))
        return found.flatten(0, 1)

    def gather(self, x: Tensor) -> Tensor:
        """Return what paths have, B×H×P×S, of B×H×P×N."""
        return x.gather(-1, self._of_heads(x.size(1)))

    def _of_heads(self, heads: int) -> Tensor:
        return self.places[:, None].expand(-1, heads, -1, -1)


def attend_along(
    attention: AttentionSteps, paths: Paths, call: Call, *, cache: KeyCache, state: IncrementalState
) -> Tensor:
    """Store the key and the value of the newest word of each path, and attend to all words; R×H×1×D."""
    names, new = attention.extra_keys, {"keys": call.k, "values": call.v}
    if names:
        new["extra"] = torch.cat([call.extra[name] for name in names], dim=1)
    keys, values, *extra = _stored(cache, paths, new, state)
    if names:
        call = call.with_extra(_extra_scores(attention, paths, call, keys=extra[0]))
    call = call.with_extra(attention.prepare(call))
    frame, q, bias = call.frame, call.q, attention.score_bias(call)
    mask = join_masks(*hidden_and_bias(frame, attention.hidden_keys(frame, q.device), bias, q.dtype), q.dtype)
    groups, lowest = keys.shape[:2], lowest_score(q.dtype)

    def spread() -> Tensor:
        return paths.spread(None if mask is None else paths.fold(mask), groups[1], lowest, like=q)

    added = shared(spread, "along paths", groups[1], mask) if is_shared(mask) else spread()
    queries = paths.fold(q).flatten(0, 1)
    scores = torch.baddbmm(added, queries, keys.flatten(0, 1).transpose(1, 2), alpha=attention.scaling)
    weights = normalise(scores)
    if attention.has("reweight"):
        own = paths.unfold(paths.gather(weights.unflatten(0, groups)))
        weights = paths.spread(paths.fold(attention.reweight(own, call)), groups[1], 0.0, like=weights)
    attended = torch.bmm(weights.to(values.dtype), values.flatten(0, 1)).unflatten(0, groups)
    attended = paths.unfold(attended)
    if attention.has("add_values"):
        attended = attention.add_values(attended, paths.unfold(paths.gather(weights.unflatten(0, groups))), call)
    return attended


def _extra_scores(attention: AttentionSteps, paths: Paths, call: Call, *, keys: Tensor) -> dict[str, Tensor]:
    """Return the scores R×H×1×S of extra keys, B×nH×N×D of all columns: of ``a_k_proj`` those named ``a_scores``."""
    stems = [name.removesuffix("k_proj") for name in attention.extra_keys]
    queries = torch.cat([paths.fold(call.extra[f"{stem}q_proj"]) for stem in stems], dim=1)
    scores = paths.unfold(paths.gather(scaled_scores(queries, keys, attention.scaling)))
    return {f"{stem}scores": x for stem, x in zip(stems, scores.chunk(len(stems), dim=1), strict=True)}


def _stored(cache: KeyCache, paths: Paths, added: dict[str, Tensor], state: IncrementalState) -> list[Tensor]:
    """Return the keys, the values and whatever else is ``added``, B×H×N×D each, of all columns."""
    found, end, buffer = [], paths.columns, cache.read(state)
    stored: Buffer = {}
    for name, x in added.items():
        new = paths.fold(x)
        first, whole = end - new.size(2), buffer.get(name)
        if whole is None or whole.size(2) < end:
            larger = x.new_empty(*new.shape[:2], max(2 * end, LEAST), new.size(3))
            if whole is not None:
                larger[:, :, :first] = whole[:, :, :first]
            whole = larger
        whole[:, :, first:end] = new
        stored[name] = whole
        found.append(whole[:, :, :end])
    cache.write(state, stored)
    return found


def keep_columns(cache: KeyCache, state: IncrementalState, columns: Tensor) -> None:
    """Keep the columns B×M of a cache alone, in this order."""
    buffer = cache.read(state)
    for name, whole in buffer.items():
        assert whole is not None
        sentences, heads, room, _ = whole.shape
        groups = torch.arange(sentences * heads, device=whole.device).view(sentences, heads, 1) * room
        rows = (groups + columns[:, None]).flatten()
        buffer[name] = whole.flatten(0, 2).index_select(0, rows).unflatten(0, (sentences, heads, -1))
