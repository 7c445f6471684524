"""Batches of random sentence pairs, cut, padded and collated by fairseq's own code.

Lengths, </s> included: a source has a log-normal number of tokens with mean 27 (σ of the logarithm 0.6), from 4 to 100;
its target 15 % more or fewer (normal), within the same bounds. Words are uniform. Trees have three levels of
constituents at random: of 1 to 3 words; of 1 to 3 of those; of 1 to 3 of those.

Batches are cut from a whole corpus, sorted by both lengths as fairseq sorts it. Its size matters: the more pairs there
are, the more of them have the same lengths, and the less of a batch is padding.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, LanguagePairDataset, data_utils
from torch import Tensor

from fairseq_localattn.errors import UsageError
from fairseq_localattn.phrases.dataset import Levels, PhrasePairDataset

from .settings import SEED

Sample = dict[str, Any]  # a batch as fairseq's tasks hand it to a model and criterion

MEAN, SPREAD, SHORTEST, LONGEST = 27, 0.6, 4, 100
TARGET_SPREAD = 0.15
MULTIPLE = 8  # of the sentences of a batch: fairseq's --required-batch-size-multiple
LEVELS = 3  # of the trees
LARGEST_GROUP = 3  # constituents of a constituent


def draw_lengths(sentences: int, seed: int = SEED) -> np.ndarray:
    """Tokens of sources and targets: N×2, sorted as fairseq sorts a training set."""
    generator = np.random.default_rng(seed)
    source = generator.lognormal(math.log(MEAN) - SPREAD**2 / 2, SPREAD, sentences)
    target = source * generator.normal(1, TARGET_SPREAD, sentences)
    lengths = np.stack([source, target], axis=1).round().clip(SHORTEST, LONGEST).astype(np.int64)
    return lengths[np.lexsort((lengths[:, 1], lengths[:, 0]))]


def cut(lengths: np.ndarray, tokens: int) -> list[np.ndarray]:
    """Stretches of at most ``tokens`` padded tokens on either side: the rows of each batch, as fairseq cuts them.

    Sentences of a batch are a multiple of 8 in number, or fewer. The last one, which ends where the sentences do, is
    left out.
    """
    longer = lengths.max(axis=1)
    places = np.arange(len(lengths))
    batches = data_utils.batch_by_size(
        places, None, num_tokens_vec=longer, max_tokens=tokens, required_batch_size_multiple=MULTIPLE
    )
    return [np.asarray(batch) for batch in batches[:-1]]


def spread(count: int, warm_up: int, rounds: int) -> list[int]:
    """Which of ``count`` batches, sorted by length, the rounds take: first ``warm_up``, from the longest down.

    The others are quantiles, shuffled: a round's place in the rotation has nothing to do with its length. Raises
    ValueError for fewer batches than rounds.
    """
    if count < rounds:
        raise ValueError(f"{count} batches for {rounds} rounds")
    warm = [max(0, count - 1 - count * number // max(1, warm_up)) for number in range(warm_up)]
    timed = [count * (2 * number + 1) // (2 * rounds) for number in range(rounds)]
    random.Random(SEED).shuffle(timed)
    return [*warm, *timed]


class Batches:
    """Makes batches of random words of a joined dictionary, with phrases and their tags."""

    def __init__(self, words: Dictionary, tags: Dictionary) -> None:
        self.words, self.tags = words, tags

    def training(self, tokens: int, pairs: int, warm_up: int, rounds: int) -> list[Sample]:
        """One batch a round, of at most ``tokens`` padded tokens a side, from a corpus of ``pairs`` sentence pairs.

        Raises UsageError where there are fewer batches than rounds.
        """
        lengths = draw_lengths(pairs)
        stretches = cut(lengths, tokens)
        if len(stretches) < rounds:
            raise UsageError(f"--pairs {pairs}: {len(stretches)} batches for {rounds} rounds: give more pairs")
        return [self._collate(lengths[stretches[at]], at) for at in spread(len(stretches), warm_up, rounds)]

    def sentences(self, sentences: int, warm_up: int, rounds: int) -> list[Sample]:
        """One batch a round, of this many sentences of about the same length."""
        lengths = draw_lengths(4 * (warm_up + rounds) * sentences)
        stretches = np.split(lengths, len(lengths) // sentences)
        return [self._collate(stretches[at], at) for at in spread(len(stretches), warm_up, rounds)]

    def _collate(self, lengths: np.ndarray, seed: int) -> Sample:
        """A batch of random pairs with these lengths, B×2."""
        generator = random.Random(seed)
        random_words = torch.Generator().manual_seed(seed)
        source, target = ([self._sentence(n, random_words) for n in side] for side in lengths.T.tolist())
        pairs = LanguagePairDataset(
            source, lengths[:, 0], self.words, target, lengths[:, 1], self.words, left_pad_source=True, shuffle=False
        )
        phrases = [self._phrases(n - 1, generator) for n in lengths[:, 0].tolist()]
        data = PhrasePairDataset(pairs, phrases, self.tags)
        return data.collater([data[at] for at in range(len(lengths))])

    def _sentence(self, length: int, generator: torch.Generator) -> Tensor:
        words = torch.randint(self.words.nspecial, len(self.words), (length - 1,), generator=generator)
        return torch.cat([words, torch.tensor([self.words.eos()])])

    def _phrases(self, words: int, generator: random.Random) -> Levels:
        """Partitions of a sentence on :data:`LEVELS` levels, the coarsest first, each within the one before."""
        levels, parts = [], [1] * words
        for _ in range(LEVELS):
            parts = _group(parts, generator)
            tags = [generator.randrange(self.tags.nspecial, len(self.tags)) for _ in parts]
            levels.append((torch.tensor(parts), torch.tensor(tags)))
        return levels[::-1]


def _group(parts: list[int], generator: random.Random) -> list[int]:
    """Lengths of neighbours joined at random, up to :data:`LARGEST_GROUP` of them."""
    joined, at = [], 0
    while at < len(parts):
        count = generator.randint(1, LARGEST_GROUP)
        joined.append(sum(parts[at : at + count]))
        at += count
    return joined


def for_model(sample: Sample, phrases: bool, device: torch.device) -> Sample:
    """The batch on the device; without phrases and tags for a model that takes none."""
    without = () if phrases else ("src_phrases", "phrase_tags")

    def moved(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: moved(each) for key, each in value.items() if key not in without}
        return value.to(device) if isinstance(value, Tensor) else value

    return moved(sample)


def some_rows(sample: Sample, count: int) -> Sample:
    """The batch with about ``count`` of its sentences, evenly chosen, and as much padding as before."""
    total = sample["nsentences"]
    rows = torch.tensor([total * n // min(count, total) for n in range(min(count, total))])

    def chosen(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: chosen(each) for key, each in value.items()}
        return value.index_select(0, rows) if isinstance(value, Tensor) else value

    some = chosen(sample)
    return {**some, "nsentences": len(rows), "ntokens": int(some["target"].ne(Dictionary().pad()).sum())}
