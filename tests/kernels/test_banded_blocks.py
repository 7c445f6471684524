"""Banded attention by products over blocks, against loops over queries and keys."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
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


def test_a_bias_is_added_inside_of_the_band() -> None:
    """It has a gradient."""
    batches, heads, block, length = 2, 3, 3, 6
    q, k, v = random_heads(batches, heads, queries=length, keys=length, channels=2)
    layout = BlockLayout(batches, heads, 2, block=block, half_width=0, head_span=1)
    hidden = torch.zeros(batches, 2, block, block, dtype=torch.bool)
    hidden[0, :, :, 0] = hidden[1, 1, 2, :2] = True
    mask = torch.zeros(hidden.shape, dtype=torch.double).masked_fill(hidden, lowest_score(torch.double))
    bias = torch.randn(2, heads, block, block, dtype=torch.double, requires_grad=True)

    def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
        return banded_products(q, k, v, mask, bias, layout=layout, scaling=0.5)

    queries, keys, values = (x.unflatten(2, (2, block)).transpose(1, 2) for x in (q, k, v))  # B×n×H×s×D
    scores = 0.5 * queries @ keys.transpose(-1, -2) + bias
    wanted = scores.masked_fill(hidden[:, :, None], lowest_score(torch.double)).softmax(-1) @ values
    torch.testing.assert_close(attend(q, k, v, bias), wanted.transpose(1, 2).flatten(2, 3))
    assert gradcheck(attend, (q, k, v, bias))
    (by_bias,) = torch.autograd.grad(attend(q, k, v, bias).square().sum(), bias)
    assert by_bias.isfinite().all() and by_bias.abs().max() > 0
