"""Batches of random sentence pairs, cut, padded and collated by fairseq's own code.

Lengths include </s>. The lengths of sources are log-normal with mean 27 (σ of the logarithm 0.6), from 4 to 100; that
of a target is its source's times a normal factor with standard deviation 15 %, within the same bounds. Words are
uniform. Trees have three random levels: constituents of 1 to 3 words, of 1 to 3 constituents of the first level, and of
1 to 3 of the second.

Batches are cut from a whole corpus, sorted by both lengths as fairseq sorts it. The size of the corpus matters: among
more pairs, more have equal lengths, so batches have less padding.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import torch
from fairseq import utils
from fairseq.data import Dictionary, LanguagePairDataset, data_utils
from torch import Tensor

from fairseq_localattn.errors import UsageError
from fairseq_localattn.phrases.dataset import Levels, PhrasePairDataset

from .settings import SEED

Sample = dict[str, Any]  # a batch as fairseq's tasks hand it to a model and criterion

MEAN, SPREAD, SHORTEST, LONGEST = 27, 0.6, 4, 100
TARGET_SPREAD = 0.15
MULTIPLE = 8  # fairseq's --required-batch-size-multiple
LEVELS = 3  # levels of the trees
LARGEST_GROUP = 3  # most parts of a constituent


def draw_lengths(sentences: int) -> np.ndarray:
    """Draw the lengths of sources and targets, N×2, sorted as fairseq sorts a training set."""
    generator = np.random.default_rng(SEED)
    source = generator.lognormal(math.log(MEAN) - SPREAD**2 / 2, SPREAD, sentences)
    target = source * generator.normal(1, TARGET_SPREAD, sentences)
    lengths = np.stack([source, target], axis=1).round().clip(SHORTEST, LONGEST).astype(np.int64)
    return lengths[np.lexsort((lengths[:, 1], lengths[:, 0]))]


def cut_batches(lengths: np.ndarray, tokens: int) -> list[np.ndarray]:
    """Cut sorted pairs into batches of at most ``tokens`` padded tokens per side, as fairseq cuts them.

    Returns the rows of each batch, a multiple of 8 or fewer than 8. The last batch, which may be short, is left out.
    """
    longer = lengths.max(axis=1)
    places = np.arange(len(lengths))
    batches = data_utils.batch_by_size(
        places, None, num_tokens_vec=longer, max_tokens=tokens, required_batch_size_multiple=MULTIPLE
    )
    return [np.asarray(batch) for batch in batches[:-1]]


def choose_batches(count: int, warm_up: int, rounds: int) -> list[int]:
    """Choose from ``count`` batches, sorted by length, one for each warm-up and each round.

    The warm-up takes the longest batches first. The rounds take quantiles of the lengths, shuffled, so that the order
    of the systems does not depend on the length. Raises ValueError for fewer batches than rounds.
    """
    if count < rounds:
        raise ValueError(f"{count} batches for {rounds} rounds")
    warm = [max(0, count - 1 - count * number // max(1, warm_up)) for number in range(warm_up)]
    timed = [count * (2 * number + 1) // (2 * rounds) for number in range(rounds)]
    random.Random(SEED).shuffle(timed)
    return [*warm, *timed]


class Batches:
    """Batches of random words of a joined dictionary, with phrases and their tags."""

    def __init__(self, words: Dictionary, tags: Dictionary) -> None:
        self.words, self.tags = words, tags

    def training(self, tokens: int, pairs: int, warm_up: int, rounds: int) -> list[Sample]:
        """Return one batch per round, of at most ``tokens`` padded tokens per side, from a corpus of ``pairs`` pairs.

        Raises UsageError if there are fewer batches than rounds.
        """
        lengths = draw_lengths(pairs)
        batches = cut_batches(lengths, tokens)
        if len(batches) < rounds:
            raise UsageError(f"--pairs {pairs}: {len(batches)} batches for {rounds} rounds: give more pairs")
        return [self._collate(lengths[batches[at]], at) for at in choose_batches(len(batches), warm_up, rounds)]

    def sentences(self, sentences: int, warm_up: int, rounds: int) -> list[Sample]:
        """Return one batch per round, of a number of sentences of about the same length."""
        lengths = draw_lengths(4 * (warm_up + rounds) * sentences)
        batches = np.split(lengths, len(lengths) // sentences)
        return [self._collate(batches[at], at) for at in choose_batches(len(batches), warm_up, rounds)]

    def equal(self, length: int, sentences: int, batches: int) -> list[Sample]:
        """Return batches of pairs whose sides all have ``length`` tokens."""
        lengths = np.full((sentences, 2), length)
        return [self._collate(lengths, at) for at in range(batches)]

    def _collate(self, lengths: np.ndarray, seed: int) -> Sample:
        """Return a batch of random pairs with these lengths, B×2."""
        generator = random.Random(seed)
        random_words = torch.Generator().manual_seed(seed)
        source, target = (
            [random_sentence(self.words, n, random_words) for n in column] for column in lengths.T.tolist()
        )
        pairs = LanguagePairDataset(
            source,
            lengths[:, 0],
            self.words,
            tgt=target,
            tgt_sizes=lengths[:, 1],
            tgt_dict=self.words,
            left_pad_source=True,
            shuffle=False,
        )
        phrases = [random_phrases(self.tags, n - 1, generator) for n in lengths[:, 0].tolist()]
        data = PhrasePairDataset(pairs, phrases, self.tags)
        return data.collater([data[at] for at in range(len(lengths))])


def random_sentence(words: Dictionary, length: int, generator: torch.Generator) -> Tensor:
    """Return a sentence of so many tokens, </s> included."""
    numbers = torch.randint(words.nspecial, len(words), (length - 1,), generator=generator)
    return torch.cat([numbers, torch.tensor([words.eos()])])


def random_phrases(tags: Dictionary, words: int, generator: random.Random) -> Levels:
    """Return random partitions of a sentence on :data:`LEVELS` nested levels, the coarsest first."""
    levels, parts = [], [1] * words
    for _ in range(LEVELS):
        parts = _group(parts, generator)
        drawn = [generator.randrange(tags.nspecial, len(tags)) for _ in parts]
        levels.append((torch.tensor(parts), torch.tensor(drawn)))
    return levels[::-1]


def _group(parts: list[int], generator: random.Random) -> list[int]:
    """Join neighbouring parts at random, up to :data:`LARGEST_GROUP` of them, and return the new lengths."""
    joined, at = [], 0
    while at < len(parts):
        count = generator.randint(1, LARGEST_GROUP)
        joined.append(sum(parts[at : at + count]))
        at += count
    return joined


def for_model(sample: Sample, phrases: bool, device: torch.device) -> Sample:
    """Move a batch to the device, without phrases and tags for a model that takes none."""
    moved: Sample = utils.apply_to_sample(lambda tensor: tensor.to(device), sample)
    if not phrases:
        moved.pop("phrase_tags", None)
        moved["net_input"].pop("src_phrases", None)
    return moved


def some_rows(sample: Sample, count: int) -> Sample:
    """Return a batch with at most ``count`` of its sentences, chosen evenly, padded to the same length."""
    total = sample["nsentences"]
    rows = torch.tensor([total * n // min(count, total) for n in range(min(count, total))])
    some = utils.apply_to_sample(lambda tensor: tensor.index_select(0, rows), sample)
    return {**some, "nsentences": len(rows), "ntokens": int(some["target"].ne(Dictionary().pad()).sum())}
