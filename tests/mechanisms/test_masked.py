"""Mask attention (MAN) against loops written from its equations: outputs, every gradient, limits, precision."""

from __future__ import annotations

import copy
from itertools import permutations
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from fairseq_localattn.core.attention import Frame, LocalAttention
from fairseq_localattn.core.call import Call
from support.mechanisms.inputs import DIM, LENGTHS, cut_into_blocks, random_case
from support.mechanisms.masked import (
    ACTIVATIONS,
    MODULES,
    every_path,
    expected,
    half_precision,
    make,
    outcome,
    run,
    same,
)


def check(module: LocalAttention, x: Tensor, padding: Tensor, causal: bool) -> dict[str, Tensor]:
    """Compare output and every gradient with the reference, and return them."""
    module, inputs = module.double(), x.clone().requires_grad_()
    got = outcome(run(module, inputs, padding, causal)[0], inputs, module, padding)
    wanted = outcome(expected(module, inputs, padding, causal)[0], inputs, module, padding)
    assert got.keys() == wanted.keys()
    same(got, wanted)
    return got


# ---------------------------------------------------------------------------------------------- Eq. 4, 5, 11, 12


@settings(max_examples=12, deadline=None)
@given(LENGTHS, st.booleans(), st.booleans(), st.sampled_from([*ACTIVATIONS]), st.sampled_from([0, 1, 3, 25]))
@example([4, 2, 4, 1], False, True, "none", 25)  # as many sentences as positions: a wrong axis would fit
@example([4, 4, 4, 4], True, False, "relu", 2)
def test_dman_equals_equations(lengths: list[int], left: bool, causal: bool, activation: str, farthest: int) -> None:
    module = make("dman", causal, activation=activation, max_distance=farthest)
    got = check(module, *random_case(lengths, left), causal)
    assert {"query_mask.weight", "distance_mask", "head_mask"} < got.keys()
    if activation == "none" and farthest and min(lengths) > 2:
        assert all(got[name].abs().max() > 1e-6 for name in ("query_mask.weight", "distance_mask", "head_mask"))


@settings(max_examples=15, deadline=None)
@given(
    LENGTHS, st.booleans(), st.booleans(), st.sampled_from([0, 1, 4]), st.booleans(), st.sampled_from([*ACTIVATIONS])
)
def test_sman_equals_equations(
    lengths: list[int], left: bool, causal: bool, boundary: int, long: bool, activation: str
) -> None:
    """``long`` forces the path of long sentences: blocks of 3 queries, or of the boundary."""
    module = make("sman", causal, boundary=boundary, activation=activation)
    with pytest.MonkeyPatch.context() as patch:
        if long:
            cut_into_blocks(patch, 3)
        check(module, *random_case(lengths, left), causal)


# Around the lengths at which √L/2 reaches 1, 2 and 3.
AROUND_SQUARES = st.lists(st.sampled_from([1, 3, 4, 5, 15, 16, 17, 35, 36, 37, 40]), min_size=1, max_size=3)


@settings(max_examples=8, deadline=None)
@given(AROUND_SQUARES, st.booleans(), st.booleans(), st.booleans())
@example([36, 3, 16, 4], True, False, False)
@example([17, 3, 16, 4], False, True, True)
@example([37, 4, 35], True, True, True)
@pytest.mark.slow
def test_sman_by_length_equals_equations(lengths: list[int], left: bool, causal: bool, long: bool) -> None:
    """A boundary of √L/2, which differs between the sentences of a batch."""
    module = make("sman-sqrt", causal, heads=1)
    with pytest.MonkeyPatch.context() as patch:
        if long:
            cut_into_blocks(patch, 3)
        check(module, *random_case(lengths, left), causal)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_san_equals_equations(activation: str) -> None:
    check(make("san", activation=activation), *random_case([7, 4, 1], left=True), causal=False)
    check(make("san", activation=activation), *random_case([7, 4, 1], left=False), causal=True)


# ---------------------------------------------------------------------------------------------- the least mask


def test_a_mask_that_is_closed_everywhere_closes_nothing() -> None:
    """σ(z) = 1e-10 for all keys cancels in Eq. 4: plain attention; no gradient reaches a closed mask."""
    module = make("dman").double()
    nn.init.constant_(module.head_mask, -200)
    x, padding = random_case([7, 4], left=True)
    got = check(module, x, padding, causal=False)
    assert all(gradient.isfinite().all() for gradient in got.values())
    assert not any(got[name].any() for name in ("query_mask.weight", "distance_mask", "head_mask"))
    plain = make("san").double()
    plain.load_state_dict(module.state_dict(), strict=False)
    real = (~padding).T
    torch.testing.assert_close(run(module, x, padding)[0][real], run(plain, x, padding)[0][real])


def test_the_least_mask_is_1e_10() -> None:
    """All keys have the least mask but one, whose mask is hardly greater."""
    module = make("dman").double()
    with torch.no_grad():
        module.query_mask.weight.zero_()
        module.head_mask.zero_()
        module.distance_mask.fill_(-40)
        module.distance_mask[module.max_distance] = -20  # a word's own mask: 2e-9
    x, padding = random_case([7, 4], left=True)
    got, wanted = run(module, x, padding, weights=True)[1], expected(module, x, padding, False)[1]
    torch.testing.assert_close(got[~padding], wanted[~padding], rtol=1e-9, atol=0)


# ---------------------------------------------------------------------------------------------- precision


