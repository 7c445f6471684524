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


def test_models_and_tolerances_follow_the_precision() -> None:
    one = torch.ones(3)
    device.choose("cpu", "bf16")
    assert {parameter.dtype for parameter in case("transformer_mma_tiny").parameters()} == {torch.bfloat16}
    device.assert_close(one.bfloat16(), one + 0.01, rtol=0, atol=0)
    assert device.least_effect(1e-4) > 1e-4 and device.least_effect(0.5) == 0.5
    for chosen, gap in (("cpu", 1e-6), ("cuda", 1e-3)):  # on a GPU sums have another order
        device.choose(chosen, "fp32")
        for check in (device.assert_same, lambda a, b: device.assert_close(a, b, rtol=0, atol=1e-7)):
            check(one, one.clone())
            with pytest.raises(AssertionError):
                check(one, one + gap)
