"""A decoder with weights of 8 bits: a scale for each output channel, and for each row of the input when it comes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .model import Model

LAYERS = ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2", "output_projection")
LARGEST = 127


class Int8Linear(nn.Module):
    """A linear layer whose product is one of integers."""

    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight, scale = quantized(linear.weight)
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale.T.contiguous())
        self.register_buffer("bias", linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to …×C."""
        rows, scale = quantized(x.reshape(-1, x.size(-1)))
        y = torch._int_mm(rows, self.weight.T) * scale
        y *= self.scale
        if self.bias is not None:
            y += self.bias
        return y.view(*x.shape[:-1], -1)


def quantized(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return a matrix in 8 bits, and the scale of each row."""
    scale = x.abs().amax(1, keepdim=True).clamp(min=1e-20) / LARGEST
    return (x / scale).round_().to(torch.int8), scale


def to_int8(model: Model) -> Model:
    """Let the decoder of a model compute with weights of 8 bits, in place; the encoder stays as it is."""
    for module in list(model.decoder.modules()):
        for name, child in list(module.named_children()):
            if name in LAYERS and type(child) is nn.Linear:
                setattr(module, name, Int8Linear(child))
    return model
