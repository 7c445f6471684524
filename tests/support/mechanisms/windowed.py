"""Modules of differentiable windows (DiffWin) for the tests, and how they are run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.mechanisms.windowed import (
    AdditiveWindowAttention,
    MultiplicativeWindowAttention,
)
from support.mechanisms.inputs import DIM, HEADS, future

MODULES: dict[str, Callable[..., Any]] = {
    "mw": MultiplicativeWindowAttention,
    "mw-renormalised": partial(MultiplicativeWindowAttention, renormalise=True),
    "aw": AdditiveWindowAttention,
}
every_module = pytest.mark.parametrize("name", MODULES)
every_side = pytest.mark.parametrize("left", [True, False])


def make(name: str, size: int = 1, **kwargs: object) -> Any:
    """Return a module of :data:`MODULES` in evaluation mode, with fixed weights and pointers that are not flat."""
    torch.manual_seed(1)
    kwargs.setdefault("self_attention", True)
    module = MODULES[name](DIM, HEADS, segment_size=size, **kwargs).eval()
    with torch.no_grad():
        for key, parameter in module.named_parameters():
            if key.startswith(("left", "right", "local")):
                parameter.mul_(3)
            if key.endswith("bias"):
                parameter.normal_()
    return module


def run(module: LocalAttention, x: Tensor, keys: Tensor, padding: Tensor, causal: bool, **kwargs: bool) -> tuple:
    """Run a module; as in fairseq there is no padding mask without padding."""
    kwargs.setdefault("need_weights", False)
    mask = future(x.size(0)).to(x.dtype) if causal else None
    return module(x, keys, keys, key_padding_mask=padding if padding.any() else None, attn_mask=mask, **kwargs)
