"""Several linear projections of one input as one matrix product. Depends on torch alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .once import once_differentiable

PADDING = 16  # numbers between the columns of a weight
BLOCK = 512  # outputs of a block of a large weight


def join(projections: Sequence[nn.Linear], heads: int) -> tuple[Tensor, Tensor | None]:
    """Copy the parameters of n projections C → heads·D into one weight (heads·n·D)×C and one bias (or None).

    The rows are ordered head by head: the output channels of one head are adjacent for all projections. Sentences and
    heads of each result are then one dimension with equal strides, and a batched product over them needs no copy. The
    modules keep their own parameters, so that checkpoints stay fairseq's.
    """
    biases = [] if projections[0].bias is None else [p.bias for p in projections]
    return join_parameters([p.weight for p in projections], biases, heads)


def join_parameters(weights: Sequence[Tensor], biases: Sequence[Tensor], heads: int) -> tuple[Tensor, Tensor | None]:
    """Apply :func:`join` to weights (heads·D)×C and biases heads·D; ``biases`` may be empty."""
    weight = torch.stack([w.unflatten(0, (heads, -1)) for w in weights], dim=1).flatten(0, 2)
    return weight, torch.stack([b.view(heads, -1) for b in biases], dim=1).flatten() if biases else None


def project_jointly(x: Tensor, projections: Sequence[nn.Linear], heads: int) -> Sequence[Tensor]:
    """Apply each projection to x, T×B×C. Returns one tensor T×B×heads×D per projection, all views of one product.

    For training on a CPU. In fp32 or fp64 the backward pass multiplies projection by projection, because joint
    gradients would be copied twice: once to join them, and once to separate the parameters' gradients. In this case the
    result is differentiable once.
    """
    if x.dtype in (torch.float32, torch.float64) and not torch.is_autocast_enabled("cpu"):
        return _Jointly.apply(x, heads, len(projections), *_parameters(projections))
    joined = F.linear(x, *join(projections, heads)).unflatten(-1, (heads, len(projections), -1))
    return joined.unbind(3)


def project_at_once(x: Tensor, projections: Sequence[nn.Linear], heads: int) -> Sequence[Tensor]:
    """Compute :func:`project_jointly` with few operations in both passes, for training on a GPU.

    There, copies of weights and of gradients take less time than the launches of a product for each projection.
    Differentiable once, but not under autocast.
    """
    device = x.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):  # not for the device meta
        return F.linear(x, *join(projections, heads)).unflatten(-1, (heads, len(projections), -1)).unbind(3)
    return _AtOnce.apply(x, heads, len(projections), *_parameters(projections))


def _parameters(projections: Sequence[nn.Linear]) -> list[Tensor]:
    """Return the weights, and then the biases if there are some."""
    return [p.weight for p in projections] + [p.bias for p in projections if p.bias is not None]


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


class _AtOnce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, heads: int, count: int, *parameters: Tensor) -> tuple[Tensor, ...]:
        weight, bias = join_parameters(parameters[:count], parameters[count:], heads)
        ctx.save_for_backward(x, weight)
        ctx.heads, ctx.count = heads, count
        return F.linear(x, weight, bias).unflatten(-1, (heads, count, -1)).unbind(3)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        rows = torch.stack(gradients, dim=3).view(-1, weight.size(0))
        by_x = torch.mm(rows, weight).view(x.shape) if ctx.needs_input_grad[0] else None
        joined = [torch.mm(rows.T, x.reshape(-1, x.size(-1)))]
        if len(ctx.needs_input_grad) > 3 + ctx.count:
            joined.append(rows.sum(0))
        # One copy takes the projections apart, so that none is needed to accumulate the gradient of each.
        apart = [y.unflatten(0, (ctx.heads, ctx.count, -1)).transpose(0, 1).flatten(1, 2) for y in joined]
        by_parameters = [parameter for y in apart for parameter in y.unbind(0)]
        wanted = zip(by_parameters, ctx.needs_input_grad[3:], strict=True)
        return by_x, None, None, *(y if need else None for y, need in wanted)


def to_column_major(x: Tensor) -> Tensor:
    """Return the matrices …×R×C in column-major layout; faster in products with few rows.

    Applied to a layer's weight, and to cached keys …×S×D, which a few queries read at every step of decoding.
    """
    if x.dim() > 2:
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)
    columns = x.new_empty(x.size(1), x.size(0) + PADDING)[:, : x.size(0)]  # at equal places of pages they were slower
    return columns.copy_(x.T).T


def is_column_major(x: Tensor) -> bool:
    """Return whether a batch of matrices …×R×C has the layout of :func:`to_column_major`."""
    return x.dim() > 2 and x.size(-2) > 1 and x.stride(-2) == 1 and x.stride(-1) == x.size(-2)


def in_blocks(weight: Tensor) -> list[Tensor]:
    """Return a large weight O×C as blocks of its outputs, each a column-major copy; faster for few rows."""
    return [to_column_major(block) for block in weight.split(BLOCK)]


def linear_by_blocks(x: Tensor, blocks: Sequence[Tensor]) -> Tensor:
    """Multiply rows R×C by a weight in :func:`in_blocks`. Returns R×O."""
    out = x.new_empty(len(x), sum(map(len, blocks)))
    for block, part in zip(blocks, out.split(BLOCK, dim=1), strict=True):
        torch.mm(x, block.T, out=part)
    return out
