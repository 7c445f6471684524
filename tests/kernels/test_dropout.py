"""Dropout on a CPU: its rate, mean, independence, seed and gradients; dropout and residual in one pass."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck

from fairseq_localattn.kernels.dropout import dropout, dropout_and_residual, dropout_factors


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_dropout_drops_at_its_rate_and_keeps_the_mean(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    count, p = 1_000_001, 0.3  # not a multiple of 8, the numbers in one random word
    factors = dropout_factors(torch.empty(count, dtype=dtype), p)
    assert factors.dtype == dtype and len(factors.unique()) == 2
    dropped = factors.eq(0).double()
    deviation = (p * (1 - p) / count) ** 0.5
    assert abs(dropped.mean() - p) < 5 * deviation + 2**-17
    assert abs(factors.double().mean() - 1) < 5 * deviation / (1 - p) + torch.finfo(dtype).eps
    for lane in range(8):  # the eight numbers of one random word have the same distribution
        assert abs(dropped[lane::8].mean() - p) < 14 * deviation + 2**-17
    for lag in (1, 2, 3, 4, 8, 512):  # and are hardly correlated
        product = (dropped[lag:] - p) * (dropped[:-lag] - p)
        assert abs(product.mean()) < 5 * p * (1 - p) / count**0.5


def test_dropout_follows_the_seed_and_its_rates_ends() -> None:
    x = torch.randn(5, 7, requires_grad=True)
    torch.manual_seed(2)
    once = dropout(x, 0.5)
    torch.manual_seed(2)
    assert torch.equal(once, dropout(x, 0.5)) and not torch.equal(once, dropout(x, 0.5))
    once.sum().backward()
    assert x.grad is not None and torch.equal(x.grad, once.detach() / x.detach()), "the gradient has another mask"
    assert torch.equal(dropout(x, 0.0), x) and (dropout(x, 1.0) == 0).all() and dropout(x[:0], 0.5).numel() == 0
    with pytest.raises(ValueError, match="dropout"):
        dropout(x, 1.5)


def test_dropout_and_residual_in_one_pass() -> None:
    """The gradient has the same mask, and the layer before keeps its gradients although x is overwritten."""
    layer, x = nn.Linear(3, 4).double(), torch.randn(5, 2, 3, dtype=torch.double, requires_grad=True)
    residual = torch.randn(5, 2, 4, dtype=torch.double, requires_grad=True)

    def run(x: Tensor, residual: Tensor) -> Tensor:
        torch.manual_seed(3)
        return dropout_and_residual(layer(x), residual, 0.4)

    torch.manual_seed(3)
    torch.testing.assert_close(run(x, residual), residual + layer(x) * _kept_as(layer(x), 0.4))
    assert gradcheck(run, (x, residual))
    run(x, residual).sum().backward()
    kept = _kept_as(layer(x), 0.4)
    torch.testing.assert_close(layer.bias.grad, kept.sum((0, 1)))
    assert torch.equal(dropout_and_residual(layer(x), residual, 1.0), residual)


def _kept_as(x: Tensor, p: float) -> Tensor:
    """Return the factors of a dropout after a fixed seed."""
    torch.manual_seed(3)
    return dropout_factors(x, p)
