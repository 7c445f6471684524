"""Comparison of a mechanism with its reference."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fairseq_localattn.core.attention import LocalAttention
from support.mechanisms import references
from support.mechanisms.inputs import future, gradient


def check(module: LocalAttention, attend: Callable[..., Tensor], x: Tensor, padding: Tensor, causal: bool) -> None:
    """Compare the output and the gradients of input and parameters with the reference, at padding too."""
    module = module.double()
    # Sums with fixed random weights, so that no gradient vanishes by symmetry.
    probe = torch.randn(x.shape, generator=torch.Generator().manual_seed(7), dtype=x.dtype)
    results = []
    for fast in (True, False):
        inputs = x.clone().requires_grad_()
        module.zero_grad()
        if fast:
            mask = future(x.size(0)) if causal else None
            out, _ = module(inputs, inputs, inputs, key_padding_mask=padding, attn_mask=mask, need_weights=False)
        else:
            out = references.module_output(module, inputs, padding, attend)
        (out * probe).sum().backward()
        results.append([out, inputs.grad, *(gradient(p) for p in module.parameters())])
    for got, wanted in zip(*results, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-10)
