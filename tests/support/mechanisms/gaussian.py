"""Modules of Gaussian attention for the tests, and what the reference gives for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fairseq_localattn.mechanisms.gaussian import GaussianAttention, GaussianProductAttention
from support.mechanisms import other_references as references
from support.mechanisms.inputs import DIM, HEADS, future

MODULES: dict[str, Callable[..., Any]] = {
    "localness": GaussianAttention,
    "hard": partial(GaussianAttention, width=3, local_heads=2),
    "neighbor": partial(GaussianAttention, center="self", width="head"),
    "neighbor-query": partial(GaussianAttention, center="self", width="query", local_heads=2),
    "neighbor-number": partial(GaussianAttention, center="self", width=2, local_heads=1),
    "keys": partial(GaussianAttention, width="keys", local_heads=3),
    "diffwin": partial(GaussianAttention, width=5, source="input", hidden="linear"),
    "linear-keys": partial(GaussianAttention, width="keys", hidden="linear", local_heads=2),
    "linear-query": partial(GaussianAttention, hidden="linear"),
    "cut": partial(GaussianAttention, width=1, cut=True),
    "luong": partial(GaussianProductAttention, width=2, cut=True, local_heads=3),
    "product": GaussianProductAttention,
}
# Their centre is predicted, so they can attend to an encoder.
PREDICTED = [name for name in MODULES if not name.startswith("neighbor")]


def make(name: str, **kwargs: object) -> Any:
    """Return a module of :data:`MODULES` in float64 and evaluation mode, whose predictions differ between words."""
    torch.manual_seed(1)
    kwargs.setdefault("self_attention", True)
    module = MODULES[name](DIM, HEADS, **kwargs).eval()
    with torch.no_grad():
        for key, parameter in module.named_parameters():
            if key.startswith("window") and key != "window_root":
                parameter.mul_(3)
            if key.startswith("window") and key.endswith("bias"):
                parameter.normal_()
    return module.double()


def run(module: Any, x: Tensor, keys: Tensor, padding: Tensor, causal: bool = False, **kwargs: bool) -> tuple:
    """Run a module; as in fairseq there is no padding mask without padding."""
    kwargs.setdefault("need_weights", False)
    mask = future(x.size(0)).to(x.dtype) if causal else None
    return module(x, keys, keys, key_padding_mask=padding if padding.any() else None, attn_mask=mask, **kwargs)


def expected(module: Any, x: Tensor, keys: Tensor, padding: Tensor, causal: bool = False) -> tuple[Tensor, Tensor]:
    """Return the reference's output T×B×C, and its weights averaged over heads, B×T×S."""
    pairs = [sentence(module, x[:, b], keys[:, b], ~padding[b], causal) for b in range(x.size(1))]
    outputs, weights = zip(*pairs, strict=True)
    return torch.stack(outputs, dim=1), torch.stack([w.mean(0) for w in weights])


def sentence(module: Any, x: Tensor, keys: Tensor, exists: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """Return the reference's output T×C and weights H×T×S for one sentence x, T×C, and keys S×C."""
    heads, others, width = module.num_heads, module.num_heads - module.local_heads, module.head_dim

    def project(layer: Any, sentence: Tensor) -> Tensor:
        return sentence @ layer.weight.T + (0 if layer.bias is None else layer.bias)

    def split(layer: Any, sentence: Tensor) -> Tensor:
        return torch.stack(project(layer, sentence).chunk(heads, dim=-1))

    def predict(output: Any, hidden: Any, source: Tensor, h: int) -> Tensor:
        u = project(hidden, source)
        return references.predicted(torch.tanh(u) if module.hidden == "tanh" else u, output, h, width)

    q, k, v = split(module.q_proj, x), split(module.k_proj, keys), split(module.v_proj, keys)
    see = references.visible(exists, x.size(0), causal)
    source = x if module.source == "input" else torch.cat(list(q), dim=-1)

    def center(h: int, i: int, first: int, n: int) -> Tensor | float:
        if module.center == "self":
            return i
        share = predict(module.window_center, module.window_hidden, source[i], h)
        return first + (n - 1) * share if module.hidden == "tanh" else first - 1 + n * share

    def wide(h: int, i: int, n: int) -> Tensor | float:
        if isinstance(module.width, float):
            return module.width
        if module.width == "head":
            return 2 * module.window_root[h] ** 2
        if module.width == "query":
            return n * predict(module.window_width, module.window_hidden, source[i], h) + 0.1
        mean = torch.cat(list(k), dim=-1)[see[i]].mean(0)
        return n * predict(module.window_width, module.window_keys, mean, h) + 0.1

    product = isinstance(module, GaussianProductAttention)
    rows = torch.zeros(heads, *see.shape, dtype=torch.float64)
    for h in range(heads):
        G, open_keys = torch.zeros(see.shape, dtype=torch.float64), see
        if h >= others:
            G, open_keys = references.bell(see, partial(center, h - others), partial(wide, h - others), module.cut)
        scores = q[h] @ k[h].T / width**0.5 + (0 if product else G)
        rows[h] = references.weights_of(scores, open_keys) * (torch.exp(G) if product else 1)
    return torch.cat(list(rows @ v), dim=-1) @ module.out_proj.weight.T + module.out_proj.bias, rows
