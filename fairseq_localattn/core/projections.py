"""Projections of queries, keys and values to heads: one product where that pays, and where no hook would miss it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..kernels.projections import join, project_at_once, project_jointly, to_column_major
from .hooks import is_plain


def project_to_heads(
    x: Tensor,
    projections: Sequence[nn.Linear],
    heads: int,
    *,
    training: bool,
    kept: dict[Any, Any] | None,
) -> list[Tensor]:
    """Apply linear layers to x, T×B×C. Returns a list of B×H×T×D, views of one product where that pays.

    Joining copies the weights: it pays in training, and in decoding on a GPU or in 8 bits, where ``kept`` holds them
    joined from step to step. (The cached keys come from the same parameters, so a change of them concerns the next
    decoding.) Layers that do more than a product, such as those with hooks, are always called.
    """
    x = x.contiguous()  # the first layer's input is transposed, and would be multiplied sentence by sentence
    parts: Sequence[Tensor] | None = None
    if len(projections) > 1 and all(map(is_plain, projections)) and len({p.bias is None for p in projections}) == 1:
        if training:
            if x.device.type != "cpu":
                if len(projections) > 2:  # for two it saves no operation
                    parts = project_at_once(x, projections, heads)
            elif not (x.size(0) == 1 and torch.is_grad_enabled()):
                parts = project_jointly(x, projections, heads)
        elif kept is not None and x.device.type != "cpu" and not torch.is_grad_enabled():
            joined = _joined(projections, heads, kept, join)
            parts = F.linear(x, *joined).unflatten(-1, (heads, len(projections), -1)).unbind(3)
    elif kept is not None and not torch.is_grad_enabled() and all(hasattr(each, "joined") for each in projections):
        whole: Any = projections[0]  # a layer that joins others of its kind, such as those of 8 bits
        y = _joined(projections, heads, kept, whole.joined)(x)
        parts = y.unflatten(-1, (heads, len(projections), -1)).unbind(3)
    if parts is None:
        parts = [projection(x).unflatten(-1, (heads, -1)) for projection in projections]
    return [part.permute(1, 2, 0, 3) for part in parts]


def _joined(projections: Sequence[nn.Linear], heads: int, kept: dict[Any, Any], join: Callable[..., Any]) -> Any:
    """Return what ``join`` makes of the projections, kept for one decoding."""
    names = tuple(map(id, projections))
    if names not in kept:
        kept[names] = join(projections, heads)
    return kept[names]


def xavier_linear(channels: int, outputs: int, bias: bool = True) -> nn.Linear:
    """Return a linear layer with Xavier's weights and biases of 0."""
    layer = nn.Linear(channels, outputs, bias=bias)
    nn.init.xavier_uniform_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def lay_out_for_decoding(model: nn.Module) -> None:
    """Lay out the weights of linear layers on a CPU in column-major order; faster for the few rows of a decoding step.

    Weights shared with an embedding stay row-major, since rows are looked up in them.
    """
    looked_up = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    for module in model.modules():
        if is_plain(module) and module.weight.device.type == "cpu" and id(module.weight) not in looked_up:
            module.weight.data = to_column_major(module.weight.data)
