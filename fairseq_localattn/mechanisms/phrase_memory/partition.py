"""Partitions of sentences into phrases, as tensors.

A partition is given by the **lengths** of its phrases in order, B×G×P, with 0 where there is no phrase. Lengths do not
count padding, so they do not depend on the side where a sentence is padded.

Shapes: B sentences of T tokens, G granularities (n-gram lengths, or levels of a tree), at most P phrases per sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from ...errors import UsageError

DENSE_UP_TO = 512  # words of a sentence, beyond which matrices of words and phrases take much memory


@dataclass(frozen=True)
class PhraseRows:
    """Indices that pair each word with its phrase: one entry for each (head, sentence, token), H·B·T in all.

    Entries of one phrase are adjacent (:mod:`reductions`). Those of padding hold any valid index.

    Args:
        word, each_word: H·B·T, the word's row in a matrix of B·T rows, and in one of B·T·H rows.
        phrase: H·B·T, the phrase's row in a matrix of H·B·P rows.
        real: H·B·T, True = a word, False = padding.
        offsets: H·B·P, the first entry of each phrase.
    """

    word: Tensor
    each_word: Tensor
    phrase: Tensor
    real: Tensor
    offsets: Tensor


@dataclass(frozen=True)
class PhraseHalves:
    """Two overlapping runs of 2^k tokens that cover each phrase, so that its maximum is the larger of two maxima.

    Args:
        first, second: H·B·P, rows in the table of maxima over 1, 2, 4, … tokens (one level for each power).
        empty: H·B·P, True = no phrase.
    """

    first: Tensor
    second: Tensor
    empty: Tensor


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
    _selected: dict[tuple[int, ...], Partition] = field(default_factory=dict, repr=False, compare=False)

    @property
    def count(self) -> int:
        """P, the greatest number of phrases of a sentence."""
        return self.lengths.size(-1)

    @cached_property
    def hidden(self) -> Tensor:
        """B×G×P, True = no phrase."""
        return self.lengths.eq(0)

    @cached_property
    def padding(self) -> Tensor:
        """B×T, True = padding."""
        return self.index[:, 0].eq(self.count)

    @property
    def start(self) -> Tensor:
        """B, the first real token of each sentence; T without one."""
        return self.padding.cumprod(dim=-1).sum(dim=-1)

    @property
    def dense(self) -> bool:
        """Whether words and phrases are multiplied as dense matrices: fewer operations, on a GPU, up to some length."""
        return self.index.device.type != "cpu" and self.index.size(-1) <= DENSE_UP_TO

    @cached_property
    def outside(self) -> Tensor:
        """B×H×P×T, True = the word is not in the phrase; computed once for all layers."""
        return self.index[:, :, None].ne(torch.arange(self.count, device=self.index.device)[:, None])

    @property
    def levels(self) -> int:
        """The number of powers of two up to the length of the longest phrase."""
        return max(1, min(self.longest or self.index.size(-1), self.index.size(-1))).bit_length()

    def of(self, granularities: Sequence[int]) -> Partition:
        """Return the partition of the listed granularities, in this order, with repetitions; made once."""
        key = tuple(granularities)
        if key not in self._selected:
            self._selected[key] = Partition(choose(self.index, key), choose(self.lengths, key), self.longest)
        return self._selected[key]

    def prepare(self, granularities: Sequence[int]) -> None:
        """Compute the indices and masks for heads of these granularities now, if they are dense; they are stored."""
        own = self.of(granularities)
        if own.dense:
            _ = own.hidden, own.halves, own.phrase, own.outside

    @cached_property
    def places(self) -> Tensor:
        """G×B×P, the place of each phrase's first token in its sentence; T or less."""
        lengths = self.lengths.transpose(0, 1)
        return self.start.clamp(max=self.index.size(-1) - 1)[:, None] + lengths.cumsum(-1) - lengths

    @cached_property
    def phrase(self) -> Tensor:
        """G·B·T, the row of each token's phrase among G·B·P; of padding, any."""
        batch, heads, _ = self.index.shape
        first = torch.arange(heads * batch, device=self.index.device).view(heads, batch, 1) * self.count
        return (first + self.index.transpose(0, 1).clamp(max=self.count - 1)).flatten()

    @cached_property
    def halves(self) -> PhraseHalves:
        """The halves of phrases, of which maxima are made."""
        batch, _, length = self.index.shape
        device, lengths = self.index.device, self.lengths.transpose(0, 1)
        # The level of a phrase of n tokens is the greatest k with 2^k <= n.
        powers = 2 ** torch.arange(self.levels, device=device)
        level = (lengths[..., None].ge(powers).sum(-1) - 1).clamp(min=0)
        row = torch.arange(batch, device=device)[:, None] * length + self.places.clamp(max=length - 1)
        first = (level * (batch * length) + row).flatten()
        second = first + (lengths - powers[level]).clamp(min=0).flatten()
        return PhraseHalves(first, second, empty=lengths.eq(0).flatten())

    @cached_property
    def rows(self) -> PhraseRows:
        """The rows that belong together; computed once for all layers."""
        batch, heads, length = self.index.shape
        device = self.index.device
        sentence = torch.arange(batch, device=device)[:, None]
        head = torch.arange(heads, device=device)[:, None, None]
        real, start = self.index.transpose(0, 1).ne(self.count), self.start.clamp(max=length - 1)[:, None]
        word = torch.where(real, torch.arange(length, device=device), start) + sentence * length
        offsets = (self.places + (head * batch + sentence) * length).flatten()
        offsets[:1] = 0  # what comes before are entries of padding, whose weights are 0
        return PhraseRows(
            word=word.flatten(),
            each_word=(word * heads + head).flatten(),
            phrase=self.phrase,
            real=real.flatten(),
            offsets=offsets,
        )


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


def partition_of_batch(
    padding: Tensor, granularities: Sequence[int], phrases: Tensor | None, *, of_trees: bool
) -> Partition:
    """Return the phrases of a batch by granularity.

    Args:
        padding: B×T, True = padding.
        granularities: n of n-grams, or levels of a tree from 1; ascending.
        phrases: B×K×P, the lengths in tokens of the phrases on each of K levels, </s> included; 0 = no phrase.
        of_trees: phrases are those of trees, not n-grams.

    Raises UsageError where phrases are needed and missing, or (on the CPU) do not cover their sentence.
    """
    if not of_trees:
        return partition_of(ngram_lengths(padding, granularities), padding, longest=max(granularities))
    if phrases is None:
        raise UsageError(
            "this model needs the phrases of each sentence, and got none: they come from data with trees, by "
            "--task translation_with_phrases"
        )
    lengths = choose(phrases, [level - 1 for level in granularities])
    if padding.device.type == "cpu" and (lengths.sum(dim=-1) != (~padding).sum(dim=-1, keepdim=True)).any():
        raise UsageError("the phrases do not cover the words of their sentence: they are those of another text")
    return partition_of(lengths, padding)


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
