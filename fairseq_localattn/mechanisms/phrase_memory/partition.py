"""Partitions of sentences into phrases, as tensors, and reductions over the tokens of each phrase.

A partition is given by the **lengths** of its phrases in order, B×G×P, with 0 where there is no phrase. Lengths do not
count padding, so they do not depend on the side where a sentence is padded.

Shapes: B sentences of T tokens, G granularities (n-gram lengths, or levels of a tree), at most P phrases per sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Partition:
    """The phrases of a batch.

    Args:
        index: B×G×T, the phrase of each token; P for padding.
        lengths: B×G×P, tokens of each phrase; 0 = no phrase.
        longest: an upper bound of ``lengths`` if one is known without reading the tensors, else None.
    """

    index: Tensor
    lengths: Tensor
    longest: int | None = None

    @property
    def count(self) -> int:
        """P, the greatest number of phrases of a sentence."""
        return self.lengths.size(-1)

    @property
    def hidden(self) -> Tensor:
        """B×G×P, True = no phrase."""
        return self.lengths.eq(0)

    def of(self, granularities: Sequence[int]) -> Partition:
        """Return the partition of the listed granularities, in this order, with repetitions."""
        return Partition(choose(self.index, granularities), choose(self.lengths, granularities), self.longest)


def choose(values: Tensor, places: Sequence[int]) -> Tensor:
    """Select the listed places of the second dimension: B×G×… → B×H×…

    Indexing by a list would copy the list to the GPU and synchronise.
    """
    if tuple(places) == tuple(range(values.size(1))):
        return values
    return torch.stack([values[:, place] for place in places], dim=1)


def ngram_lengths(padding: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the lengths B×G×P of adjacent n-grams from the first real token on; the last n-gram may be shorter.

    Args:
        padding: B×T, True = padding.
        sizes: the n of each granularity, at least 1.
    """
    length = padding.size(1)
    real = length - padding.sum(dim=1, keepdim=True)  # B×1
    phrases = torch.arange(max(1, -(-length // min(sizes))), device=padding.device)
    return torch.stack([(real - n * phrases).clamp(0, n) for n in sizes], dim=1)


def partition_of(lengths: Tensor, padding: Tensor, longest: int | None = None) -> Partition:
    """Return the partition of sentences with ``padding`` (B×T, True = padding) into phrases of ``lengths`` (B×G×P).

    The lengths of each granularity must add up to the number of real tokens; this is not checked here.
    """
    place = (~padding).cumsum(dim=1) - 1  # position of each real token in its sentence
    ends = lengths.cumsum(dim=-1)
    places = place[:, None].expand(-1, lengths.size(1), -1).contiguous()
    index = torch.searchsorted(ends, places, right=True)
    return Partition(index.masked_fill(padding[:, None], lengths.size(-1)), lengths, longest)


def project_heads(x: Tensor, weight: Tensor) -> Tensor:
    """Multiply each head by its own matrix: x B×H×P×C (or 1 for H) and weight H×C×O → B×H×P×O.

    ``matmul`` would copy the weights for each sentence. In fp16 products beyond its range are its largest numbers: an
    infinite one would be NaN after a softmax, or times 0.
    """
    return _finite(_multiply_heads(x, weight))


def _finite(x: Tensor) -> Tensor:
    largest = torch.finfo(torch.float16).max
    return x.clamp(-largest, largest) if x.dtype == torch.float16 else x


def _multiply_heads(x: Tensor, weight: Tensor) -> Tensor:
    heads, channels, outputs = weight.shape
    batch, _, places, _ = x.shape
    if x.size(1) == 1:
        joined = torch.matmul(x[:, 0], weight.transpose(0, 1).reshape(channels, heads * outputs))
        return joined.view(batch, places, heads, outputs).transpose(1, 2)
    flat = x.transpose(0, 1).reshape(heads, batch * places, channels)
    return torch.bmm(flat, weight).view(heads, batch, places, outputs).transpose(0, 1)


# In the following functions, H is the number of granularities of the partition, which may be selected for heads.


def pool_phrases(values: Tensor, partition: Partition) -> Tensor:
    """Compute the maximum of each channel over each phrase: B×H×T×C (or 1 for H) → B×H×P×C; 0 = no phrase."""
    index = partition.index[..., None].expand(-1, -1, -1, values.size(-1))
    values = values.expand(-1, index.size(1), -1, -1)
    pooled = values.new_zeros(*index.shape[:2], partition.count + 1, values.size(-1))
    # The last bucket collects padding. An empty bucket stays 0.
    return pooled.scatter_reduce(2, index, values, "amax", include_self=False)[:, :, :-1]


def normalise_in_phrases(scores: Tensor, partition: Partition) -> Tensor:
    """Compute the softmax over the tokens of each phrase in at least fp32: B×H×T → B×H×T; padding gets 0."""
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    index, buckets = partition.index, partition.count + 1
    # Subtracting a phrase's largest score does not change its weights, and avoids an overflow of the exponentials.
    largest = scores.new_zeros(*index.shape[:2], buckets)
    largest = largest.scatter_reduce(2, index, scores.detach(), "amax", include_self=False)
    exponentials = (scores - largest.gather(2, index)).exp()
    sums = scores.new_zeros(*index.shape[:2], buckets).scatter_add(2, index, exponentials)
    return (exponentials / sums.gather(2, index)).masked_fill(index.eq(partition.count), 0.0)


def sum_phrases(values: Tensor, weights: Tensor, partition: Partition) -> Tensor:
    """Compute the weighted sum over each phrase: values B×H×T×C (or 1 for H), weights B×H×T → B×H×P×C."""
    index = partition.index[..., None].expand(-1, -1, -1, values.size(-1))
    weighted = values * weights[..., None].to(torch.promote_types(values.dtype, torch.float32))
    sums = weighted.new_zeros(*index.shape[:2], partition.count + 1, values.size(-1))
    return sums.scatter_add(2, index, weighted)[:, :, :-1].to(values.dtype)


def last_tokens(values: Tensor, partition: Partition) -> Tensor:
    """Return the values of each phrase's last token: B×H×T×C → B×H×P×C; 0 = no phrase."""
    is_last = torch.ones_like(partition.index, dtype=torch.bool)
    is_last[..., :-1] = partition.index[..., 1:] != partition.index[..., :-1]
    return sum_phrases(values, is_last.to(values.dtype), partition)


def first_tokens(partition: Partition) -> Tensor:
    """Return B×H×T, True = the token is the first of its phrase, or of a run of padding."""
    is_first = torch.ones_like(partition.index, dtype=torch.bool)
    is_first[..., 1:] = partition.index[..., 1:] != partition.index[..., :-1]
    return is_first
