"""Modules of mask attention (MAN) for the tests, how they are run, and what the references give for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.mechanisms.masked import DynamicMaskAttention, StaticMaskAttention
from support.mechanisms import references
from support.mechanisms.inputs import DIM, HEADS, future, gradient, labelled

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor] | None] = {"none": None, "relu": torch.relu, "gelu": nn.GELU()}
MODULES: dict[str, Callable[..., Any]] = {
    "san": LocalAttention,
    "dman": partial(DynamicMaskAttention, max_distance=3),
    "sman": partial(StaticMaskAttention, boundary=2),
    "sman-sqrt": partial(StaticMaskAttention, boundary=None),
}
every_module = pytest.mark.parametrize("name", MODULES)
every_path = pytest.mark.parametrize("block", [3, 64])  # long sentences are computed in blocks of queries
half_precision = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])


def make(name: str, causal: bool = False, heads: int = HEADS, **kwargs: object) -> Any:
    """Return a module of :data:`MODULES` in evaluation mode, always with the same weights."""
    torch.manual_seed(1)
    if name != "san":
        kwargs["causal"] = causal
    return MODULES[name](DIM, heads, self_attention=True, **kwargs).eval()


def run(
    module: nn.Module, x: Tensor, padding: Tensor | None = None, causal: bool = False, weights: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the module's output and weights; as in fairseq there is no padding mask without padding."""
    padding = padding if padding is not None and padding.any() else None
    mask = future(x.size(0)).to(x.dtype) if causal else None
    return module(x, x, x, key_padding_mask=padding, attn_mask=mask, need_weights=weights)


def expected(module: LocalAttention, x: Tensor, padding: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """Return the reference's output T×B×C and its S_M averaged over heads, B×T×T."""
    means = []

    def attend(q: Tensor, k: Tensor, v: Tensor, exists: Tensor, sentence: Tensor) -> Tensor:
        if isinstance(module, DynamicMaskAttention):
            lowest = 0 if causal else -module.max_distance
            P = dict(enumerate(module.distance_mask.unbind(), start=lowest))
            assert max(P) == module.max_distance
            M = references.dynamic_mask(sentence, module.query_mask.weight[0], P, module.head_mask)
        else:
            b = module.boundary if isinstance(module, StaticMaskAttention) else exists.numel()
            M = references.static_mask(b, exists, causal).expand(module.num_heads, -1, -1)
        weights = references.mask_weights(q, k, mask=M, exists=exists, causal=causal)
        means.append(weights.mean(0))
        return weights @ v

    F = ACTIVATIONS[module.activation]
    return references.module_output(module, x, padding, attend, activation=F, takes_input=True), torch.stack(means)


def outcome(output: Tensor, inputs: Tensor, module: nn.Module, padding: Tensor) -> dict[str, Tensor]:
    """Return the output at real positions and the gradients of the input and of every parameter, by name."""
    real = (~padding).T.to(output.dtype)[..., None]  # T×B×1
    # Sums with fixed random weights, so that no gradient vanishes by symmetry.
    probe = torch.randn(output.shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    module.zero_grad()
    inputs.grad = None
    (output * probe.to(output.dtype) * real).sum().backward()
    gradients = {name: gradient(p) for name, p in module.named_parameters()}
    return {"output": output.detach() * real, "input": gradient(inputs), **gradients}


def same(got: dict[str, Tensor], wanted: dict[str, Tensor], rtol: float = 1e-9, atol: float = 1e-10) -> None:
    """Assert that two results of :func:`outcome` agree."""
    for name, value in wanted.items():
        torch.testing.assert_close(got[name], value, rtol=rtol, atol=atol, msg=labelled(name))
