"""Differentiable windows against their equations, written with loops and matrices: masks, outputs, every gradient."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairseq_localattn.mechanisms.windowed import (
    AdditiveWindowAttention,
    Segments,
    WindowAttention,
    segment_window,
    soft_window,
)
from support.mechanisms import references
from support.mechanisms.inputs import DIM, LENGTHS, gradient, labelled, random_case
from support.mechanisms.windowed import MODULES, make, run


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


# ---------------------------------------------------------------------------------------------- Eq. 3-6, Figure 1


def test_figure_1() -> None:
    """l = 3, r = 8 among n = 10 give keys 3 to 8, also with the ends exchanged (Eq. 9)."""
    wanted = torch.tensor([0, 0, 1, 1, 1, 1, 1, 1, 0, 0], dtype=torch.float64)
    assert torch.equal(window(one_hot(3, 10), one_hot(8, 10)), wanted)
    assert torch.equal(window(one_hot(8, 10), one_hot(3, 10)), wanted)


# ---------------------------------------------------------------------------------------------- Eq. 9, Appendix


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.integers(0, 100))
def test_eq_9_is_the_expected_window(length: int, seed: int) -> None:
    """The expectation of [l ≤ i ≤ r] + [r ≤ i ≤ l] over independent l and r, as in the Appendix, by enumeration."""
    left, right = distribution(length, seed), distribution(length, seed + 1)
    expected = torch.zeros(length, dtype=torch.float64)
    for l, r, i in product(range(length), repeat=3):  # noqa: E741
        expected[i] += left[l] * right[r] * ((l <= i <= r) + (r <= i <= l))
    torch.testing.assert_close(window(left, right), expected)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 12), st.integers(0, 100))
def test_eq_9_equals_the_triangular_products(length: int, seed: int) -> None:
    left, right = distribution(length, seed), distribution(length, seed + 1)
    mask = window(left, right)
    torch.testing.assert_close(mask, references.window_mask(left, right, 1))
    assert mask.min() >= -1e-12
    assert (mask <= 1 + left * right + 1e-12).all(), "above 1 by more than both ends meeting at the key"


# ---------------------------------------------------------------------------------------------- Eq. 10, 11, Figure 2


def test_figure_2() -> None:
    """With b = 2 a key has the mask of its segment, and sums run to the ends of segments."""
    a = torch.tensor([0.1, 0.2, 0.3, 0.15, 0.25], dtype=torch.float64)
    to_the_end = torch.tensor([0.3, 0.3, 0.75, 0.75, 1.0], dtype=torch.float64)  # φ J
    from_the_start = torch.tensor([1.0, 1.0, 0.7, 0.7, 0.25], dtype=torch.float64)  # φ Jᵀ
    first, last = one_hot(1, 5), one_hot(5, 5)
    torch.testing.assert_close(window(first, a, 2), from_the_start + torch.tensor([a[:2].sum(), a[:2].sum(), 0, 0, 0]))
    torch.testing.assert_close(window(a, last, 2), to_the_end + torch.tensor([0, 0, 0, 0, a[4]]))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 14), st.integers(1, 16), st.integers(0, 100))
@example(10, 5, 0)
@example(11, 5, 0)
@example(4, 5, 0)
def test_eq_11_equals_the_products_with_j(length: int, size: int, seed: int) -> None:
    left, right = distribution(length, seed), distribution(length, seed + 1)
    got = window(left, right, size)
    torch.testing.assert_close(got, references.window_mask(left, right, size))
    for start in range(0, length, size):
        assert got[start : start + size].unique().numel() == 1, "keys of one segment differ"


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=3), st.booleans(), st.integers(1, 9), st.integers(0, 100))
def test_gradients_of_both_windows(lengths: list[int], left: bool, size: int, seed: int) -> None:
    """gradcheck in double precision; padded keys have no part in the pointers and in the loss."""
    keys = max(1, *lengths)
    padding = torch.tensor([[j < keys - n if left else j >= n for j in range(keys)] for n in lengths])
    scores = torch.randn(2, len(lengths), 2, 3, keys, generator=torch.Generator().manual_seed(seed)).double()
    real = ~padding[:, None, None, :]
    segments = Segments.of(padding, keys, size, padding.device)

    def masks(scores: Tensor) -> tuple[Tensor, Tensor]:
        pointers = scores.masked_fill(~real, -1e9).softmax(-1) * real
        return soft_window(pointers) * real, segment_window(pointers, segments) * real

    assert torch.autograd.gradcheck(masks, scores.requires_grad_())


# ---------------------------------------------------------------------------------------------- Eq. 13, 16, 17


def expected(module: WindowAttention, x: Tensor, keys: Tensor, padding: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """Return the reference's output T×B×C, and its weights averaged over heads, B×T×S."""
    kind = "aw" if isinstance(module, AdditiveWindowAttention) else "mw"
    outputs, means = [], []
    for b in range(x.size(1)):

        def split(name: str, sentence: Tensor) -> Tensor:
            projection: Any = module.get_submodule(f"{name}_proj")
            projected = sentence @ projection.weight.T + projection.bias
            return torch.stack(projected.chunk(module.num_heads, dim=-1))

        names = {"global": ("q", "k"), **{n: (f"{n}_q", f"{n}_k") for n in ("left", "right", "local")}}
        by_name = {
            name: (split(q, x[:, b]), split(k, keys[:, b]))
            for name, (q, k) in names.items()
            if name != "local" or kind == "aw"
        }
        renormalise = getattr(module, "renormalise", False)
        weights = references.window_weights(
            kind, by_name, ~padding[b], module.segment_size, causal=causal, renormalise=renormalise
        )
        joined = torch.cat(list(weights @ split("v", keys[:, b])), dim=-1)
        outputs.append(joined @ module.out_proj.weight.T + module.out_proj.bias)
        means.append(weights.mean(0))
    return torch.stack(outputs, dim=1), torch.stack(means)


