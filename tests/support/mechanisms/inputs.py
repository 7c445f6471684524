"""Random inputs, masks and small tools for the tests of kernels and mechanisms."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_localattn.core import banded
from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.grammar.build import attention
from fairseq_localattn.kernels import dense

DIM, HEADS = 16, 4


def make(
    text: str, site: str = "encoder", channels: int = DIM, heads: int = HEADS, *, std: float = 0.5, **options: Any
) -> Any:
    """Return the attention of a text in evaluation, always with the same normal parameters."""
    torch.manual_seed(3)
    cross = site == "cross"
    options = {"self_attention": not cross, "encoder_decoder_attention": cross, **options}
    module = attention(text, channels, heads, site=site, **options).eval()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if not name.endswith("window_root"):  # a Gaussian's width by head, which may not be near 0
                parameter.normal_(std=std)
    return module


class Itself(nn.Module):
    """Self-attention as a module of one argument, which torch.jit.trace asks for."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        return self.module(x, x, x, need_weights=False)[0]


def compute_by(module: nn.Module, implementation: str) -> None:
    """Let all attentions of a module compute by one implementation, to compare it with others of the same weights."""
    for part in module.modules():
        if isinstance(part, LocalAttention):
            part.implementation = implementation


def random_case(lengths: list[int], left: bool, seed: int = 0, channels: int = DIM) -> tuple[Tensor, Tensor]:
    """Return random sentences of these lengths, T×B×C in float64, and their padding B×T (True = padding)."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(max(lengths), len(lengths), channels, generator=generator, dtype=torch.float64)
    positions = torch.arange(max(lengths))
    n = torch.tensor(lengths)[:, None]
    return x, positions < max(lengths) - n if left else positions >= n


def future(length: int) -> Tensor:
    """Return fairseq's causal mask, T×T, -inf above the diagonal."""
    return torch.full((length, length), float("-inf"), dtype=torch.float64).triu(1)


def run(
    module: nn.Module, x: Tensor, memory: Tensor, padding: Tensor, causal: bool = False, **kwargs: bool
) -> tuple[Tensor, Tensor]:
    """Return a module's output and weights; as in fairseq there is no padding mask without padding."""
    mask = future(len(x)).to(x.dtype) if causal else None
    kwargs.setdefault("need_weights", False)
    return module(x, memory, memory, key_padding_mask=padding if padding.any() else None, attn_mask=mask, **kwargs)


def outcome(module: nn.Module, x: Tensor, memory: Tensor, forward: Callable[..., Tensor]) -> dict[str, Tensor]:
    """Return what ``forward(x, memory)`` gives, and the gradients of both and of every parameter, by name."""
    itself, x = memory is x, x.detach().requires_grad_()
    memory = x if itself else memory.detach().requires_grad_()
    module.zero_grad()
    output = forward(x, memory)
    # Sums with fixed random weights, so that no gradient vanishes by symmetry.
    probe = torch.randn(output.shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    (output * probe.to(output.dtype)).sum().backward()
    gradients = {name: gradient(p) for name, p in module.named_parameters()}
    return {"output": output.detach(), "input": gradient(x), "memory": gradient(memory), **gradients}


def assert_same(got: dict[str, Tensor], wanted: dict[str, Tensor], rtol: float = 1e-8, atol: float = 1e-9) -> None:
    """Assert that two results by name agree."""
    for name, value in wanted.items():
        torch.testing.assert_close(got[name], value, rtol=rtol, atol=atol, msg=labelled(name))


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
