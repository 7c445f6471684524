"""Maxima, dot products, softmax and weighted sums over the tokens of each phrase.

Words and phrases are rows of matrices here, so that no tensor with a channel for each head and token is needed: words
in the order of B×T, phrases in that of H×B×P. Entry (h, b, t) pairs the word t of sentence b with its phrase in head h.
H is the number of granularities of the partition, which may be selected for heads. Everything with an own backward pass
is differentiable once.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...kernels.dense import scaled_scores
from ...kernels.masks import at_least_fp32, lowest_score, normalise
from ...kernels.once import once_differentiable
from .partition import Partition


def _collect(words: Tensor, weights: Tensor, partition: Partition, each: bool = False) -> Tensor:
    """Sum weighted rows of words over each phrase: R×D and (H·B·T) → (H·B·P)×D; a phrase without words is 0.

    ``each``: words have a row for each head, (B·T·H)×D, and not B·T rows.
    """
    rows = partition.rows
    index = rows.each_word if each else rows.word
    return F.embedding_bag(index, words, rows.offsets, mode="sum", per_sample_weights=weights)


def _spread(phrases: Tensor, weights: Tensor, partition: Partition, each: bool = False) -> Tensor:
    """Sum the weighted phrases of each word: (H·B·P)×D and (H·B·T) → (B·T)×D, or of ``each`` head (B·T·H)×D."""
    heads = partition.index.size(1)
    by_word = [x.view(heads, -1).t().reshape(-1, 1 if each else heads) for x in (partition.rows.phrase, weights)]
    return F.embedding_bag(by_word[0], phrases, mode="sum", per_sample_weights=by_word[1])


def _dots(words: Tensor, phrases: Tensor, partition: Partition, each: bool = False) -> Tensor:
    """Return the dot product of each word with its phrase: (B·T)×D, or (B·T·H)×D, and (H·B·P)×D → (H·B·T)."""
    rows = partition.rows
    index = rows.each_word if each else rows.word
    return torch.ops.aten._embedding_bag_per_sample_weights_backward(
        phrases, words, index, rows.offsets, rows.phrase, 0, -1
    )


class _Sums(torch.autograd.Function):
    """Weighted sums of the words of each phrase."""

    @staticmethod
    def forward(ctx: Any, words: Tensor, weights: Tensor, partition: Partition) -> Tensor:
        ctx.save_for_backward(words, weights)
        ctx.partition = partition
        return _collect(words, weights, partition)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        words, weights = ctx.saved_tensors
        gradient = gradient.contiguous()
        return _spread(gradient, weights, ctx.partition), _dots(words, gradient, ctx.partition), None


class _Scores(torch.autograd.Function):
    """Dot products of each word's keys, by head, with the query of its phrase."""

    @staticmethod
    def forward(ctx: Any, keys: Tensor, queries: Tensor, partition: Partition) -> Tensor:
        ctx.save_for_backward(keys, queries)
        ctx.partition = partition
        return _dots(keys, queries, partition, each=True)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        keys, queries = ctx.saved_tensors
        by_keys = _spread(queries, gradient, ctx.partition, each=True)
        return by_keys, _collect(keys, gradient, ctx.partition, each=True), None


class _Maxima(torch.autograd.Function):
    """Maximum of each channel over each phrase; words with equal maxima share its gradient."""

    @staticmethod
    def forward(ctx: Any, words: Tensor, partition: Partition) -> Tensor:
        batch, _, length = partition.index.shape
        # Level k has the maxima of 2^k words from each on. A phrase is covered by two of them, which may overlap.
        levels = words.new_empty(partition.levels, batch, length, words.size(-1))
        levels[0] = words.view_as(levels[0])
        for level, wider in enumerate(levels[1:]):
            width = 2**level
            torch.maximum(levels[level][:, :-width], levels[level][:, width:], out=wider[:, :-width])
        halves = partition.halves
        found = levels.flatten(0, 2).index_select(0, halves.first)
        torch.maximum(found, levels.flatten(0, 2).index_select(0, halves.second), out=found)
        found.masked_fill_(halves.empty[:, None], 0)
        ctx.save_for_backward(words, found)
        ctx.partition = partition
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        words, found = ctx.saved_tensors
        if ctx.partition.dense:
            return _spread_maxima(words, found, gradient, ctx.partition), None
        by_words = torch.zeros_like(words)
        for place in range(ctx.partition.index.size(1)):
            alone = ctx.partition.of((place,))
            phrase, count = alone.phrase, len(alone.rows.offsets)
            part = slice(place * count, (place + 1) * count)
            largest = torch.eq(words, found[part].index_select(0, phrase), out=torch.empty_like(words))
            ties = _collect(largest, alone.rows.real.to(words.dtype), alone).clamp_(min=1)
            by_words.addcmul_(largest, (gradient[part] / ties).index_select(0, phrase))
        return by_words.masked_fill_(~ctx.partition.of((0,)).rows.real[:, None], 0), None