def check(module: WindowAttention, x: Tensor, keys: Tensor, padding: Tensor, causal: bool) -> None:
    """Compare output, weights, and the gradients of inputs and parameters with the reference, at real queries."""
    module = module.double()
    itself = keys is x
    real = (~padding).T.to(x.dtype)[..., None] if itself else torch.ones(x.size(0), x.size(1), 1, dtype=x.dtype)
    probe = torch.randn(x.shape, generator=torch.Generator().manual_seed(7), dtype=x.dtype) * real
    results = []
    for forward in (run, expected):
        inputs = x.clone().requires_grad_()
        memory = inputs if itself else keys.clone().requires_grad_()
        module.zero_grad()
        out, _ = forward(module, inputs, memory, padding, causal=causal)
        (out * probe).sum().backward()
        gradients = [(name, gradient(p)) for name, p in module.named_parameters()]
        results.append([("output", out * real), ("input", inputs.grad), ("keys", memory.grad), *gradients])
    for (name, got), (_, wanted) in zip(*results, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-8, atol=1e-9, msg=labelled(name))
    asked, means = run(module, x, keys, padding, causal=causal, need_weights=True)
    _, wanted = expected(module, x, keys, padding, causal=causal)
    here = ~padding if itself else torch.ones(x.size(1), x.size(0), dtype=torch.bool)
    torch.testing.assert_close(means[here], wanted[here], rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(asked * real, out * real)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(st.sampled_from([*MODULES]), LENGTHS, st.booleans(), st.booleans())
@example("aw", [4, 2, 4, 1], True, True)  # as many sentences as positions: a wrong axis would fit
@example("mw", [4, 4, 4, 4], False, True)
def test_token_windows_equal_equations(name: str, lengths: list[int], left: bool, causal: bool) -> None:
    x, padding = random_case(lengths, left)
    check(make(name), x, x, padding, causal=causal)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(st.sampled_from([*MODULES]), LENGTHS, st.booleans(), st.integers(1, 6))
@example("aw", [11, 7, 5, 1], True, 5)
@example("mw", [11, 7, 5, 1], True, 2)
def test_segment_windows_equal_equations(name: str, lengths: list[int], left: bool, size: int) -> None:
    x, padding = random_case(lengths, left)
    check(make(name, size), x, x, padding, causal=False)


@settings(max_examples=12, deadline=None)
@given(st.sampled_from([*MODULES]), LENGTHS, st.booleans(), st.integers(1, 4), st.integers(1, 5))
def test_windows_on_an_encoder_equal_equations(
    name: str, lengths: list[int], left: bool, size: int, queries: int
) -> None:
    """In cross-attention the keys are another sequence, with another number of channels."""
    keys, padding = random_case(lengths, left)
    keys = torch.cat([keys, keys[..., :3]], dim=-1)
    x, _ = random_case([queries] * len(lengths), left, seed=2)
    module = make(name, size, self_attention=False, encoder_decoder_attention=True, kdim=DIM + 3, vdim=DIM + 3)
    check(module, x, keys, padding, causal=False)
