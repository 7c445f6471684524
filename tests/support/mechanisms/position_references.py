"""Slow references of mechanisms that depend on distances, with loops, in float64. No code is shared with the package.

Each returns the attended values H×T×D of one sentence from q, k, v (H×T×D) and ``exists`` (T, False at padding).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

Pair = Callable[[int, int, int], Tensor]  # of head, query and key
Sees = Callable[[int, int, int], bool]


def attend(shape: torch.Size, logit: Pair, value: Pair, see: Sees) -> Tensor:
    """Compute the softmax over the keys that a query sees, times their values; zeros for a query that sees none."""
    heads, length, width = shape
    rows = []
    for h in range(heads):
        for i in range(length):
            keys = [j for j in range(length) if see(h, i, j)]
            if not keys:
                rows.append(torch.zeros(width, dtype=torch.float64))
                continue
            energies = torch.stack([logit(h, i, j) for j in keys])
            share = torch.exp(energies - energies.max())
            share = share / share.sum()
            rows.append(sum(a * value(h, i, j) for a, j in zip(share, keys, strict=True)))
    return torch.stack(rows).view(heads, length, width)


def real(exists: Tensor, causal: bool) -> Sees:
    """Return whether a key exists and, in the causal case, is not ahead."""
    return lambda h, i, j: bool(exists[j]) and not (causal and j > i)


def shaw(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    exists: Tensor,
    *,
    keys: Tensor,
    values: Tensor | None,
    distance: int,
    causal: bool,
) -> Tensor:
    """Compute Eq. 3-5 of Shaw et al. 2018. keys, values: (H or 1)×(2·distance+1)×D."""

    def row(table: Tensor, h: int, i: int, j: int) -> Tensor:
        return table[h if len(table) > 1 else 0, min(distance, max(-distance, j - i)) + distance]

    def logit(h: int, i: int, j: int) -> Tensor:
        return q[h, i] @ (k[h, j] + row(keys, h, i, j)) / math.sqrt(q.size(2))

    def value(h: int, i: int, j: int) -> Tensor:
        return v[h, j] if values is None else v[h, j] + row(values, h, i, j)

    return attend(q.shape, logit, value, real(exists, causal))


def biased(q: Tensor, k: Tensor, v: Tensor, exists: Tensor, *, bias: Pair, causal: bool) -> Tensor:
    """Compute attention whose scaled scores have ``bias(h, i, j)`` added."""
    scaled = q / math.sqrt(q.size(2))
    return attend(
        q.shape, lambda h, i, j: scaled[h, i] @ k[h, j] + bias(h, i, j), lambda h, i, j: v[h, j], real(exists, causal)
    )


def t5_bucket(distance: int, buckets: int, farthest: int, bidirectional: bool) -> int:
    """Return the bucket of j - i, as the text of Raffel et al. 2020 and their code have it, without a logarithm."""
    start = 0
    if bidirectional:
        buckets //= 2
        start, distance = (buckets if distance > 0 else 0), -abs(distance)
    apart, exact = max(0, -distance), buckets // 2
    if apart < exact:
        return start + apart
    # The last bucket whose border exact·(farthest/exact)^(n/(buckets - exact)) has been reached, in whole numbers.
    steps = buckets - exact
    reached = max(n for n in range(steps) if apart**steps >= exact ** (steps - n) * farthest**n)
    return start + exact + reached


def sinks(q: Tensor, k: Tensor, v: Tensor, exists: Tensor, *, window: int, count: int, causal: bool) -> Tensor:
    """Compute a sliding window with ``count`` sinks: the first words that exist."""
    first = exists.nonzero()[0].item()

    def see(h: int, i: int, j: int) -> bool:
        near = i - j < window if causal else abs(i - j) <= window / 2
        return real(exists, causal)(h, i, j) and (near or j < first + count)

    scaled = q / math.sqrt(q.size(2))
    return attend(q.shape, lambda h, i, j: scaled[h, i] @ k[h, j], lambda h, i, j: v[h, j], see)


def rope(q: Tensor, k: Tensor, v: Tensor, exists: Tensor, *, base: float, causal: bool) -> Tensor:
    """Compute attention with queries and keys rotated by their positions, pair by pair of channels."""

    def turned(x: Tensor, position: int) -> Tensor:
        channels = []
        for c in range(0, len(x), 2):
            angle = position * base ** (-c / len(x))
            sine, cosine = math.sin(angle), math.cos(angle)
            channels += [x[c] * cosine - x[c + 1] * sine, x[c] * sine + x[c + 1] * cosine]
        return torch.stack(channels)

    scaled = q / math.sqrt(q.size(2))
    return attend(
        q.shape,
        lambda h, i, j: turned(scaled[h, i], i) @ turned(k[h, j], j),
        lambda h, i, j: v[h, j],
        real(exists, causal),
    )


def bi_direct(q: Tensor, k: Tensor, v: Tensor, exists: Tensor) -> Tensor:
    """Compute BI_DIRECT as CSAN's code has it: even heads see the past, odd ones the future, both themselves."""
    scaled = q / math.sqrt(q.size(2))
    return attend(
        q.shape,
        lambda h, i, j: scaled[h, i] @ k[h, j],
        lambda h, i, j: v[h, j],
        lambda h, i, j: bool(exists[j]) and (j <= i if h % 2 == 0 else j >= i),
    )
