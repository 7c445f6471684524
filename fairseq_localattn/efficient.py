"""Modules of fairseq's that cost time, exchanged in a model for ones that compute the same in less.

Nothing with parameters is exchanged, so a state dict stays what it is.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from fairseq.modules.fairseq_dropout import FairseqDropout
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase, TransformerEncoderLayerBase
from torch import Tensor, nn

from .dropout import dropout


class Dropout(FairseqDropout):
    """fairseq's dropout, by :func:`dropout.dropout`."""

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        if inplace or not (self.training or self.apply_during_inference):
            return super().forward(x, inplace)
        return dropout(x, self.p)


class ResidualInPlace:
    """Mixed into fairseq's layers: the residual is added to the sublayer's output, which nothing else needs.

    That output has the layout of a linear layer, so the sum has it too; a sum that is made anew would take that of the
    residual, and in an encoder with layer norm before its sublayers every layer would copy the transposed embedding.
    """

    def residual_connection(self, x: Tensor, residual: Tensor) -> Tensor:
        """``residual + x``. Under autocast they may differ in precision: then the sum has the higher one."""
        if x.dtype != residual.dtype or getattr(self, "return_fc", False):
            return residual + x
        return x.add_(residual)


def make_efficient(model: nn.Module) -> None:
    """Exchange dropout, and ReLU for ReLU in place, in all of a model's layers."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is FairseqDropout:
                setattr(module, name, Dropout(child.p, child.module_name))
        if isinstance(module, TransformerEncoderLayerBase | TransformerDecoderLayerBase):
            # It stands behind a linear layer, whose gradients do not need its output.
            if module.activation_fn is F.relu:
                module.activation_fn = torch.relu_
