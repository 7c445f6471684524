"""Mask attention (MAN): the least mask, precision, and initial values."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fairseq_localattn.core.call import Call
from fairseq_localattn.kernels.masks import Frame
from fairseq_localattn.mechanisms.masked import DynamicMaskAttention
from support.mechanisms.inputs import DIM, assert_same, cut_into_blocks, make, outcome, random_case, run
from support.mechanisms.references import expected

half_precision = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
DMAN = "dman(max_distance=3)"


def test_a_mask_that_is_closed_everywhere_has_no_gradient() -> None:
    """σ(z) = 1e-10 for all keys cancels in Eq. 4."""
    module = make(DMAN).double()
    nn.init.constant_(module.head_mask, -200)
    x, padding = random_case([7, 4], left=True)
    got = outcome(module, x, x, lambda x, y: run(module, x, y, padding)[0])
    assert_same(got, outcome(module, x, x, lambda x, y: expected(module, x, y, padding)[0]))
    assert not any(got[name].any() for name in ("query_mask.weight", "distance_mask", "head_mask"))


def test_the_least_mask_is_1e_10() -> None:
    """All keys have the least mask but one, whose mask is hardly greater."""
    module = make(DMAN).double()
    with torch.no_grad():
        module.query_mask.weight.zero_()
        module.head_mask.zero_()
        module.distance_mask.fill_(-40)
        module.distance_mask[module.max_distance] = -20  # a word's own mask: 2e-9
    x, padding = random_case([7, 4], left=True)
    got, wanted = run(module, x, x, padding, need_head_weights=True)[1], expected(module, x, x, padding)[1]
    torch.testing.assert_close(got, wanted, rtol=1e-9, atol=0)


@half_precision
@pytest.mark.parametrize("block", [3, 64])  # long sentences are computed in blocks of queries
@pytest.mark.parametrize(
    ("text", "extreme"),
    [
        *((text, {}) for text in ("san", DMAN, "sman(boundary=2)", "sman(boundary=none)")),
        (DMAN, {"head_mask": [100.0, -100.0, 0.0, -100.0]}),
        (DMAN, {"distance_mask": [100.0, -100.0, 0.0, 100.0, -100.0, 1.0, -100.0]}),
        (DMAN, {"query_mask.weight": [[100.0] + [0.0] * (DIM - 1)]}),
    ],
)
def test_half_precision(
    text: str, extreme: dict[str, Any], block: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Masks of z = ±100 and a sentence that is all padding: finite, and near fp32 with the same weights."""
    cut_into_blocks(monkeypatch, block)
    module = make(text, std=0.2)
    for name, values in extreme.items():
        module.get_parameter(name).data = torch.tensor(values)
    module, (x, padding) = module.to(dtype), random_case([9, 5, 1, 9], left=True)
    padding[3] = True
    x = x.to(dtype)
    results = []
    for m in (module, copy.deepcopy(module).float()):
        given = x.to(m.out_proj.weight.dtype)
        results.append(outcome(m, given, given, lambda x, y, m=m: run(m, x, y, padding)[0]))
    got, wanted = results
    assert all(value.isfinite().all() for value in got.values())
    assert run(module, x, x, padding, need_weights=True)[1].isfinite().all()
    near = 0.01 if dtype == torch.float16 else 0.08
    assert_same({key: value.float() for key, value in got.items()}, wanted, rtol=near, atol=2 * near)


def by_distance(dtype: torch.dtype, by_query: float, by_head: float) -> tuple[Any, Tensor, Tensor]:
    """Return one head whose scores are 0, with P_d = d / 1000, x·w and U as given; its input; P_{t-s} for 41 words."""
    module, x = make("dman(max_distance=40)", heads=1), torch.zeros(41, 1, DIM)
    x[:, :, 0] = by_query
    with torch.no_grad():
        for parameter in (module.q_proj.weight, module.q_proj.bias, module.query_mask.weight):
            parameter.zero_()
        module.query_mask.weight[0, 0] = 1
        module.head_mask.fill_(by_head)
        module.distance_mask.copy_(torch.arange(-40, 41) / 1000)
    module = module.to(dtype)
    return module, x.to(dtype), module.distance_mask[(torch.arange(41)[:, None] - torch.arange(41)) + 40]


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("by_query", "by_head"), [(-5, -3), (-40, 40), (-40.01, 40)])
def test_the_mask_is_summed_in_fp32(by_query: float, by_head: float, dtype: torch.dtype, autocast: bool) -> None:
    """Entries of P 1e-3 apart under x·w + U, where numbers in half precision are 8e-3 or more apart."""
    module, x, P = by_distance(dtype, by_query, by_head)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        got = module.score_bias(Call(Frame(41, 41), x, *module.project(x, x, x)))
    wanted = torch.sigmoid(P.double() + x[0, 0, 0].double() + by_head).log()
    assert got.dtype == torch.float32
    torch.testing.assert_close(got[0, 0].double(), wanted, rtol=0, atol=1e-5)


@half_precision
def test_a_mask_that_is_nearly_closed_keeps_its_differences(dtype: torch.dtype) -> None:
    """With U = -15, log M is near -15, where numbers in bf16 are 1/16 apart: the keys' common part is subtracted."""
    module, x, P = by_distance(dtype, 0, -15)
    with torch.no_grad():
        module.distance_mask.mul_(20)  # P from -0.8 to 0.8
        module.distance_mask[:40] = 10  # entries of the future, which is hidden here
    visible, unpadded = torch.ones(41, 41).tril(), torch.zeros(1, 41, dtype=torch.bool)
    got = run(module, x, x, unpadded, causal=True, need_weights=True)[1][0].double()
    M = torch.sigmoid(20 * P.double() - 15) * visible
    wanted, rounded = M / M.sum(-1, keepdim=True), torch.softmax(M.log().to(dtype).double(), -1)
    near = 0.002 if dtype == torch.float16 else 0.016
    error, error_by_hand = ((value / wanted - 1)[visible.bool()].abs().max() for value in (got, rounded))
    assert error < near < error_by_hand


def test_initial_masks() -> None:
    """P and U from N(0, 1), w Xavier, as in the authors' code."""
    torch.manual_seed(3)
    module = DynamicMaskAttention(512, 512, max_distance=10_000)
    for table in (module.distance_mask.detach(), module.head_mask.detach()):
        n = table.numel()
        assert table.mean().abs() < 4 / n**0.5
        assert (table.std() - 1).abs() < 4 / (2 * n) ** 0.5
    w, bound = module.query_mask.weight, (6 / 513) ** 0.5
    assert 0.97 * bound < w.abs().max() <= bound
    assert (w.std() - bound / 3**0.5).abs() < 0.1 * bound
