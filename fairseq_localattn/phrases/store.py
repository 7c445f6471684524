"""Packing of a sentence's phrases into one array of integers, an item of an indexed data set.

The array is ``[n, K, p_1 … p_K, lengths of level 1 … K, tags of level 1 … K]`` for n subwords without </s>, K levels
and p_k phrases on level k. The lengths are in subwords and sum to n on each level; the tags are indices of a fairseq
dictionary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

#: Levels that phrases may have; the deepest trees of treebanks have some dozens.
MOST_LEVELS = 1000
#: Lengths in subwords and tags of the phrases of one level.
NumberedLevel = tuple[Sequence[int], Sequence[int]]


def pack(levels: Sequence[NumberedLevel]) -> torch.IntTensor:
    """Return the array of a sentence's levels, (2 + K + 2 · Σ p_k,), int32.

    Raises ValueError without levels, for a number of tags other than that of phrases, a phrase without subwords, a
    negative tag, and levels with different numbers of subwords.
    """
    if not levels:
        raise ValueError("no level of phrases")
    total = sum(levels[0][0])
    for number, (lengths, tags) in enumerate(levels, 1):
        if len(lengths) != len(tags):
            raise ValueError(f"level {number} has {len(lengths)} phrases and {len(tags)} tags")
        if lengths and min(lengths) < 1:
            raise ValueError(f"level {number} has a phrase of {min(lengths)} subwords")
        if tags and min(tags) < 0:
            raise ValueError(f"level {number} has the tag {min(tags)}")
        if sum(lengths) != total:
            raise ValueError(f"level {number} has {sum(lengths)} subwords, level 1 has {total}")
    return torch.IntTensor(flat(levels))


def flat(levels: Sequence[NumberedLevel]) -> list[int]:
    """Return the numbers that :func:`pack` stores, without checks."""
    numbers = [sum(levels[0][0]), len(levels), *(len(lengths) for lengths, _ in levels)]
    for lengths, _ in levels:
        numbers.extend(lengths)
    for _, tags in levels:
        numbers.extend(tags)
    return numbers


def unpack(array: np.ndarray | torch.Tensor) -> tuple[int, list[tuple[np.ndarray, np.ndarray]]]:
    """Return n and (lengths, tags) of each level, as views of a packed array, (size,), of any integer type.

    Raises ValueError for inconsistent numbers: the data are damaged, or are not phrases.
    """
    numbers = array.numpy() if isinstance(array, torch.Tensor) else np.asarray(array)
    if numbers.ndim != 1 or numbers.size < 3 or numbers[0] < 0 or not 1 <= numbers[1] <= numbers.size - 2:
        raise ValueError(f"no packed phrases: {numbers.reshape(-1)[:8].tolist()} …")
    total, levels = int(numbers[0]), int(numbers[1])
    phrases = numbers[2 : 2 + levels]
    rest = numbers[2 + levels :]
    if (phrases < 0).any() or rest.size != 2 * int(phrases.sum()):
        raise ValueError(f"packed phrases of {rest.size} numbers, {phrases.tolist()} phrases need twice their sum")
    if (rest < 0).any():
        raise ValueError(f"packed phrases with a negative number: {int(rest.min())}")
    cuts = np.cumsum(phrases)[:-1]
    lengths, tags = (np.split(half, cuts) for half in np.split(rest, 2))
    for number, level in enumerate(lengths, 1):
        if int(level.sum()) != total or (level == 0).any():
            raise ValueError(f"level {number} of packed phrases has lengths {level.tolist()} for {total} subwords")
    return total, list(zip(lengths, tags, strict=True))
