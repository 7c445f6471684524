"""Random inputs, masks and small tools for the tests of kernels and mechanisms."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_localattn.core import banded
from fairseq_localattn.kernels import dense

DIM, HEADS = 12, 4
# Lengths of the sentences of a batch.
LENGTHS = st.lists(st.integers(1, 11), min_size=1, max_size=3)


def random_case(lengths: list[int], left: bool, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return random sentences of these lengths, T×B×C in float64, and their padding B×T (True = padding)."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(max(lengths), len(lengths), DIM, generator=generator, dtype=torch.float64)
    positions = torch.arange(max(lengths))
    n = torch.tensor(lengths)[:, None]
    return x, positions < max(lengths) - n if left else positions >= n


def future(length: int) -> Tensor:
    """Return fairseq's causal mask, T×T, -inf above the diagonal."""
    return torch.full((length, length), float("-inf"), dtype=torch.float64).triu(1)


def random_heads(
    batch: int, heads: int, *, queries: int, keys: int, channels: int, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Return random q, k and v in float64 that need a gradient, B×H×·×D."""
    generator = torch.Generator().manual_seed(seed)

    def draw(length: int) -> Tensor:
        x = torch.randn(batch, heads, length, channels, generator=generator, dtype=torch.double)
        return x.requires_grad_()

    return draw(queries), draw(keys), draw(keys)


def cut_into_blocks(patch: pytest.MonkeyPatch, size: int) -> None:
    """Make banded attention cut sentences longer than ``size`` into blocks of at least ``size`` queries."""
    patch.setattr(banded, "MIN_BLOCK", size)
    patch.setattr(banded, "ONE_BLOCK_SCORES", size)


def take_long_ways(patch: pytest.MonkeyPatch, size: int = 3) -> None:
    """Take the code paths of long sentences for short ones: bands, small blocks, the causal kernel."""
    cut_into_blocks(patch, size)
    patch.setattr(banded, "BANDED_FROM", 1)
    patch.setattr(dense, "SKIPPED_FROM", 1)


def allow_tensors_without_data(patch: pytest.MonkeyPatch) -> None:
    """Let attention run on the device ``meta``, of which torch cannot tell whether autocast is on.

    Whatever reads a value, and would wait for a GPU, fails there.
    """
    patch.setattr(torch, "is_autocast_enabled", lambda *_: False)
    patch.setattr(torch, "autocast", lambda *_, **__: nullcontext())


class LargestTensor(TorchDispatchMode):
    """A mode that records in ``size`` the number of elements of the largest tensor made inside of it."""

    size = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(tensor, Tensor):
                self.size = max(self.size, tensor.numel())
        return out


def gradient(x: Tensor) -> Tensor:
    """Return a copy of the gradient of x, which must have one."""
    assert x.grad is not None
    return x.grad.clone()


def labelled(name: str) -> Callable[[str], str]:
    """Return a ``msg`` for torch.testing.assert_close that puts a name in front of the message."""
    return lambda message: f"{name}: {message}"
