"""Partitions of sentences into phrases, as tensors, and what is summed or pooled over each phrase.

Shapes: B sentences of T tokens, G granularities (n-gram lengths, or levels of a tree), P phrases a sentence at most.

A partition is given by the **lengths** of its phrases, B×G×P: the tokens of the first phrase, of the second, … , and 0
where there is no phrase. It says nothing of padding, so it is the same for a sentence padded on the left or the right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Partition:
    """The phrases of a batch.

    ``index``: B×G×T, the phrase that each token belongs to; P for padding. ``lengths``: B×G×P, 0 = no phrase.
    ``longest``: tokens of a phrase at most, where that is known without looking into the tensors.
    """

    index: Tensor
    lengths: Tensor
    longest: int | None = None

    @property
    def count(self) -> int:
        """P."""
        return self.lengths.size(-1)

    @property
    def hidden(self) -> Tensor:
        """B×G×P, True = there is no such phrase."""
        return self.lengths.eq(0)

    def of(self, granularities: Sequence[int]) -> Partition:
        """That of each of the listed granularities, in this order; the same one may come several times."""
        return Partition(choose(self.index, granularities), choose(self.lengths, granularities), self.longest)


def choose(values: Tensor, places: Sequence[int]) -> Tensor:
    """B×G×… → B×H×…, the listed ones of G. (Indexing by a list would copy it to the GPU, and wait.)"""
    if tuple(places) == tuple(range(values.size(1))):
        return values
    return torch.stack([values[:, place] for place in places], dim=1)


def ngram_lengths(padding: Tensor, sizes: Sequence[int]) -> Tensor:
    """Lengths B×G×P of the n-grams without overlap from the first real token on; the last one may be short.

    padding: B×T, True = padding. sizes: the n of each granularity, from 1.
    """
    length = padding.size(1)
    real = length - padding.sum(dim=1, keepdim=True)  # B×1
    phrases = torch.arange(max(1, -(-length // min(sizes))), device=padding.device)
    return torch.stack([(real - n * phrases).clamp(0, n) for n in sizes], dim=1)


def partition_of(lengths: Tensor, padding: Tensor, longest: int | None = None) -> Partition:
    """The partition with these lengths (B×G×P) of sentences with this ``padding`` (B×T, True = padding).

    The lengths of each granularity must add up to the real tokens of the sentence; who loads them checks that.
    """
    place = (~padding).cumsum(dim=1) - 1  # of each real token in its sentence
    ends = lengths.cumsum(dim=-1)
    places = place[:, None].expand(-1, lengths.size(1), -1).contiguous()
    index = torch.searchsorted(ends, places, right=True)
    return Partition(index.masked_fill(padding[:, None], lengths.size(-1)), lengths, longest)


def project_heads(x: Tensor, weight: Tensor) -> Tensor:
    """Each head by its own matrix: x B×H×P×C, or B×1×P×C for all heads, and weight H×C×O → B×H×P×O.

    ``matmul`` would make a copy of the weights for each sentence.
    """
    heads, channels, outputs = weight.shape
    batch, _, places, _ = x.shape
    if x.size(1) == 1:
        joined = torch.matmul(x[:, 0], weight.transpose(0, 1).reshape(channels, heads * outputs))
        return joined.view(batch, places, heads, outputs).transpose(1, 2)
    flat = x.transpose(0, 1).reshape(heads, batch * places, channels)
    return torch.bmm(flat, weight).view(heads, batch, places, outputs).transpose(0, 1)


# In what follows values have a dimension H: granularities, or heads, each with the granularity of its own partition.


def pool_phrases(values: Tensor, partition: Partition) -> Tensor:
    """The maximum over each phrase, by channel: B×H×T×C → B×H×P×C, 0 where there is no phrase.

    ``values`` may have 1 for H: the same for all.
    """
    index = partition.index[..., None].expand(-1, -1, -1, values.size(-1))
    values = values.expand(-1, index.size(1), -1, -1)
    pooled = values.new_zeros(*index.shape[:2], partition.count + 1, values.size(-1))
    # In a bucket of its own, the last, padding goes; a bucket that nothing goes into stays 0.
    return pooled.scatter_reduce(2, index, values, "amax", include_self=False)[:, :, :-1]


def normalise_in_phrases(scores: Tensor, partition: Partition) -> Tensor:
    """Softmax over the tokens of each phrase, in fp32 or better: B×H×T → B×H×T; padding gets 0."""
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    index, buckets = partition.index, partition.count + 1
    # The largest score of a phrase changes no weight; without it the exponentials may overflow.
    largest = scores.new_zeros(*index.shape[:2], buckets)
    largest = largest.scatter_reduce(2, index, scores.detach(), "amax", include_self=False)
    exponentials = (scores - largest.gather(2, index)).exp()
    sums = scores.new_zeros(*index.shape[:2], buckets).scatter_add(2, index, exponentials)
    return (exponentials / sums.gather(2, index)).masked_fill(index.eq(partition.count), 0.0)


def sum_phrases(values: Tensor, weights: Tensor, partition: Partition) -> Tensor:
    """The weighted sum over each phrase: values B×H×T×C (or 1 for H), weights B×H×T → B×H×P×C."""
    index = partition.index[..., None].expand(-1, -1, -1, values.size(-1))
    weighted = values * weights[..., None].to(torch.promote_types(values.dtype, torch.float32))
    sums = weighted.new_zeros(*index.shape[:2], partition.count + 1, values.size(-1))
    return sums.scatter_add(2, index, weighted)[:, :, :-1].to(values.dtype)


def last_tokens(values: Tensor, partition: Partition) -> Tensor:
    """The values of each phrase's last token: B×H×T×C → B×H×P×C; 0 where there is no phrase."""
    is_last = torch.ones_like(partition.index, dtype=torch.bool)
    is_last[..., :-1] = partition.index[..., 1:] != partition.index[..., :-1]
    return sum_phrases(values, is_last.to(values.dtype), partition)


def first_tokens(partition: Partition) -> Tensor:
    """B×H×T, True = the token begins a phrase (or padding)."""
    is_first = torch.ones_like(partition.index, dtype=torch.bool)
    is_first[..., 1:] = partition.index[..., 1:] != partition.index[..., :-1]
    return is_first
