"""Composed attention beside the equations of tests/mechanisms: cut windows, precision, learned masks."""

from __future__ import annotations

import pytest
import torch

from fairseq_localattn.grammar.build import attention
from support.mechanisms.inputs import take_long_ways

DIM, HEADS, LENGTH = 24, 4, 7


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize(
    ("with_gradient", "dtype"), [(False, torch.float32), (True, torch.float32), (True, torch.float16)]
)
def test_a_window_whose_keys_are_all_cut_off(
    long: bool, with_gradient: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its keys share the weight; padding and the future stay hidden."""
    if long:
        take_long_ways(monkeypatch)
    torch.manual_seed(3)
    module = attention("local(window=2) & gauss(width=3, cut=true)", DIM, HEADS, self_attention=True, site="decoder")
    module.to(dtype)
    x, future = torch.randn(30, 1, DIM, dtype=dtype), torch.ones(30, 30, dtype=torch.bool).triu(1)
    changed = x.clone()
    changed[20:] += 1
    with torch.set_grad_enabled(with_gradient):
        for each in (x, changed):
            each.requires_grad_(with_gradient)
        first, other = (module(y, y, y, attn_mask=future, need_weights=False)[0][:20] for y in (x, changed))
        exact, _ = module(x, x, x, attn_mask=future, need_weights=True)
    near = 2e-3 if dtype == torch.float16 else 1e-5
    torch.testing.assert_close(first, other, rtol=0, atol=near)
    torch.testing.assert_close(first, exact[:20], rtol=0, atol=near)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_terms_far_from_0_in_half_precision(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bell far from a query's window is as exact in the band as in the products of all keys."""
    torch.manual_seed(3)
    module = attention("local(window=2) & gauss", DIM, HEADS, self_attention=True).to(dtype)
    for weight in module.parameters():
        weight.data *= 2
    x = torch.randn(300, 1, DIM, dtype=dtype)
    with torch.no_grad():
        dense = module(x, x, x, need_weights=False)[0]
        take_long_ways(monkeypatch)
        band = module(x, x, x, need_weights=False)[0]
    torch.testing.assert_close(band.float(), dense.float(), rtol=0, atol=0.05)


TEXTS = ["sman(boundary=2)", "csan(window=3)", "local(window=2) & alibi", "1*local(window=1) + 3*rope"]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("long", [False, True])
def test_attn_mask_may_need_a_gradient(text: str, long: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A learned bias over positions gets the gradient that it has beside returned weights."""
    if long:
        take_long_ways(monkeypatch)
    torch.manual_seed(3)
    module = attention(text, DIM, HEADS, self_attention=True).double()
    x = torch.randn(LENGTH, 2, DIM, dtype=torch.float64)
    found = []
    for need_weights in (False, True):
        mask = torch.randn(LENGTH, LENGTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        mask.requires_grad_()
        out, _ = module(x, x, x, attn_mask=mask, need_weights=need_weights)
        found.append(torch.autograd.grad(out.square().sum(), mask)[0])
    assert found[0].abs().max() > 1e-3
    torch.testing.assert_close(*found)
