"""The device and precision of the contract suite (support/device.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from support import device
from support.models import case


@pytest.fixture(autouse=True)
def as_before(request: pytest.FixtureRequest) -> Iterator[None]:
    """Choose again what the command line has asked for."""
    yield
    device.choose(request.config.getoption("--device"), request.config.getoption("--precision"))


@pytest.mark.parametrize(("precision", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_models_and_tolerances_follow_the_precision(precision: str, dtype: torch.dtype) -> None:
    device.choose("cpu", precision)
    assert {parameter.dtype for parameter in case("transformer_mma_tiny").parameters()} == {dtype}
    one = torch.ones(3)
    device.assert_close(one.to(dtype), one + 0.01, rtol=0, atol=0)
    with pytest.raises(AssertionError, match="not close"):
        device.assert_close(one, one + 0.2, rtol=0, atol=0)
    assert device.least_effect(1e-4) > 1e-4 and device.least_effect(0.5) == 0.5


def test_fp32_is_as_strict_as_the_tests_say() -> None:
    device.choose("cpu", "fp32")
    assert case("transformer_mma_tiny").encoder.layers[0].fc1.weight.dtype == torch.float32
    one = torch.ones(3)
    device.assert_same(one, one.clone())
    for check in (device.assert_same, lambda a, b: device.assert_close(a, b, rtol=0, atol=1e-7)):
        with pytest.raises(AssertionError):
            check(one, one + 1e-6)
    with pytest.raises(AssertionError, match="dtype"):
        device.assert_close(one, one.double(), rtol=0, atol=1)
    device.choose("cuda", "fp32")
    for check in (device.assert_same, lambda a, b: device.assert_close(a, b, rtol=0, atol=1e-7)):
        check(one, one + 1e-6)  # sums in another order
        with pytest.raises(AssertionError):
            check(one, one + 1e-3)


def test_a_device_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert device.lacking("cpu") == ""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "sees no GPU" in device.lacking("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert device.lacking("cuda") == ""
