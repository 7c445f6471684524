"""Modules of fairseq's that cost time, exchanged in a model for ones that compute the same in less.

Nothing with parameters is exchanged, so a state dict stays what it is.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from fairseq.modules.fairseq_dropout import FairseqDropout
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase, TransformerEncoderLayerBase
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..kernels.dropout import dropout, dropout_and_residual
from ..kernels.projections import by_column


class Dropout(FairseqDropout):
    """fairseq's dropout, by :func:`dropout.dropout`."""

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        if inplace or not (self.training or self.apply_during_inference):
            return super().forward(x, inplace)
        return dropout(x, self.p)


class ResidualDropout(Dropout):
    """The dropout of a layer's sublayers: what it does is left to :class:`ResidualInPlace`, which comes next."""

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        return x

    @property
    def rate(self) -> float:
        """The rate in force."""
        return self.p if self.training or self.apply_during_inference else 0.0


class _ReLU(torch.autograd.Function):
    """ReLU that writes into its input, which must be needed by nothing else.

    ``relu_`` does so too; but a linear layer gives what to autograd is a view, whose gradient is then copied thrice. (A
    hook on that layer which keeps the output finds the result in it.)
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


def relu_of_linear(x: Tensor) -> Tensor:
    """ReLU of the output of a linear layer, in its place: that layer's gradients do not need it."""
    return _ReLU.apply(x)


class ResidualInPlace:
    """Mixed into fairseq's layers: dropout and residual connection, on a CPU in one pass, written over x.

    x has the layout of a linear layer, so the sum has it too; a sum that is made anew would take that of the
    residual, and in an encoder with layer norm before its sublayers every layer would copy the transposed embedding.
    """

    dropout_module: nn.Module

    def residual_connection(self, x: Tensor, residual: Tensor) -> Tensor:
        """``residual + dropout(x)``. Under autocast they may differ in precision: then the sum has the higher one.

        (A hook on the sublayer's last linear layer that keeps its output finds the sum in it.)
        """
        rate = self.dropout_module.rate if isinstance(self.dropout_module, ResidualDropout) else 0.0
        alone = x.dtype == residual.dtype and not getattr(self, "return_fc", False)
        if rate and alone and x.device.type == "cpu":
            return dropout_and_residual(x, residual, rate)
        if rate:
            x = dropout(x, rate)
        return residual + x if x._is_view() or not alone else x.add_(residual)


def make_efficient(model: nn.Module) -> None:
    """Exchange dropout, and ReLU for ReLU in place, in all of a model's layers."""
    for module in list(model.modules()):
        # A layer that adds residuals in another way has its dropout where fairseq has it.
        layer = getattr(type(module), "residual_connection", None) is ResidualInPlace.residual_connection
        for name, child in module.named_children():
            if type(child) is FairseqDropout:
                kind = ResidualDropout if layer and name == "dropout_module" else Dropout
                setattr(module, name, kind(child.p, child.module_name))
        if isinstance(module, TransformerEncoderLayerBase | TransformerDecoderLayerBase):
            if module.activation_fn is F.relu:
                module.activation_fn = relu_of_linear


def lay_out_for_decoding(model: nn.Module) -> None:
    """Lay the weights of linear layers on a CPU out by column (see :func:`joined.by_column`).

    Those that are an embedding's too stay, for its rows are looked up.
    """
    looked_up = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    for module in model.modules():
        if isinstance(module, nn.Linear) and module.weight.device.type == "cpu" and id(module.weight) not in looked_up:
            module.weight.data = by_column(module.weight.data)
