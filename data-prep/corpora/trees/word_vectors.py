"""Word vectors from little text, for a tagger and a parser: a factorisation of words and their contexts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch

OFFSETS = (-2, -1, 1, 2)
CONTEXTS = 3000


def train_vectors(
    sentences: Sequence[Sequence[str]], dim: int, least: int = 2, seed: int = 1
) -> tuple[list[str], torch.Tensor]:
    """Return (words, vectors [words, dim]) of the lower-cased words that occur at least `least` times.

    Positive pointwise mutual information of a word and the CONTEXTS most frequent words at each of the OFFSETS around
    it, reduced by a truncated singular value decomposition (Levy and Goldberg, NIPS 2014). Their mean norm is
    sqrt(dim) / 3.
    """
    lower = [[word.lower() for word in sentence] for sentence in sentences]
    counts = Counter(word for sentence in lower for word in sentence)
    words = sorted((word for word, count in counts.items() if count >= least), key=lambda word: (-counts[word], word))
    index = {word: number for number, word in enumerate(words)}
    matrix = _mutual_information(_count(lower, index), len(words))
    rank = min(dim, *matrix.shape)
    torch.manual_seed(seed)
    left, values, _ = torch.svd_lowrank(matrix, q=min(rank + 20, *matrix.shape), niter=4)
    vectors = torch.zeros(len(words), dim)
    vectors[:, :rank] = left[:, :rank] * values[:rank].sqrt()
    return words, vectors * (dim**0.5 / 3 / vectors.norm(dim=1).mean().clamp_min(1e-9))


def _count(sentences: Sequence[Sequence[str]], index: dict[str, int]) -> Counter[tuple[int, int]]:
    """Return the frequency of each (word, number of offset and context word)."""
    pairs: Counter[tuple[int, int]] = Counter()
    for sentence in sentences:
        ids = [index.get(word, -1) for word in sentence]
        for position, word in enumerate(ids):
            if word < 0:
                continue
            for place, offset in enumerate(OFFSETS):
                near = position + offset
                context = ids[near] if 0 <= near < len(ids) else -1
                if 0 <= context < CONTEXTS:
                    pairs[word, place * CONTEXTS + context] += 1
    return pairs


def _mutual_information(pairs: Counter[tuple[int, int]], words: int) -> torch.Tensor:
    """Return the sparse matrix [words, offsets * CONTEXTS] of max(0, log P(w, c) / (P(w) P(c)^0.75))."""
    places = torch.tensor(list(pairs), dtype=torch.long).reshape(-1, 2).T
    counts = torch.tensor(list(pairs.values()), dtype=torch.float)
    columns = len(OFFSETS) * CONTEXTS
    of_word = torch.zeros(words).index_add_(0, places[0], counts)
    of_context = torch.zeros(columns).index_add_(0, places[1], counts) ** 0.75
    share = of_context / of_context.sum()
    values = (counts / (of_word[places[0]] * share[places[1]])).log().clamp_min(0)
    return torch.sparse_coo_tensor(places, values, (words, columns), check_invariants=True).coalesce()
