"""The device and precision of the contract suite: ``--device`` and ``--precision`` of pytest (tests/conftest.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

DEVICES = ("cpu", "cuda")
# The type of the models' parameters, and the least tolerance of a comparison, which gradients of a batch need.
PRECISIONS = {"fp32": (torch.float32, 0.0), "bf16": (torch.bfloat16, 0.06), "fp16": (torch.float16, 0.02)}
ON_GPU = 2e-5  # the least tolerance in fp32 on a GPU, whose kernels sum in another order than fairseq's own attention
Module = TypeVar("Module", bound=nn.Module)


@dataclass
class _Choice:
    device: torch.device = torch.device("cpu")
    dtype: torch.dtype = torch.float32
    least: float = 0.0


_chosen = _Choice()


def choose(device: str, precision: str) -> None:
    """Let the contract suite run on a device of DEVICES, in a precision of PRECISIONS."""
    _chosen.device = torch.device(device)
    _chosen.dtype, _chosen.least = PRECISIONS[precision]
    _chosen.least = max(_chosen.least, ON_GPU if device == "cuda" else 0.0)
    # cuDNN would round the factors of convolutions in fp32 to ten bits.
    torch.backends.cudnn.allow_tf32 = False


def lacking(device: str) -> str:
    """Return why the suite cannot run on a device; empty where it can."""
    if device == "cuda" and not torch.cuda.is_available():
        return f"torch {torch.__version__} sees no GPU"
    return ""


def on_device(tensor: Tensor) -> Tensor:
    """Return the tensor on the device of the suite."""
    return tensor.to(_chosen.device)


def place(model: Module) -> Module:
    """Move a model to the device of the suite, and its parameters to the precision."""
    return model.to(_chosen.device, _chosen.dtype)


def assert_close(
    actual: Tensor, expected: Tensor, *, rtol: float, atol: float, msg: Callable[[str], str] | None = None
) -> None:
    """Raise AssertionError unless two tensors are near each other, as far as the precision of the suite can tell."""
    if _chosen.least:  # types may differ: what a search scores is fp32
        actual, expected = actual.float(), expected.float()
    rtol, atol = max(rtol, _chosen.least), max(atol, _chosen.least)
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol, msg=msg)


def assert_same(actual: Tensor, expected: Tensor) -> None:
    """Raise AssertionError unless two results of one computation are equal: bit by bit on a CPU.

    On a GPU sums by atomic operations have no order, so there rounding errors are let pass.
    """
    if _chosen.device.type == "cpu":
        assert torch.equal(actual, expected)
    else:
        assert_close(actual, expected, rtol=1e-5, atol=1e-6)


def least_effect(effect: float) -> float:
    """Return the least change that counts as an effect: ``effect``, or what the precision of the suite can show."""
    return max(effect, _chosen.least / 8)
