"""Slow references, written from the papers' equations with loops, in float64. No code is shared with the package."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def attention_rows(q: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """Compute ATT(q, K) V for one query: the softmax of its scaled dot products with the keys, times their values.

    Without keys it is 0.
    """
    if not keys:
        return torch.zeros_like(q)
    energies = torch.stack([(q * key).sum() / math.sqrt(q.numel()) for key in keys])
    weights = torch.exp(energies - energies.max())
    weights = weights / weights.sum()
    return sum(w * value for w, value in zip(weights, values, strict=True))


def csan(q: Tensor, k: Tensor, v: Tensor, window: int, head_span: int, exists: Tensor, causal: bool) -> Tensor:
    """Compute convolutional self-attention of one sentence, Eq. 4-9 of Yang et al. 2019.

    q, k, v: H×T×D; ``exists``: T, False at padding. Heads and positions that do not exist are not in the union (Eq. 7).
    """
    heads, length, _ = q.shape
    rows = []
    for h in range(heads):
        row = []
        for i in range(length):
            area = [
                (g, j)
                for g in range(h - head_span // 2, h + head_span // 2 + 1)
                for j in range(i - window // 2, i + window // 2 + 1)
                if 0 <= g < heads and 0 <= j < length and exists[j] and not (causal and j > i)
            ]
            row.append(attention_rows(q[h, i], [k[g, j] for g, j in area], [v[g, j] for g, j in area]))
        rows.append(torch.stack(row))
    return torch.stack(rows)


def mma(q: Tensor, k: Tensor, v: Tensor, kinds: list[str], w: int, exists: Tensor, causal: bool) -> Tensor:
    """Compute mixed self-attention of one sentence, Eq. 7-11 of Cui et al. 2019. q, k, v: H×T×D; exists: T."""

    def sees(kind: str, i: int, j: int) -> bool:
        if kind == "global":  # Eq. 8
            return True
        if kind == "local":  # Eq. 9
            return i - w <= j <= i + w
        if kind == "forward":  # Eq. 10
            return i <= j
        return i >= j  # Eq. 11

    heads, length, _ = q.shape
    rows = []
    for h in range(heads):
        row = []
        for i in range(length):
            keys = [j for j in range(length) if sees(kinds[h], i, j) and exists[j] and not (causal and j > i)]
            row.append(attention_rows(q[h, i], [k[h, j] for j in keys], [v[h, j] for j in keys]))
        rows.append(torch.stack(row))
    return torch.stack(rows)


def static_mask(boundary: float | None, exists: Tensor, causal: bool) -> Tensor:
    """Compute SM of one sentence, T×T: 1 where |t - s| <= b (Eq. 11 of Fan et al. 2021). exists: T, False at padding.

    None is SMAN_1, b = sqrt(L)/2: L counts the sentence's words, or in the causal case those up to the query.
    """
    length = exists.numel()
    rows = []
    for t in range(length):
        words = sum(bool(exists[s]) for s in range(length) if not (causal and s > t))
        b = math.sqrt(words) / 2 if boundary is None else boundary
        rows.append([1.0 if abs(t - s) <= b else 0.0 for s in range(length)])
    return torch.tensor(rows, dtype=torch.float64)


def dynamic_mask(x: Tensor, w: Tensor, distances: dict[int, Tensor], U: Tensor) -> Tensor:
    """Compute DM of one sentence, H×T×T, at least 1e-10 (Eq. 12 of Fan et al. 2021).

    x: T×C; w: C; ``distances``: P by t - s, of which the ends stand for all that is beyond; U: H.
    """
    nearest, farthest = min(distances), max(distances)
    by_head = []
    for i in range(U.numel()):
        rows = []
        for t in range(x.size(0)):
            by_query = (x[t] * w).sum()
            clipped = [max(nearest, min(farthest, t - s)) for s in range(x.size(0))]
            rows.append(torch.stack([by_query + distances[d] + U[i] for d in clipped]))
        by_head.append(torch.stack(rows))
    return torch.sigmoid(torch.stack(by_head)).clamp(min=1e-10)


def mask_weights(q: Tensor, k: Tensor, mask: Tensor, exists: Tensor, causal: bool) -> Tensor:
    """Compute S_M(Q, K) of one sentence, H×T×T (Eq. 4 of Fan et al. 2021); A_M is S_M times V.

    q, k: H×T×D; ``mask``: M, H×T×T. Padding and, in the causal case, the future have M = 0 besides.
    """
    heads, length, width = q.shape
    by_head = []
    for h in range(heads):
        rows = []
        for i in range(length):
            there = [float(exists[j] and not (causal and j > i)) for j in range(length)]
            M = mask[h, i] * torch.tensor(there, dtype=torch.float64)
            share = torch.stack([M[j] * torch.exp((q[h, i] * k[h, j]).sum() / math.sqrt(width)) for j in range(length)])
            rows.append(share / sum(share) if M.any() else M)  # a query that sees nothing has weights of 0
        by_head.append(torch.stack(rows))
    return torch.stack(by_head)


def window_mask(left: Tensor, right: Tensor, b: int) -> Tensor:
    """Compute m' of one query by Eq. 10 and 11 of Nguyen et al. 2020; b = 1 is Eq. 9. left, right: φ, n each.

    The n keys are those of the sentence, without padding.
    """
    n = left.numel()
    J = torch.zeros(n, n, dtype=left.dtype)
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            J[i - 1, j - 1] = 1 if i <= b * math.ceil(j / b) else 0
    return (left @ J) * (right @ J.T) + (right @ J) * (left @ J.T)


def window_weights(
    kind: str,
    by_name: dict[str, tuple[Tensor, Tensor]],
    exists: Tensor,
    b: int,
    causal: bool,
    renormalise: bool = False,
) -> Tensor:
    """Compute the factors of the values of one sentence, H×T×S: Eq. 12, 13 (mw) or 14-17 (aw) of Nguyen et al. 2020.

    ``by_name``: queries H×T×D and keys H×S×D of ``global``, ``left``, ``right`` and, for aw, ``local``. Pointers and
    softmax are over the keys that exist and, in the causal case, are not ahead.
    """

    def scores(name: str, h: int, i: int, keys: list[int]) -> Tensor:
        q, k = by_name[name]
        return torch.stack([(q[h, i] * k[h, j]).sum() / math.sqrt(q.size(-1)) for j in keys])

    def softmax(energies: Tensor) -> Tensor:
        share = torch.exp(energies - energies.max())
        return share / share.sum()

    q, k = by_name["global"]
    weights = torch.zeros(q.size(0), q.size(1), k.size(1), dtype=q.dtype)
    for h in range(q.size(0)):
        for i in range(q.size(1)):
            keys = [j for j in range(k.size(1)) if exists[j] and not (causal and j > i)]
            if not keys:  # a query that sees nothing has weights of 0
                continue
            m = window_mask(softmax(scores("left", h, i, keys)), softmax(scores("right", h, i, keys)), b)
            if kind == "aw":
                row = softmax(scores("global", h, i, keys) + scores("local", h, i, keys) * m)
            else:
                row = softmax(scores("global", h, i, keys)) * m
                row = row / row.sum() if renormalise else row
            weights[h, i, keys] = row
    return weights


def module_output(
    module: Any,
    x: Tensor,
    padding: Tensor,
    attend: Callable[..., Tensor],
    activation: Callable[[Tensor], Tensor] | None = None,
    takes_input: bool = False,
) -> Tensor:
    """Compute a module's output T×B×C from its projections and a reference ``attend(q, k, v, exists)`` of one sentence.

    ``activation``: on the joined heads (F in Eq. 5 of Fan et al. 2021). ``takes_input``: ``attend`` also gets the
    sentence's input T×C, as ``attend(q, k, v, exists, x)``.
    """
    outputs = []
    for b in range(x.size(1)):

        def split(projection: torch.nn.Linear, sentence: Tensor = x[:, b]) -> Tensor:
            projected = sentence @ projection.weight.T + projection.bias
            return torch.stack(projected.chunk(module.num_heads, dim=-1))

        q, k, v = split(module.q_proj), split(module.k_proj), split(module.v_proj)
        heads = attend(q, k, v, ~padding[b], *([x[:, b]] if takes_input else []))
        joined = torch.cat(list(heads), dim=-1)
        joined = joined if activation is None else activation(joined)
        outputs.append(joined @ module.out_proj.weight.T + module.out_proj.bias)
    return torch.stack(outputs, dim=1)
