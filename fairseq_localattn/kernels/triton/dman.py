"""Attention with the dynamic mask of MAN: ``softmax(scaling · QKᵀ + log M) V`` by one kernel a pass.

``M[b, h, t, s] = σ(x[b, t] + P[t - s] + U[h])`` is computed where it is used. Memory is linear in the length.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .operators import block_size, in_rows, operator, power_of_two, warps

_TENSORS = (
    "Tensor q, Tensor k, Tensor v, Tensor by_query, Tensor by_distance, Tensor by_head, Tensor? padding, Tensor? seed"
)
_NUMBERS = "float scaling, float lowest_z, float rate, int ahead, bool causal"


def _run(q: Tensor, k: Tensor, v: Tensor, by_query: Tensor, by_distance: Tensor, by_head: Tensor, padding: Tensor | None,
         seed: Tensor | None, scaling: float, lowest_z: float, rate: float, ahead: int, causal: bool) -> tuple[Tensor, Tensor]:  # fmt: skip
    from .dman_kernels import forward

    (batch, heads, queries, channels), keys = q.shape, k.size(2)
    out, lse = in_rows(q), q.new_empty(batch, heads, queries, dtype=torch.float32)
    block = block_size(max(queries, keys), channels, q.element_size())
    behind = by_distance.numel() - ahead - 1
    padding = None if padding is None else padding.view(torch.uint8)
    forward[batch * heads, -(-queries // block)](
        q, k, v, by_query, by_distance, by_head, padding, seed, out, lse,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *out.stride()[:3],
        batch, heads, queries, keys, channels, ahead, behind, scaling, lowest_z, rate,
        CAUSAL=causal, BLOCK=block, BLOCK_D=max(16, power_of_two(channels)), num_warps=warps(block),
    )  # fmt: skip
    return out, lse


def _make(q: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    return in_rows(q), q.new_empty(q.shape[:3], dtype=torch.float32)


_forward = operator(f"dman({_TENSORS}, {_NUMBERS}) -> (Tensor, Tensor)", _run, _make)
