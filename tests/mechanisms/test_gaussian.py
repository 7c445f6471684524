"""Gaussian attention against loops written from its equations: outputs, every gradient, limits, decoding, precision."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairseq_localattn.core.call import Call
from fairseq_localattn.mechanisms.gaussian import GaussianAttention, parse_width
from support.mechanisms.gaussian import MODULES, PREDICTED, expected, make, run
from support.mechanisms.inputs import (
    DIM,
    HEADS,
    LENGTHS,
    future,
    gradient,
    labelled,
    random_case,
)

every_module = pytest.mark.parametrize("name", MODULES)


def check(module: Any, x: Tensor, keys: Tensor, padding: Tensor, causal: bool) -> None:
    """Compare output, weights, and the gradients of inputs and parameters with the reference, at real queries."""
    itself = keys is x
    here = ~padding if itself else torch.ones(x.size(1), x.size(0), dtype=torch.bool)
    real = here.T.to(x.dtype)[..., None]
    probe = torch.randn(x.shape, generator=torch.Generator().manual_seed(7), dtype=x.dtype) * real
    results, means = [], []
    for forward in (run, expected):
        inputs = x.clone().requires_grad_()
        memory = inputs if itself else keys.clone().requires_grad_()
        module.zero_grad()
        out, _ = forward(module, inputs, memory, padding, causal)
        (out * probe).sum().backward()
        gradients = [(name, gradient(p)) for name, p in module.named_parameters()]
        results.append([("output", out * real), ("input", inputs.grad), ("keys", memory.grad), *gradients])
    for (name, got), (_, wanted) in zip(*results, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-8, atol=1e-9, msg=labelled(name))
    with torch.no_grad():
        explicit, got_mean = run(module, x, keys, padding, causal, need_weights=True)
        _, wanted_mean = expected(module, x, keys, padding, causal)
    means += [got_mean[here], wanted_mean[here]]
    torch.testing.assert_close(*means, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(explicit * real, results[0][0][1].detach())


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([*MODULES]), LENGTHS, st.booleans(), st.booleans())
@example("localness", [4, 2, 4, 1], True, True)  # as many sentences as positions: a wrong axis would fit
@example("keys", [4, 4, 4, 4], False, True)
@example("diffwin", [6, 3], True, False)
@example("luong", [9, 3], True, False)
def test_equals_equations(name: str, lengths: list[int], left: bool, causal: bool) -> None:
    x, padding = random_case(lengths, left)
    check(make(name, causal=causal), x, x, padding, causal)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(PREDICTED), LENGTHS, st.booleans(), st.integers(1, 5))
def test_on_an_encoder_equals_equations(name: str, lengths: list[int], left: bool, queries: int) -> None:
    """In cross-attention the keys are another sequence, with another number of channels; n counts them."""
    keys, padding = random_case(lengths, left)
    keys = torch.cat([keys, keys[..., :3]], dim=-1)
    x, _ = random_case([queries] * len(lengths), left, seed=2)
    module = make(name, self_attention=False, encoder_decoder_attention=True, kdim=DIM + 3, vdim=DIM + 3)
    check(module, x, keys, padding, causal=False)


# ---------------------------------------------------------------------------------------------- limits


def test_a_cut_never_closes_the_nearest_visible_key() -> None:
    """Centres between two keys with a narrow window: each query still sees the key next to its centre, and no other."""
    module = GaussianAttention(DIM, HEADS, width=0.2, cut=True, self_attention=True).double()
    with torch.no_grad():
        module.window_hidden.bias.normal_()
        module.window_center.weight.mul_(10)
    x, padding = random_case([11, 6], True)
    weights = run(module, x, x, padding, need_head_weights=True)[1][:, ~padding]
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert (weights > 1e-12).sum(-1).eq(1).all()


def test_widths_by_head_at_the_start() -> None:
    """σ is geometric from 1 to 32 over the heads, and one head has σ = 1."""
    sigma = GaussianAttention(60, 6, center="self", width="head").window_root.square()
    torch.testing.assert_close(sigma, torch.tensor([2.0**n for n in range(6)]))
    assert GaussianAttention(64, 4, center="self", width="head", local_heads=1).window_root.item() == 1


# ---------------------------------------------------------------------------------------------- decoding, precision


@pytest.mark.slow
@every_module
@pytest.mark.parametrize(("dtype", "left"), [(torch.float16, True), (torch.bfloat16, False)])
def test_half_precision_over_long_distances(name: str, dtype: torch.dtype, left: bool) -> None:
    """600 keys, where -2 (Δ/d)² is far beyond fp16: finite, gradients included, and near the result in float64."""
    module = make(name)
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(600, 3, DIM, generator=generator, dtype=torch.float64)
    padding = torch.zeros(3, 600, dtype=torch.bool)
    padding[1, slice(580) if left else slice(20, None)] = True
    padding[2] = True  # an empty sentence
    half = copy.deepcopy(module).to(dtype)
    inputs = x.to(dtype).requires_grad_()
    got, _ = run(half, inputs, inputs, padding)
    got.float().sum().backward()
    assert got.isfinite().all() and gradient(inputs).isfinite().all()
    assert all(gradient(p).isfinite().all() for p in half.parameters())
    if "self" == module.center:  # a predicted centre moves by n times the rounding of its sigmoid
        wanted, _ = run(module, x.to(dtype).double(), x.to(dtype).double(), padding)
        near = 0.01 if dtype == torch.float16 else 0.1
        torch.testing.assert_close(got[(~padding).T].double(), wanted[(~padding).T], rtol=near, atol=near)


@pytest.mark.parametrize("context", ["half", "autocast"])
def test_the_bell_is_computed_in_fp32(context: str) -> None:
    """Entries at distance 500 of a bell of width 1000, where bf16 has steps of 1/256 and positions steps of 2."""
    module = GaussianAttention(DIM, HEADS, center="self", width=1000, self_attention=True)
    x = torch.randn(1000, 1, DIM)
    seen: list[Tensor] = []

    def keep(self: Any, call: Call) -> Tensor:
        seen.append(call.extra["bell"])
        return call.extra["bell"]

    module.score_bias = keep.__get__(module)  # type: ignore[method-assign]
    if context == "half":
        module, x = module.bfloat16(), x.bfloat16()
        module(x, x, x, need_weights=False)
    else:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            module(x, x, x, need_weights=False)
    j = torch.arange(1000, dtype=torch.float64)
    wanted = -2 * ((j[None] - j[:, None]) / 1000) ** 2
    assert seen[0].dtype == torch.float32
    torch.testing.assert_close(seen[0][0, 0].double(), wanted, rtol=1e-5, atol=1e-7)


def test_a_narrow_width_by_head_keeps_its_gradient_finite() -> None:
    """σ = w² below 0.1 counts as 0.1; the gradient of G by w would grow with w⁻⁵."""
    module = GaussianAttention(DIM, HEADS, center="self", width="head", self_attention=True)
    with torch.no_grad():
        module.window_root.copy_(torch.tensor([0.0, 1e-4, 0.2, 1.0]))
    x, _ = random_case([300], True)
    out, _ = module(x.float(), x.float(), x.float(), attn_mask=future(300).float(), need_weights=False)
    out.square().sum().backward()
    assert gradient(module.window_root).isfinite().all() and gradient(module.window_root)[3] != 0


# ---------------------------------------------------------------------------------------------- errors, parameters


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"center": "middle"}, "unknown centre 'middle'"),
        ({"source": "keys"}, "unknown source"),
        ({"hidden": "relu"}, "unknown hidden"),
        ({"local_heads": 5}, "5 heads with a Gaussian were asked for, and there are 4 heads"),
        ({"local_heads": -1}, "-1 heads"),
        ({"width": 0.1}, "a window's width of '0.1': give head, keys, query, or a number of positions from 0.2"),
        ({"center": "self", "encoder_decoder_attention": True}, "means nothing in the other sentence"),
    ],
)
def test_errors(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GaussianAttention(DIM, HEADS, **kwargs)


def test_widths_as_text() -> None:
    assert [parse_width(text) for text in (" Query", "head", "10", "0.2")] == ["query", "head", 10.0, 0.2]
    for text in ("", "nan", "inf", "-1", "0", "wide"):
        with pytest.raises(ValueError, match="a window's width of"):
            parse_width(text)
