"""The convolution of QANet's blocks against loops: outputs, every gradient, padding, decoding, precision, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairseq_localattn.kernels.convolution import depthwise_convolution, full_convolution
from fairseq_localattn.mechanisms.local_convolution import FORMS, LocalConvolution
from support.mechanisms import other_references as references
from support.mechanisms.inputs import DIM, LENGTHS, gradient, labelled, random_case

every_form = pytest.mark.parametrize("form", FORMS)


def make(form: str, **kwargs: Any) -> LocalConvolution:
    """Return a convolution in float64, always with the same weights, and with biases that are not 0."""
    torch.manual_seed(1)
    module = LocalConvolution(DIM, form=form, **kwargs).double()
    with torch.no_grad():
        for key, parameter in module.named_parameters():
            if key.endswith("bias"):
                parameter.normal_()
    return module


def expected(module: LocalConvolution, x: Tensor, padding: Tensor) -> Tensor:
    """Return the reference's output T×B×C."""
    full = module.form == "full"
    names = ("weight", "weight", "bias") if full else ("taps", "point.weight", "point.bias")
    taps, point, bias = (module.get_parameter(name) for name in names)
    rows = [references.convolution(x[:, b], ~padding[b], taps, point, bias, module.causal) for b in range(x.size(1))]
    return torch.stack(rows, dim=1)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(FORMS), LENGTHS, st.booleans(), st.booleans(), st.sampled_from([1, 3, 7]))
@example("separable", [4, 2, 4, 1], True, False, 3)  # as many sentences as positions: a wrong axis would fit
@example("full", [4, 4, 4, 4], False, True, 7)
def test_equals_equations(form: str, lengths: list[int], left: bool, causal: bool, kernel: int) -> None:
    module, (x, padding) = make(form, kernel=kernel, causal=causal), random_case(lengths, left)
    real = (~padding).T.to(x.dtype)[..., None]
    probe = torch.randn(x.shape, generator=torch.Generator().manual_seed(7), dtype=x.dtype) * real
    results = []
    for forward in (module, lambda *args: expected(module, *args)):
        inputs = x.clone().requires_grad_()
        module.zero_grad()
        out = forward(inputs, padding)
        (out * probe).sum().backward()
        gradients = [(name, gradient(p)) for name, p in module.named_parameters()]
        results.append([("output", out * real), ("input", inputs.grad), *gradients])
    for (name, got), (_, wanted) in zip(*results, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-10, msg=labelled(name))


def test_both_kernels_equal_torchs() -> None:
    """Against conv1d over B×C×T, with numerical gradients besides."""
    x = torch.randn(9, 3, 4, dtype=torch.float64, requires_grad=True)
    taps = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(4, 4, 5, dtype=torch.float64)
    image = x.permute(1, 2, 0)
    wanted = F.conv1d(image, taps.T[:, None], groups=4).permute(2, 0, 1)
    torch.testing.assert_close(depthwise_convolution(x, taps), wanted)
    torch.testing.assert_close(full_convolution(x, weight), F.conv1d(image, weight).permute(2, 0, 1))
    assert torch.autograd.gradcheck(depthwise_convolution, (x, taps))


@every_form
@pytest.mark.parametrize("left", [True, False])
def test_padding_changes_nothing(form: str, left: bool) -> None:
    """What stands at padded positions, however large, and how many there are."""
    module, (x, padding) = make(form), random_case([9, 4], left)
    wanted = module(x, padding)
    torch.testing.assert_close(module(x.masked_fill(padding.T[..., None], 1e9), padding), wanted)
    alone = x[5:, 1:] if left else x[:4, 1:]
    torch.testing.assert_close(module(alone)[:, 0], wanted[~padding[1], 1])


@every_form
@pytest.mark.parametrize("kernel", [1, 3, 7])
def test_word_by_word_with_reordered_rows(form: str, kernel: int) -> None:
    """The last K-1 inputs follow the beam, those that were padding stay 0, and several words may come at once."""
    module = make(form, kernel=kernel, causal=True)
    x, padding = random_case([10, 7, 10], left=True)
    order, state = torch.arange(3), dict[str, Any]()
    for start, end in ((0, 1), (1, 4), (4, 5), (5, 6), (6, 10)):
        if start == 4:
            order = torch.tensor([1, 2, 1])
            module.reorder_incremental_state(state, order)
        step = module(x[start:end, order], padding[order, start:end], state)
        full = module(x[:, order], padding[order])
        torch.testing.assert_close(step, full[start:end])


def test_state_is_not_shared_between_sublayers() -> None:
    state: dict = {}
    x = torch.randn(1, 2, DIM, dtype=torch.float64)
    for _ in range(2):
        make("separable", causal=True)(x, None, state)
    assert len(state) == 2


@every_form
def test_autocast(form: str) -> None:
    module, x = make(form).float(), torch.randn(6, 2, DIM)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = module(x)
        got.sum().backward()
    torch.testing.assert_close(got.float(), module(x), rtol=0.1, atol=0.1)


@every_form
def test_the_input_keeps_its_variance_at_the_start(form: str) -> None:
    torch.manual_seed(1)
    module = LocalConvolution(64, form=form)
    x = torch.randn(500, 4, 64)
    full = form == "full"
    y = full_convolution(x, module.weight) if full else module.point(depthwise_convolution(x, module.taps))
    assert 0.8 < y.var() < 1.25


def test_errors() -> None:
    for kernel in (0, 4, -1):
        with pytest.raises(ValueError, match=f"must be odd and positive, not {kernel}"):
            LocalConvolution(DIM, kernel=kernel)
    with pytest.raises(ValueError, match="unknown form 'dense'"):
        LocalConvolution(DIM, form="dense")
    with pytest.raises(ValueError, match="only a causal convolution"):
        make("full")(torch.randn(1, 1, DIM).double(), None, {})
