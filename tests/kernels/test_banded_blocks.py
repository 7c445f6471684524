"""Banded attention by products over blocks, against loops over queries and keys."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck

from fairseq_localattn.kernels.banded_blocks import BlockLayout, banded_products
from fairseq_localattn.kernels.masks import lowest_score
from support.mechanisms.inputs import random_heads


@pytest.mark.parametrize(("head_span", "half_width", "block", "length"), [(1, 2, 3, 8), (3, 1, 4, 4), (5, 3, 3, 7)])
def test_banded_products_see_their_stretch_and_their_neighbours(
    head_span: int, half_width: int, block: int, length: int
) -> None:
    """Against loops: query i of head h sees keys at distance ≤ half_width in heads at distance ≤ head_span // 2."""
    batches, count, channels = 2, 5, 2
    q, k, v = random_heads(batches, count, queries=length, keys=length, channels=channels)
    blocks = -(-length // block)
    layout = BlockLayout(batches, count, blocks, block=block, half_width=half_width, head_span=head_span)
    query = torch.arange(blocks * block).view(blocks, block, 1)
    key = torch.arange(blocks)[:, None, None] * block + torch.arange(-half_width, block + half_width)
    outside = (key < 0) | (key >= length) | ((key - query).abs() > half_width)
    mask = torch.zeros(outside.shape, dtype=torch.double).masked_fill(outside, lowest_score(torch.double))[None]
    wanted = torch.empty(batches, count, length, channels, dtype=torch.double)
    for b in range(batches):
        for h in range(count):
            for i in range(length):
                seen = [
                    (g, j)
                    for g in range(max(0, h - head_span // 2), min(count, h + head_span // 2 + 1))
                    for j in range(max(0, i - half_width), min(length, i + half_width + 1))
                ]
                weights = torch.stack([0.5 * q[b, h, i] @ k[b, g, j] for g, j in seen]).softmax(0)
                wanted[b, h, i] = sum(w * v[b, g, j] for w, (g, j) in zip(weights, seen, strict=True))
    torch.testing.assert_close(banded_products(q, k, v, mask, layout=layout, scaling=0.5), wanted)
    assert gradcheck(lambda q, k, v: banded_products(q, k, v, mask, layout=layout, scaling=0.5), (q, k, v))
