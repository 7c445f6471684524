"""Differentiable windows (DiffWin): the soft mask by its equations, its precision, and segments that are kept."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairseq_localattn.core.attention import Frame
from fairseq_localattn.core.call import Call
from fairseq_localattn.mechanisms.windowed import (
    AdditiveWindowAttention,
    MultiplicativeWindowAttention,
    Segments,
    segment_window,
    soft_window,
)
from support.mechanisms.inputs import DIM, HEADS, random_case, run
from support.mechanisms.references import window_mask

MODULES: dict[str, Any] = {
    "mw": MultiplicativeWindowAttention,
    "mw-renormalised": partial(MultiplicativeWindowAttention, renormalise=True),
    "aw": AdditiveWindowAttention,
}


def make(name: str, size: int = 1, **kwargs: Any) -> Any:
    """Return a module of :data:`MODULES` in evaluation mode, with fixed weights."""
    torch.manual_seed(1)
    return MODULES[name](DIM, HEADS, segment_size=size, **{"self_attention": True, **kwargs}).eval()


def distribution(length: int, seed: int) -> Tensor:
    return torch.randn(length, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).softmax(0)


def one_hot(position: int, length: int) -> Tensor:
    """Return φ_k of Eq. 4; positions count from 1."""
    return torch.eye(length, dtype=torch.float64)[position - 1]


def window(left: Tensor, right: Tensor, size: int = 1) -> Tensor:
    """Compute the soft mask of two pointers, S each; in the segment form if ``size`` is above 1."""
    pointers = torch.stack([left, right])
    if size == 1:
        return soft_window(pointers)
    return segment_window(pointers[:, None, None, None], Segments.of(None, left.size(0), size, left.device))[0, 0, 0]


def test_figure_1() -> None:
    """l = 3, r = 8 among n = 10 give keys 3 to 8, also with the ends exchanged (Eq. 9)."""
    wanted = torch.tensor([0, 0, 1, 1, 1, 1, 1, 1, 0, 0], dtype=torch.float64)
    assert torch.equal(window(one_hot(3, 10), one_hot(8, 10)), wanted)
    assert torch.equal(window(one_hot(8, 10), one_hot(3, 10)), wanted)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.integers(0, 100))
def test_eq_9_is_the_expected_window(length: int, seed: int) -> None:
    """The expectation of [l ≤ i ≤ r] + [r ≤ i ≤ l] over independent l and r, as in the Appendix, by enumeration."""
    left, right = distribution(length, seed), distribution(length, seed + 1)
    expected = torch.zeros(length, dtype=torch.float64)
    for l, r, i in product(range(length), repeat=3):  # noqa: E741
        expected[i] += left[l] * right[r] * ((l <= i <= r) + (r <= i <= l))
    torch.testing.assert_close(window(left, right), expected)


def test_figure_2() -> None:
    """With b = 2 a key has the mask of its segment, and sums run to the ends of segments."""
    a = torch.tensor([0.1, 0.2, 0.3, 0.15, 0.25], dtype=torch.float64)
    to_the_end = torch.tensor([0.3, 0.3, 0.75, 0.75, 1.0], dtype=torch.float64)  # φ J
    from_the_start = torch.tensor([1.0, 1.0, 0.7, 0.7, 0.25], dtype=torch.float64)  # φ Jᵀ
    first, last = one_hot(1, 5), one_hot(5, 5)
    torch.testing.assert_close(window(first, a, 2), from_the_start + torch.tensor([a[:2].sum(), a[:2].sum(), 0, 0, 0]))
    torch.testing.assert_close(window(a, last, 2), to_the_end + torch.tensor([0, 0, 0, 0, a[4]]))


# ---------------------------------------------------------------------------------------------- numerics


def test_a_small_mask_keeps_its_relative_precision() -> None:
    """Both pointers at the first key and attention at the last, all of them sharp: renormalised, fp32 is near fp64."""
    module = make("mw-renormalised")
    pointer, scores = torch.zeros(1, HEADS, 1, 10), torch.zeros(1, HEADS, 1, 10)
    pointer[..., 0], scores[..., -1] = 18, 18
    call = Call(Frame(1, 10), scores, q=scores, k=scores, v=scores)
    found = {}
    for dtype in (torch.float32, torch.float64):
        module.pointer_scores = lambda extra, dtype=dtype: torch.stack([pointer, pointer]).to(dtype)
        found[dtype] = module.reweight(scores.to(dtype).softmax(-1), call)
    assert found[torch.float64][..., 1:].max() > 1e-3, "nothing small is left to compare"
    torch.testing.assert_close(found[torch.float32].double(), found[torch.float64], rtol=1e-5, atol=0)


@pytest.mark.parametrize(("dtype", "size"), [(torch.float16, 1), (torch.bfloat16, 3)])
def test_the_soft_mask_is_computed_in_fp32(size: int, dtype: torch.dtype) -> None:
    """A flat pointer over 300 keys: running sums in half precision would stand still."""
    module = make("aw", size)
    mask = module.soft_mask(Frame(1, 300), torch.zeros(2, 1, HEADS, 1, 300, dtype=dtype))
    assert mask.dtype == torch.float32
    wanted = window_mask(torch.full((300,), 1 / 300).double(), torch.full((300,), 1 / 300).double(), size)
    torch.testing.assert_close(mask[0, 0, 0].double(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kdim", [DIM, 3 * DIM])
def test_projections_begin_like_those_of_queries_and_keys(kdim: int) -> None:
    """Xavier's bounds, with fairseq's gain of 1/√2 where all channels are the same."""
    torch.manual_seed(1)
    module = AdditiveWindowAttention(DIM, HEADS, kdim=kdim, vdim=kdim, encoder_decoder_attention=True)
    for name, parameter in module.named_parameters():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            gain = 2**-0.5 if kdim == DIM else 1
            bound = gain * (6 / sum(parameter.shape)) ** 0.5
            assert 0.9 * bound < parameter.abs().max() <= bound, name


@pytest.mark.parametrize("name", MODULES)
def test_a_mask_that_closes_what_is_attended_to_stays_finite(name: str) -> None:
    """Pointers at the last key, attention at the first: the window there is 0, to rounding."""
    module = make(name)
    x, padding = random_case([6], left=False)
    x = x.float()
    last = torch.full((1, HEADS, 6, 6), -1000.0)
    last[..., -1] = 0
    weights = torch.zeros(1, HEADS, 6, 6)
    weights[..., 0] = 1
    module.pointer_scores = lambda extra: torch.stack([last, last])
    call = Call(Frame(6, 6), x, *module.project(x, x, x))
    if name == "aw":
        local = torch.zeros(1, HEADS, 6, 1)
        assert module.score_bias(call.with_extra({"local_q_proj": local, "local_k_proj": local})).isfinite().all()
    else:
        masked = module.reweight(weights, call)
        assert masked.isfinite().all() and (masked.abs() < 1e-5).all()


def test_segments_are_those_of_the_batch_at_hand() -> None:
    """Cached segments are not used for a batch with another padding, or with none."""
    site = {"self_attention": False, "encoder_decoder_attention": True}
    module, (x, _) = make("aw", 3, **site).double(), random_case([2] * 2, left=True, seed=3)

    def compare(keys: Tensor, padding: Tensor) -> None:
        fresh = make("aw", 3, **site).double()
        torch.testing.assert_close(run(module, x, keys, padding)[0], run(fresh, x, keys, padding)[0])

    for lengths in ([8, 5], [8, 5], [8, 4], [8, 8], [5, 8], [6, 5], [8, 5]):
        keys, padding = random_case(lengths, left=True)
        compare(keys, padding)
    padding[0, :2] = True  # the same tensor, another batch
    compare(keys, padding)
