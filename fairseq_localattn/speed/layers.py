"""Faster replacements of fairseq's dropout, ReLU and residual connection.

Only modules without parameters are replaced, so state dicts do not change.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.modules.fairseq_dropout import FairseqDropout
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase, TransformerEncoderLayerBase
from torch import Tensor, nn

from ..core.hooks import has_hooks, is_plain
from ..kernels.dropout import dropout, dropout_and_residual
from ..kernels.once import once_differentiable


class Dropout(FairseqDropout):
    """fairseq's dropout module, computed by :func:`kernels.dropout.dropout`."""

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        if inplace or not (self.training or self.apply_during_inference):
            return super().forward(x, inplace)
        return dropout(x, self.p)


class ResidualDropout(Dropout):
    """A layer's dropout before the residual connection: the identity, since :class:`FusedResidual` applies it."""

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        return super().forward(x, inplace) if has_hooks(self) else x

    @property
    def rate(self) -> float:
        """The dropout rate in force at the residual connection; 0 where a hook has seen the result of the dropout."""
        active = (self.training or self.apply_during_inference) and not has_hooks(self)
        return self.p if active else 0.0


class _ReLU(torch.autograd.Function):
    """ReLU that overwrites its input, which nothing else may need.

    With ``relu_`` the gradient would be copied three times, because a linear layer's output is a view to autograd.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        result = x.detach().relu_()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return torch.ops.aten.threshold_backward(gradient, *ctx.saved_tensors, 0)


class ReLU:
    """The activation function of a layer of fairseq: on a CPU it overwrites its input, the output of ``fc1``.

    The gradients of a linear layer do not need its output. Where ``fc1`` is not plain, its output stays as it is.
    """

    def __init__(self, layer: nn.Module) -> None:
        self.layer = layer
        self.paths = [name for name, _ in layer.named_modules() if name.rpartition(".")[2] == "fc1"]

    def __call__(self, x: Tensor) -> Tensor:
        if x.device.type != "cpu":
            return F.relu(x)
        return _ReLU.apply(x) if all(is_plain(attrgetter(path)(self.layer)) for path in self.paths) else F.relu(x)


class FusedResidual:
    """A mixin for fairseq's layers: dropout and residual connection in one pass.

    The sum has the memory layout of x, that of a linear layer's output, and not of the residual: in an encoder with
    layer norm before its sublayers, every layer would copy the transposed embedding.
    """

    dropout_module: nn.Module

    def residual_connection(self, x: Tensor, residual: Tensor) -> Tensor:
        """Compute ``residual + dropout(x)``, in the higher precision of both if they differ under autocast."""
        rate = self.dropout_module.rate if isinstance(self.dropout_module, ResidualDropout) else 0.0
        if rate and x.dtype == residual.dtype and x.device.type == "cpu":
            return dropout_and_residual(x, residual, rate)
        return residual + (dropout(x, rate) if rate else x)


def make_efficient(model: nn.Module) -> None:
    """Replace dropout, and ReLU by ReLU in place, in all layers of a model."""
    for module in list(model.modules()):
        # A layer with another residual connection keeps its dropout before it, as in fairseq.
        layer = getattr(type(module), "residual_connection", None) is FusedResidual.residual_connection
        for name, child in module.named_children():
            if type(child) is FairseqDropout:
                kind = ResidualDropout if layer and name == "dropout_module" else Dropout
                setattr(module, name, kind(child.p, child.module_name))
        if isinstance(module, TransformerEncoderLayerBase | TransformerDecoderLayerBase):
            if module.activation_fn is F.relu:
                module.activation_fn = ReLU(module)
