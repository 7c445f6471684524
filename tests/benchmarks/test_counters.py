"""FLOPs and peak memory of calls whose cost is known."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.counters import count_flops, peak_bytes
from fairseq_localattn.kernels.dense import causal_attention


def test_flops_of_a_linear_layer() -> None:
    layer, x = nn.Linear(5, 7), torch.randn(3, 5, requires_grad=True)
    assert count_flops(lambda: layer(x)) == 2 * 3 * 5 * 7
    assert count_flops(lambda: layer(x).sum().backward()) == 3 * (2 * 3 * 5 * 7), "and to the input, and the weight"


def test_flops_of_a_causal_kernel() -> None:
    q = torch.ones(2, 3, 4, 5, requires_grad=True)
    seen = 2 * 3 * (1 + 2 + 3 + 4)  # in two products forward and four backward
    assert count_flops(lambda: causal_attention(q, q, q, None, scaling=1.0).sum().backward()) == 6 * 2 * seen * 5


def test_peak_memory_of_known_tensors() -> None:
    before = torch.empty(1 << 20)

    def run() -> None:
        first, second = torch.empty(1 << 18), torch.empty(1 << 17)
        del first
        torch.empty(1 << 16)
        del second

    assert peak_bytes(run, torch.device("cpu")) == 4 * ((1 << 18) + (1 << 17))
    assert peak_bytes(lambda: before.add_(1), torch.device("cpu")) < 1024, "what was live before does not count"
