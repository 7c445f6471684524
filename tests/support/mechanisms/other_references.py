"""Slow references of the systems of others, written from their equations with loops; no code of the package is shared.

All in float64, of one sentence; ``see``: T×S, True where a key is visible. Letters as in the package: q, k, v H×T×D.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def softmax(scores: list[Tensor]) -> Tensor:
    """Normalise a list of numbers."""
    energies = torch.stack(scores)
    share = torch.exp(energies - energies.max())
    return share / share.sum()


def weights_of(scores: Tensor, see: Tensor) -> Tensor:
    """Return the softmax of the scores T×S over the keys that each query sees; other entries are 0."""
    weights = torch.zeros(see.shape, dtype=torch.float64)
    for i in range(see.size(0)):
        keys = [j for j in range(see.size(1)) if see[i, j]]
        if keys:  # a query that sees nothing has weights of 0
            weights[i, keys] = softmax([scores[i, j] for j in keys])
    return weights


def visible(exists: Tensor, queries: int, causal: bool) -> Tensor:
    """Return T×S, True where a key exists and, in the causal case, is not ahead."""
    see = exists[None, :].expand(queries, -1)
    return see & torch.ones(queries, exists.numel(), dtype=torch.bool).tril() if causal else see


def predicted(u: Tensor, output: Any, h: int, width: int) -> Tensor:
    """Compute sigmoid(U u + b) of head h; of a layer with one vector for all heads sigmoid(U · u^h)."""
    if output.bias is None:
        return torch.sigmoid((output.weight[0] * u[h * width : (h + 1) * width]).sum())
    return torch.sigmoid((output.weight[h] * u).sum() + output.bias[h])


def bell(
    see: Tensor, center: Callable[[int, int, int], Any], width: Callable[[int, int], Any], cut: bool
) -> tuple[Tensor, Tensor]:
    """Return G of one head, T×S, and the keys that are open.

    ``center(query, first, n)`` and ``width(query, n)`` get the first visible key of the query and their number. A cut
    closes the keys further than the width from the centre, but not the nearest one.
    """
    G, open_keys = torch.zeros(see.shape, dtype=torch.float64), see.clone()
    for i in range(see.size(0)):
        keys = [j for j in range(see.size(1)) if see[i, j]]
        if not keys:
            continue
        p, d = center(i, keys[0], len(keys)), width(i, len(keys))
        nearest = min(abs(j - p) for j in keys)
        for j in keys:
            G[i, j] = -2 * ((j - p) / d) ** 2
            open_keys[i, j] = not cut or bool(abs(j - p) <= max(d, nearest))
    return G, open_keys


def block_attention(
    q: Tensor, k: Tensor, v: Tensor, exists: Tensor, size: int, layers: dict[str, Tensor]
) -> tuple[Tensor, Tensor]:
    """Compute Bi-BloSAN's attention as in CSAN: h + P e by head, H×T×D, and the weights inside of blocks, H×T×T.

    ``size`` 0: ⌈(2n)^⅓⌉. ``layers``: W1, b1, W2, b2, W3, b3, W4, b4, P of the four layers and the last projection.
    """
    heads, length, width = q.shape
    real = [t for t in range(length) if exists[t]]
    size = size or math.ceil(round((2 * len(real)) ** (1 / 3), 9))
    parts = [real[a : a + size] for a in range(0, len(real), size)]
    see = torch.zeros(length, length, dtype=torch.bool)
    for part in parts:
        for i in part:
            see[i, part] = True
    weights = torch.stack([weights_of(q[a] @ k[a].T / math.sqrt(width), see) for a in range(heads)])
    h = weights @ v
    if not parts:
        return h, weights

    def join(x: Tensor) -> Tensor:
        return x.transpose(0, 1).reshape(x.size(1), heads * width)

    def split(x: Tensor) -> Tensor:
        return x.reshape(len(x), heads, width).transpose(0, 1)

    z = torch.sigmoid(join(h) @ layers["W1"].T + layers["b1"]) @ layers["W2"].T + layers["b2"]  # T×H
    y = torch.stack(
        [torch.stack([softmax([z[j, a] for j in part]) @ h[a, part] for part in parts]) for a in range(heads)]
    )
    yq = split(join(y) @ layers["W3"].T + layers["b3"])
    o = []
    for a in range(heads):
        scores = [[(y[a, n] * yq[a, m]).sum() / math.sqrt(width) for n in range(len(parts))] for m in range(len(parts))]
        o.append(torch.stack([softmax(row) @ y[a] for row in scores]))
    joined = join(torch.stack(o))
    g = torch.sigmoid(torch.cat([join(y), joined], 1) @ layers["W4"].T + layers["b4"])
    e = (g * joined + (1 - g) * join(y)) @ layers["P"].T  # M×C
    of_block = {i: m for m, part in enumerate(parts) for i in part}
    added = torch.stack([e[of_block[i]] if i in of_block else torch.zeros_like(e[0]) for i in range(length)])
    return h + split(added), weights


def convolution(x: Tensor, real: Tensor, taps: Tensor, point: Tensor, b: Tensor, causal: bool = False) -> Tensor:
    """Compute ReLU(P (Σ_o taps_o ⊙ x_{t+o-K//2}) + b) of one sentence x, T×C; taps K×C, or C×C×K of a full one.

    Padding and what lies outside of the sentence are 0. In the causal case the last tap is at t. A full convolution has
    no P.
    """
    K = taps.size(0) if taps.dim() == 2 else taps.size(2)
    rows = []
    for t in range(x.size(0)):
        row = torch.zeros_like(x[0])
        for o in range(K):
            at = t + o - (K - 1 if causal else K // 2)
            if 0 <= at < x.size(0) and real[at]:
                row = row + (taps[o] * x[at] if taps.dim() == 2 else taps[:, :, o] @ x[at])
        rows.append(row if taps.dim() == 3 else point @ row)
    return torch.relu(torch.stack(rows) + b)
