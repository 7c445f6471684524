"""A model with weights of 8 bits: a scale for each output channel, and one for the input when it comes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..kernels.projections import join_parameters
from .model import Model

# By the ends of their names: those of windows have projections of their own, such as ``left_q_proj``.
LAYERS = ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2", "output_projection")
LARGEST = 127
# The processor multiplies 8 bits into 32. Without this, sums of two products may overflow 16 bits.
WIDE = getattr(torch.cpu, "_is_vnni_supported", lambda: False)() or torch.backends.quantized.engine == "qnnpack"


class Int8Linear(nn.Module):
    """A linear layer whose product is one of integers.

    Args:
        weight: O×C in 8 bits.
        scale: O.
        bias: O or None.
    """

    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        for name, tensor in (("weight", weight), ("scale", scale), ("bias", bias)):
            self.register_buffer(name, tensor)
        self.packed = packed(weight, scale, bias)

    @classmethod
    def of(cls, linear: nn.Linear) -> Int8Linear:
        """Return the layer with weights rounded to 8 bits."""
        weight = linear.weight.detach().float()
        scale = weight.abs().amax(1).clamp(min=1e-20) / LARGEST
        bias = None if linear.bias is None else linear.bias.detach().float()
        return cls((weight / scale[:, None]).round_().to(torch.int8), scale, bias)

    @classmethod
    def joined(cls, layers: Sequence[Int8Linear], heads: int) -> Int8Linear:
        """Return one layer with the outputs of several, head by head as :func:`kernels.projections.join` has them."""
        weight, scale = join_parameters([each.weight for each in layers], [each.scale for each in layers], heads)
        bias = None
        if layers[0].bias is not None:
            bias = torch.stack([each.bias.view(heads, -1) for each in layers], dim=1).flatten()
        return cls(weight, scale, bias)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to …×C."""
        return torch.ops.quantized.linear_dynamic(x, self.packed, not WIDE)


def packed(weight: Tensor, scale: Tensor, bias: Tensor | None) -> torch.ScriptObject:
    """Return the parameters as torch's quantized products take them, of oneDNN where torch has it."""
    quantized, before = torch.backends.quantized, torch.backends.quantized.engine
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*quantized tensor creation")
        zeros = torch.zeros(len(scale), dtype=torch.long)
        whole = torch._make_per_channel_quantized_tensor(weight, scale.double(), zeros, 0)
    try:
        if "onednn" in quantized.supported_engines:
            quantized.engine = "onednn"
        return torch.ops.quantized.linear_prepack(whole, bias)
    finally:
        quantized.engine = before


def to_int8(model: Model) -> Model:
    """Let a model compute with weights of 8 bits, in place; embeddings stay as they are."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name.endswith(LAYERS) and type(child) is nn.Linear:
                setattr(module, name, Int8Linear.of(child))
    return model
