"""Tensors kept for later calls: made anew where a call would keep a stand-in, and never overwritten."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from fairseq_localattn.grammar.torch_module import attention
from fairseq_localattn.kernels import windows
from fairseq_localattn.kernels.kept import Kept, may_keep
from fairseq_localattn.kernels.masks import is_future
from fairseq_localattn.mechanisms import alibi, rotary
from support.mechanisms.inputs import Itself

LENGTHS = count(11)  # each case has a length of its own, of which nothing is kept
KEEPING = ["alibi", "local", "rope", "2*local + 2*(alibi & rope)", "mw(segment_size=2)"]


def _export(module: nn.Module, x: Tensor) -> None:
    torch.export.export(module, (x, x, x))


def _functionalize(module: nn.Module, x: Tensor) -> None:
    with suppress(RuntimeError):  # functorch refuses the autograd functions that attention is computed by
        torch.func.functionalize(lambda y: module(y, y, y)[0])(x)


def _fake(module: nn.Module, x: Tensor) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        module(x, x, x)


def _trace(module: nn.Module, x: Tensor) -> None:
    with suppress(RuntimeError):  # segments cannot be traced
        torch.jit.trace(Itself(module), (x,), check_trace=False)


def _count(module: nn.Module, x: Tensor) -> None:
    with FlopCounterMode(display=False):
        module(x, x, x)


def _infer(module: nn.Module, x: Tensor) -> None:
    with torch.inference_mode():
        module(x, x, x, key_padding_mask=torch.zeros(2, x.size(1), dtype=torch.bool))


@pytest.mark.parametrize("first", [_export, _functionalize, _fake, _trace, _count, _infer])
@pytest.mark.parametrize("text", KEEPING)
def test_training_after_a_transformation(text: str, first: Callable[..., None]) -> None:
    """Output and gradients equal those of a module that nothing was kept for."""
    module, x = attention(text, 32, 4, batch_first=True), torch.randn(2, next(LENGTHS), 32)
    padding = torch.zeros(2, x.size(1), dtype=torch.bool)

    def step() -> list[Tensor]:
        module.zero_grad()
        out = module(x, x, x, key_padding_mask=padding, need_weights=False)[0]
        out.square().sum().backward()
        return [out.detach(), *(p.grad for p in module.parameters() if p.grad is not None)]

    first(module.eval(), x)
    found = step()
    for function in (alibi.linear_entries, alibi.linear_bias, windows.hidden_by_lengths, rotary.rotations):
        function.cached.cache_clear()
    torch.testing.assert_close(found, step())


def test_nothing_overwrites_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[Kept, Any, Any, Tensor]] = []
    call = Kept.__call__

    def record(self: Kept, *args: Any, **kwargs: Any) -> Tensor:
        made.append((self, args, kwargs, call(self, *args, **kwargs)))
        return made[-1][-1]

    monkeypatch.setattr(Kept, "__call__", record)
    for text in KEEPING[:-1]:
        for length in (next(LENGTHS), 180):
            x = torch.randn(2, length, 32)
            padding = torch.arange(length) < torch.tensor([[0], [3]])
            future = torch.ones(length, length, dtype=torch.bool).triu(1)
            for site, mask in (("encoder", None), ("decoder", future), ("decoder", future.float() * -1e9)):
                module = attention(text, 32, 4, batch_first=True, site=site, dropout=0.1)
                for weights in (True, False):
                    out = module(x, x, x, key_padding_mask=padding, attn_mask=mask, need_weights=weights)[0]
                    out.sum().backward()
    names = {each[0].__wrapped__.__name__ for each in made}
    assert names >= {"linear_entries", "linear_bias", "rotations", "hidden_by_lengths"}
    for function, args, kwargs, result in made:
        assert torch.equal(result, function.__wrapped__(*args, **kwargs))


def test_a_mask_changed_in_inference_is_read_again() -> None:
    with torch.inference_mode():
        mask = torch.ones(5, 5, dtype=torch.bool).triu(1)
        assert is_future(mask) and may_keep()
        mask.copy_(mask.T.clone())
        assert not is_future(mask)
