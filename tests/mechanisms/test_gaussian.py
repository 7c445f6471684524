"""Gaussian attention: precision over long distances, and widths."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from fairseq_localattn.core.call import Call
from fairseq_localattn.mechanisms.gaussian import GaussianAttention, parse_width
from support.mechanisms.inputs import DIM, future, gradient, make, run

TEXTS = ["gauss", "gauss(center=self, width=head)", "gauss(center=self, width=query, local_heads=2)"]
TEXTS += ["gauss(width=keys, hidden=linear)", "gauss(width=1, cut=true)", "gauss(product=true)"]


def test_widths_by_head_at_the_start() -> None:
    """σ is geometric from 1 to 32 over the heads, and one head has σ = 1."""
    sigma = GaussianAttention(60, 6, center="self", width="head").window_root.square()
    torch.testing.assert_close(sigma, torch.tensor([2.0**n for n in range(6)]))
    assert GaussianAttention(64, 4, center="self", width="head", local_heads=1).window_root.item() == 1


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(("dtype", "left"), [(torch.float16, True), (torch.bfloat16, False)])
def test_half_precision_over_long_distances(text: str, dtype: torch.dtype, left: bool) -> None:
    """600 keys, where -2 (Δ/d)² is far beyond fp16: finite, gradients included, and near the result in float64."""
    half = make(text, std=0.2).to(dtype)
    x = torch.randn(600, 3, DIM).to(dtype)
    padding = torch.zeros(3, 600, dtype=torch.bool)
    padding[1, slice(580) if left else slice(20, None)] = True
    padding[2] = True  # an empty sentence
    inputs = x.clone().requires_grad_()
    got, _ = run(half, inputs, inputs, padding)
    got.float().sum().backward()
    assert got.isfinite().all() and gradient(inputs).isfinite().all()
    assert all(gradient(p).isfinite().all() for p in half.parameters())
    if half.center == "self":  # a predicted centre moves by n times the rounding of its sigmoid
        wanted, _ = run(copy.deepcopy(half).double(), x.double(), x.double(), padding)
        near = 0.01 if dtype == torch.float16 else 0.1
        torch.testing.assert_close(got[(~padding).T].double(), wanted[(~padding).T], rtol=near, atol=near)


@pytest.mark.parametrize("context", ["half", "autocast"])
def test_the_bell_is_computed_in_fp32(context: str) -> None:
    """Entries at distance 500 of a bell of width 1000, where bf16 has steps of 1/256 and positions steps of 2."""
    module, x = make("gauss(center=self, width=1000)"), torch.randn(1000, 1, DIM)
    seen: list[Tensor] = []

    def keep(call: Call) -> Tensor:
        seen.append(call.extra["bell"])
        return call.extra["bell"]

    module.score_bias = keep
    if context == "half":
        module, x = module.bfloat16(), x.bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=context == "autocast"):
        module(x, x, x, need_weights=False)
    j = torch.arange(1000, dtype=torch.float64)
    wanted = -2 * ((j[None] - j[:, None]) / 1000) ** 2
    assert seen[0].dtype == torch.float32
    torch.testing.assert_close(seen[0][0, 0].double(), wanted, rtol=1e-5, atol=1e-7)


def test_a_narrow_width_by_head_keeps_its_gradient_finite() -> None:
    """σ = w² below 0.1 counts as 0.1; the gradient of G by w would grow with w⁻⁵."""
    module = make("gauss(center=self, width=head)")
    with torch.no_grad():
        module.window_root.copy_(torch.tensor([0.0, 1e-4, 0.2, 1.0]))
    x = torch.randn(300, 1, DIM)
    out, _ = module(x, x, x, attn_mask=future(300).float(), need_weights=False)
    out.square().sum().backward()
    assert gradient(module.window_root).isfinite().all() and gradient(module.window_root)[3] != 0


def test_widths_as_text() -> None:
    assert [parse_width(text) for text in (" Query", "head", "10", "0.2")] == ["query", "head", 10.0, 0.2]
    for text in ("", "nan", "inf", "-1", "0", "wide"):
        with pytest.raises(ValueError, match="a window's width of"):
            parse_width(text)
