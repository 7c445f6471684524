"""Several projections of one input as one matrix product. Needs torch alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def join(projections: Sequence[nn.Linear], heads: int) -> tuple[Tensor, Tensor | None]:
    """Weight (heads·n·D)×C and bias of n projections of C → heads·D channels.

    They are joined head by head: a head's channels of all projections are neighbours in the product. So in each result
    sentences and heads are one dimension of equal steps, and a product over them needs no copy. The parameters stay
    apart, so that checkpoints are fairseq's; joining them is a copy of each.
    """
    biases = [] if projections[0].bias is None else [p.bias for p in projections]
    return join_parameters([p.weight for p in projections], biases, heads)


def join_parameters(weights: Sequence[Tensor], biases: Sequence[Tensor], heads: int) -> tuple[Tensor, Tensor | None]:
    """:func:`join` of weights (heads·D)×C and biases, of which there may be none."""
    weight = torch.stack([w.unflatten(0, (heads, -1)) for w in weights], dim=1).flatten(0, 2)
    return weight, torch.stack([b.view(heads, -1) for b in biases], dim=1).flatten() if biases else None


def project_jointly(x: Tensor, projections: Sequence[nn.Linear], heads: int) -> Sequence[Tensor]:
    """Each projection of x, T×B×C, as T×B×heads×D: views of one product with weights joined head by head.

    On a CPU, in single or double precision, the gradients are products by projection: joined ones would first have to
    be laid out side by side, and then cut apart for the parameters. There it is differentiable once.
    """
    bias = projections[0].bias is not None
    if x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64) and not torch.is_autocast_enabled("cpu"):
        weights, biases = [p.weight for p in projections], [p.bias for p in projections] if bias else []
        return _Jointly.apply(x, heads, len(projections), *weights, *biases)
    joined = F.linear(x, *join(projections, heads)).unflatten(-1, (heads, len(projections), -1))
    return joined.unbind(3)


class _Jointly(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, heads: int, count: int, *parameters: Tensor) -> tuple[Tensor, ...]:
        weights, biases = parameters[:count], parameters[count:]
        ctx.save_for_backward(x, *weights)
        joined = F.linear(x, *join_parameters(weights, biases, heads))
        return joined.unflatten(-1, (heads, count, -1)).unbind(3)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, *weights = ctx.saved_tensors
        rows = x.reshape(-1, x.size(-1))
        wanted = ctx.needs_input_grad[3:]
        by_x: Tensor | None = None
        by_weights: list[Tensor | None] = []
        by_biases: list[Tensor | None] = []
        for at, weight in enumerate(weights):
            gradient = gradients[at].reshape(-1, weight.size(0))
            if by_x is not None:
                torch.addmm(by_x, gradient, weight, out=by_x)
            elif ctx.needs_input_grad[0]:
                by_x = torch.mm(gradient, weight)
            by_weights.append(torch.mm(gradient.T, rows) if wanted[at] else None)
            if len(wanted) > len(weights):
                by_biases.append(gradient.sum(0) if wanted[len(weights) + at] else None)
        return (None if by_x is None else by_x.view(x.shape)), None, None, *by_weights, *by_biases


def by_column(x: Tensor) -> Tensor:
    """The same matrices, laid out by column: products of few rows with a layer's weight, or with keys, are faster so.

    ``x``: a weight, or keys …×S×D, whose product with five queries takes a third of the time.
    """
    return x.transpose(-1, -2).contiguous().transpose(-1, -2)


def is_by_column(keys: Tensor) -> bool:
    """Whether keys …×S×D are laid out by :func:`by_column`."""
    return keys.dim() > 2 and keys.size(-2) > 1 and keys.stride(-2) == 1 and keys.stride(-1) == keys.size(-2)


class JoinedProjections:
    """:func:`join`, whose result is kept while no gradient is asked for: in decoding it serves every word.

    Whoever changes parameters behind autograd's back (``.data``, as half-precision optimizers do) must call
    :meth:`forget`; a module does so when it goes to training or to evaluation.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], tuple[tuple, tuple[Tensor, Tensor | None]]] = {}

    def of(self, names: tuple[str, ...], projections: Sequence[nn.Linear], heads: int) -> tuple[Tensor, Tensor | None]:
        """:func:`join` of the projections with these names."""
        parameters = [p for each in projections for p in (each.weight, each.bias) if p is not None]
        if torch.is_grad_enabled() or any(p.is_inference() for p in parameters):  # those have no count of their changes
            return join(projections, heads)
        state = tuple((p._version, p.data_ptr(), p.dtype) for p in parameters)
        if names not in self._kept or self._kept[names][0] != state:
            weight, bias = join(projections, heads)
            self._kept[names] = state, (by_column(weight) if weight.device.type == "cpu" else weight, bias)
        return self._kept[names][1]

    def forget(self) -> None:
        """Keep nothing."""
        self._kept.clear()
