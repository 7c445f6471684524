"""Quantities by distance against loops."""

from __future__ import annotations

import pytest
import torch

from fairseq_localattn.kernels.dense import attention_and_weights
from fairseq_localattn.kernels.distances import ClippedDistances, all_distances, by_position, collect, spread

# Queries, keys, position of the first query, limit: full passes, steps of decoding, chunks after a prefix.
CASES = [
    (1, 1, 0, 2),
    (5, 5, 0, 2),
    (5, 5, 0, 0),
    (5, 5, 0, 4),
    (5, 5, 0, 16),
    (1, 6, 5, 2),
    (3, 7, 4, 2),
    (3, 7, 4, 9),
]


@pytest.mark.parametrize(("queries", "keys", "offset", "limit"), CASES)
def test_spread_and_collect(queries: int, keys: int, offset: int, limit: int) -> None:
    """Each key reads the entry of its distance; each entry sums its keys; gradients are those of the loops."""
    distances = ClippedDistances(queries, keys, offset, limit)
    torch.manual_seed(1)
    x = torch.randn(2, 3, queries, distances.count, dtype=torch.double, requires_grad=True)
    y = torch.randn(2, 3, queries, keys, dtype=torch.double, requires_grad=True)
    seen = torch.zeros(queries, keys, distances.count, dtype=torch.double)
    for i in range(queries):
        for j in range(keys):
            seen[i, j, min(limit, max(-limit, j - (offset + i))) - distances.first] = 1
    assert seen.sum(dim=(0, 1)).gt(0).all(), "an entry belongs to no pair"
    torch.testing.assert_close(spread(x, distances), torch.einsum("bhin,ijn->bhij", x, seen))
    torch.testing.assert_close(collect(y, distances), torch.einsum("bhij,ijn->bhin", y, seen))
    assert torch.autograd.gradcheck(lambda z: spread(z, distances), (x,))
    assert torch.autograd.gradcheck(lambda z: collect(z, distances), (y,))


@pytest.mark.parametrize(("queries", "keys", "offset", "limit"), CASES)
def test_entries_by_position(queries: int, keys: int, offset: int, limit: int) -> None:
    found = by_position(all_distances(queries, keys, offset), keys)
    assert found.tolist() == [[j - (offset + i) for j in range(keys)] for i in range(queries)]


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_attention_with_its_weights(dropout: float) -> None:
    """Products and torch's own steps give the same weights, output and gradients, also through the weights alone."""
    q, k, v, probe = torch.randn(4, 2, 3, 6, 5, dtype=torch.double).unbind(0)
    hidden = torch.zeros(2, 1, 1, 6, dtype=torch.bool)
    hidden[0, ..., :2] = True
    results: dict[tuple[str, str], list[torch.Tensor]] = {}
    for implementation in ("products", "sdpa"):
        for what in ("both", "weights"):
            torch.manual_seed(3)
            inputs = [x.clone().requires_grad_() for x in (q, k, v)]
            bias = torch.zeros(2, 3, 6, 6, dtype=torch.double, requires_grad=True)
            options = {"hidden": hidden, "bias": bias, "scaling": 0.5, "dropout": dropout}
            out, weights = attention_and_weights(*inputs, **options, implementation=implementation)  # type: ignore[arg-type]
            loss = weights.square().sum() + ((out * probe).sum() if what == "both" else 0)
            loss.backward()
            gradients = [torch.zeros_like(x) if x.grad is None else x.grad for x in (*inputs, bias)]
            results[implementation, what] = [out, weights, *gradients]
    for what in ("both", "weights"):
        for got, wanted in zip(results["products", what], results["sdpa", what], strict=True):
            torch.testing.assert_close(got, wanted)
