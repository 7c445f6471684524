"""Floating-point operations of matrix products, forward and backward, as torch counts them."""

from __future__ import annotations

from collections.abc import Callable

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode


def count_flops(run: Callable[[], object]) -> int:
    """Those of all matrix products in a call of ``run``; a multiplication and an addition count as two.

    torch has no entry for the CPU's fused attention, so attention runs as products here. Element-wise work (softmax,
    dropout, normalisation, the optimizer) counts nothing.
    """
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


def flops_of_many(count: Callable[[int], int], sentences: int, most: int) -> int:
    """The FLOPs of ``sentences`` sentences, from :func:`count_flops` of ``most`` of them, and of half as many.

    FLOPs are a line over the number of sentences of one length, which need not begin at 0: attention to neighbouring
    heads saves some at the first and last head of a batch. ``most``: 2 or more; all are counted where there are fewer.
    """
    if sentences <= most:
        return count(sentences)
    half = most // 2
    fewer, more = count(half), count(most)
    return more + (more - fewer) * (sentences - most) // (most - half)
