"""The convolution of QANet's blocks against loops: outputs, every gradient, decoding, precision, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from fairseq_localattn.mechanisms.local_convolution import FORMS, LocalConvolution
from support.mechanisms.inputs import DIM, assert_same, outcome, random_case

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


def convolution(x: Tensor, real: Tensor, taps: Tensor, point: Tensor, b: Tensor, causal: bool = False) -> Tensor:
    """Compute ReLU(P (Σ_o taps_o ⊙ x_{t+o-K//2}) + b) of one sentence x, T×C; taps K×C, or C×C×K of a full one.

    Padding and what lies outside of the sentence are 0. In the causal case the last tap is at t. A full convolution has
    no P.
    """
    K = taps.size(0) if taps.dim() == 2 else taps.size(2)
    rows = []
    for t in range(x.size(0)):
        row = torch.zeros_like(x[0])
        for o in range(K):
            at = t + o - (K - 1 if causal else K // 2)
            if 0 <= at < x.size(0) and real[at]:
                row = row + (taps[o] * x[at] if taps.dim() == 2 else taps[:, :, o] @ x[at])
        rows.append(row if taps.dim() == 3 else point @ row)
    return torch.relu(torch.stack(rows) + b)


@every_form
@pytest.mark.parametrize("kernel", [1, 3, 7])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("lengths", "left"), [([4, 2, 4, 1], True), ([11, 7, 3], False)])
def test_equals_equations(form: str, lengths: list[int], left: bool, causal: bool, kernel: int) -> None:
    module, (x, padding) = make(form, kernel=kernel, causal=causal), random_case(lengths, left)
    names = ("weight", "weight", "bias") if form == "full" else ("taps", "point.weight", "point.bias")
    real = ~padding.T[..., None]

    def expected(x: Tensor, _: Tensor) -> Tensor:
        taps, point, bias = (module.get_parameter(name) for name in names)
        rows = [convolution(x[:, b], ~padding[b], taps, point, bias, causal) for b in range(x.size(1))]
        return torch.stack(rows, dim=1) * real

    assert_same(outcome(module, x, x, lambda x, _: module(x, padding) * real), outcome(module, x, x, expected))


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
    make(form, kernel=kernel, causal=True)(x[:1], None, state)
    assert len(state) == 2, "sublayers share a state"


@every_form
def test_autocast_and_variance_at_the_start(form: str) -> None:
    module, x = LocalConvolution(64, form=form), torch.randn(500, 4, 64)
    plain = module(x)
    assert 0.8 < 2 * plain.square().mean() < 1.25, "half of it is cut by ReLU"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = module(x)
        got.sum().backward()
    torch.testing.assert_close(got.float(), plain, rtol=0.1, atol=0.1)


def test_errors() -> None:
    for kernel in (0, 4, -1):
        with pytest.raises(ValueError, match=f"must be odd and positive, not {kernel}"):
            LocalConvolution(DIM, kernel=kernel)
    with pytest.raises(ValueError, match="unknown form 'dense'"):
        LocalConvolution(DIM, form="dense")
    with pytest.raises(ValueError, match="only a causal convolution"):
        make("full")(torch.randn(1, 1, DIM).double(), None, {})