@half_precision
@every_path
@pytest.mark.parametrize("name", [*MODULES, "dman head_mask", "dman distance_mask", "dman query_mask"])
def test_half_precision(name: str, block: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks of z = ±100 and a sentence that is all padding: finite, and near fp32 with the same weights."""
    cut_into_blocks(monkeypatch, block)
    name, _, part = name.partition(" ")
    module = make(name).to(dtype)
    x, padding = random_case([9, 5, 1, 9], left=True)
    padding[3] = True
    x = x.to(dtype)
    with torch.no_grad():
        if part == "head_mask":
            module.head_mask.copy_(torch.tensor([100.0, -100.0, 0.0, -100.0]))
        elif part == "distance_mask":
            module.distance_mask.copy_(torch.tensor([100.0, -100.0, 0.0, 100.0, -100.0, 1.0, -100.0]))
        elif part == "query_mask":
            module.query_mask.weight.zero_()[0, 0] = 100
            x[:, :, 0] = x[:, :, 0].sign()
    results = []
    for m in (module, copy.deepcopy(module).float()):
        inputs = x.to(m.out_proj.weight.dtype, copy=True).requires_grad_()
        results.append(outcome(run(m, inputs, padding)[0], inputs, m, padding))
    got, wanted = results
    assert all(value.isfinite().all() for value in got.values())
    assert run(module, x, padding, weights=True)[1].isfinite().all()
    near = 0.01 if dtype == torch.float16 else 0.08
    same({key: value.float() for key, value in got.items()}, wanted, rtol=near, atol=2 * near)


def by_distance(dtype: torch.dtype, by_query: float, by_head: float) -> tuple[Any, Tensor, Tensor]:
    """Return one head whose scores are 0, with P_d = d / 1000, x·w and U as given; its input; P_{t-s} for 41 words."""
    module, x = make("dman", heads=1, max_distance=40), torch.zeros(41, 1, DIM)
    x[:, :, 0] = by_query
    with torch.no_grad():
        for parameter in (module.q_proj.weight, module.q_proj.bias, module.query_mask.weight):
            parameter.zero_()
        module.query_mask.weight[0, 0] = 1
        module.head_mask.fill_(by_head)
        module.distance_mask.copy_(torch.arange(-40, 41) / 1000)
    module = module.to(dtype)
    return module, x.to(dtype), module.distance_mask[(torch.arange(41)[:, None] - torch.arange(41)) + 40]


@half_precision
def test_the_mask_is_summed_in_fp32(dtype: torch.dtype) -> None:
    """Entries of P 1e-3 apart under x·w + U = -8, where numbers in half precision are 8e-3 or more apart."""
    module, x, P = by_distance(dtype, -5, -3)
    got = module.score_bias(Call(Frame(41, 41), x, *module.project(x, x, x)))
    wanted = torch.sigmoid(P.double() - 8).log()
    torch.testing.assert_close(got[0, 0].double(), wanted, rtol=0, atol=2e-6)
    # Half precision would be wrong in any order of the three terms.
    for a, b, c in permutations([x[:, 0, :1], P, module.head_mask]):
        assert (nn.functional.logsigmoid((a + b) + c).double() - wanted).abs().max() > 2e-3


@half_precision
def test_small_differences_of_distance_reach_the_weights(dtype: torch.dtype) -> None:
    """x·w = -40 and U = 40 cancel, so P decides S_M, which is M / ΣM for equal scores."""
    module, x, P = by_distance(dtype, -40, 40)
    got = run(module, x, weights=True)[1][0].double()
    M, by_hand = torch.sigmoid(P.double()), torch.sigmoid(((x[:, 0, :1] + P) + module.head_mask).double())
    wanted, by_hand = (mask / mask.sum(-1, keepdim=True) for mask in (M, by_hand))
    error, error_by_hand = (((value - wanted) / wanted).abs().max() for value in (got, by_hand))
    assert error < 0.003 and error_by_hand > 0.006


@half_precision
def test_a_mask_that_is_nearly_closed_keeps_its_differences(dtype: torch.dtype) -> None:
    """With U = -15, log M is near -15, where numbers in bf16 are 1/16 apart: the keys' common part is subtracted."""
    module, x, P = by_distance(dtype, 0, -15)
    with torch.no_grad():
        module.distance_mask.mul_(20)  # P from -0.8 to 0.8
        module.distance_mask[:40] = 10  # entries of the future, which is hidden here
    visible = torch.ones(41, 41).tril()
    got = run(module, x, causal=True, weights=True)[1][0].double()
    M = torch.sigmoid(20 * P.double() - 15) * visible
    wanted, rounded = M / M.sum(-1, keepdim=True), torch.softmax(M.log().to(dtype).double(), -1)
    near = 0.002 if dtype == torch.float16 else 0.016
    error, error_by_hand = ((value / wanted - 1)[visible.bool()].abs().max() for value in (got, rounded))
    assert error < near < error_by_hand


def test_autocast_leaves_the_mask_in_fp32() -> None:
    """x·w = -40 and U = 40 must also cancel under autocast, which computes matrix products in bf16."""
    module, x, P = by_distance(torch.float32, -40.01, 40)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = module.score_bias(Call(Frame(41, 41), x, *module.project(x, x, x)))
    wanted = torch.sigmoid(P.double() - 0.01).log()
    assert got.dtype == torch.float32
    torch.testing.assert_close(got[0, 0].double(), wanted, rtol=0, atol=1e-5)