def _spread_maxima(words: Tensor, found: Tensor, gradient: Tensor, partition: Partition) -> Tensor:
    """Return the gradient of :class:`_Maxima` by dense products, (B·T)×C from (B·T)×C and twice (H·B·P)×C."""
    batch, heads, length = partition.index.shape
    spread = found.index_select(0, partition.phrase).view(heads, batch, length, -1)
    largest = torch.eq(words.view(batch, length, -1), spread, out=torch.empty_like(spread))
    inside = (~partition.outside).to(words.dtype).transpose(0, 1)
    ties = torch.matmul(inside, largest).clamp_(min=1)
    shares = (gradient.view_as(ties) / ties).flatten(0, 2).index_select(0, partition.phrase).view_as(largest)
    by_words = largest.mul_(shares).sum(dim=0)
    return by_words.masked_fill_(partition.padding[..., None], 0).flatten(0, 1)


def attend_in_phrases(x: Tensor, keys: Tensor, queries: Tensor, partition: Partition, *, scaling: float) -> Tensor:
    """Attend with each phrase's query to its own words, by dense products.

    x: B×T×C, keys B×H×T×D and queries B×H×P×D → B×H×P×C. Places without a phrase get finite numbers of no meaning.
    """
    scores = scaled_scores(queries, keys, scaling)
    weights = normalise(scores.masked_fill(partition.outside, lowest_score(scores.dtype)))
    return torch.bmm(weights.to(x.dtype).flatten(1, 2), x).unflatten(1, weights.shape[1:3])


def pool_phrases(x: Tensor, partition: Partition) -> Tensor:
    """Compute the maximum of each channel over each phrase: B×T×C → B×H×P×C; 0 = no phrase."""
    batch, heads, _ = partition.index.shape
    pooled = _Maxima.apply(x.reshape(-1, x.size(-1)), partition)
    return pooled.view(heads, batch, partition.count, -1).transpose(0, 1)


def score_in_phrases(keys: Tensor, queries: Tensor, partition: Partition) -> Tensor:
    """Compute the dot product of each word with its phrase, in at least fp32: B×H×T×D and B×H×P×D → B×H×T.

    Scores of padding have no meaning.
    """
    batch, heads, length, _ = keys.shape
    dtype = at_least_fp32(keys.dtype)  # products of large factors leave the range of fp16
    by_word = keys.permute(0, 2, 1, 3).flatten(0, 2).to(dtype)
    by_phrase = queries.transpose(0, 1).flatten(0, 2).to(dtype)
    return _Scores.apply(by_word, by_phrase, partition).view(heads, batch, length).transpose(0, 1)


def normalise_in_phrases(scores: Tensor, partition: Partition) -> Tensor:
    """Compute the softmax over the tokens of each phrase in at least fp32: B×H×T → B×H×T; padding gets 0."""
    scores = scores.to(at_least_fp32(scores.dtype))
    index, buckets = partition.index, partition.count + 1
    # Subtracting a phrase's largest score does not change its weights, and avoids an overflow of the exponentials.
    largest = scores.new_zeros(*index.shape[:2], buckets)
    largest = largest.scatter_reduce(2, index, scores.detach(), "amax", include_self=False)
    exponentials = (scores - largest.gather(2, index)).exp()
    sums = scores.new_zeros(*index.shape[:2], buckets).scatter_add(2, index, exponentials)
    return (exponentials / sums.gather(2, index)).masked_fill(index.eq(partition.count), 0.0)


def sum_phrases(x: Tensor, weights: Tensor, partition: Partition) -> Tensor:
    """Compute weighted sums over each phrase, in at least fp32: B×T×C and weights B×H×T → B×H×P×C in x's precision.

    The weights of padding must be 0.
    """
    batch, heads, _ = weights.shape
    dtype = at_least_fp32(x.dtype)
    sums = _Sums.apply(x.reshape(-1, x.size(-1)).to(dtype), weights.transpose(0, 1).flatten().to(dtype), partition)
    return sums.view(heads, batch, partition.count, -1).transpose(0, 1).to(x.dtype)


def last_tokens(values: Tensor, partition: Partition) -> Tensor:
    """Return the values of each phrase's last token: B×H×T×C → B×H×P×C; 0 = no phrase."""
    last = partition.start[:, None, None] + partition.lengths.cumsum(-1) - 1
    last = last.clamp(0, values.size(2) - 1)[..., None].expand(-1, -1, -1, values.size(-1))
    return values.gather(2, last).masked_fill(partition.hidden[..., None], 0.0)


def first_tokens(partition: Partition) -> Tensor:
    """Return B×H×T, True = the token is the first of its phrase, or of a run of padding."""
    is_first = torch.ones_like(partition.index, dtype=torch.bool)
    is_first[..., 1:] = partition.index[..., 1:] != partition.index[..., :-1]
    return is_first
