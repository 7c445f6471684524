"""Comparison of a mechanism with its reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from fairseq_localattn.core.attention import LocalAttention
from support.mechanisms import references
from support.mechanisms.inputs import future, gradient, random_case


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


def check_gradients(module: nn.Module, names: Iterable[str]) -> None:
    """Compare numerical with analytical gradients of the input and of the named parameters, with padding."""
    module = module.double()
    parameters = {name: module.get_parameter(name) for name in names}
    x, padding = random_case([7, 4], left=True)

    def run(inputs: Tensor, *values: Tensor) -> Tensor:
        given = dict(zip(parameters, values, strict=True))
        options = {"key_padding_mask": padding, "need_weights": False}
        return torch.func.functional_call(module, given, (inputs, inputs, inputs), options)[0]

    assert torch.autograd.gradcheck(run, (x.requires_grad_(), *parameters.values()))
