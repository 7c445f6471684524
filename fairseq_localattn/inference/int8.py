"""Linear layers with weights of 8 bits: a scale for each output channel, and for each row of an input."""

from __future__ import annotations

from collections.abc import Mapping

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
    """Let a model compute with weights of 8 bits, in place; embeddings and other layers stay as they are."""
    for name, linear in linear_layers(model):
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, Int8Linear(linear))
    return model


def linear_layers(model: Model) -> list[tuple[str, nn.Linear]]:
    """Return the layers that compute in 8 bits, with their names."""
    return [
        (name, module)
        for name, module in model.named_modules()
        if name.rpartition(".")[2] in LAYERS and type(module) is nn.Linear
    ]


def packed(model: Model) -> dict[str, Tensor]:
    """Return the weights of a model, those of layers in 8 bits with their scales; those of embeddings as they are."""
    weights = dict(model.state_dict())
    looked_up = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    for name, linear in linear_layers(model):
        if id(linear.weight) not in looked_up:
            weights[f"{name}.weight"], weights[f"{name}.scale"] = quantized(linear.weight)
    return weights


def unpacked(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return weights in fp32; :func:`to_int8` makes the same numbers of them. Raises KeyError without a scale."""
    found = dict(weights)
    for name, tensor in weights.items():
        if tensor.dtype == torch.int8:
            found[name] = tensor * found.pop(f"{name.removesuffix('weight')}scale")
    return found
