"""Linear layers for inference on a CPU: with weights of 8 bits, or with products by oneDNN.

In 8 bits each output channel has a scale, and the input one when it comes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn

from ..core.processor import bf16_is_faster, mkl_is_narrow
from ..kernels.projections import join_parameters
from .model import Model

# Ends of names: windows have ``left_q_proj`` and more.
LAYERS = ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2", "output_projection")
LARGEST = 127
ROWS = 320  # of the products that oneDNN lays weights out for: 64 sentences with a beam of 5
_PACKING = Lock()  # the choice of a library and the filters of warnings are one for the process
_VNNI, _AMX = (getattr(torch.cpu, name, bool)() for name in ("_is_vnni_supported", "_is_amx_tile_supported"))
# The processor multiplies 8 bits into 32. Without this, sums of two products may overflow 16 bits.
WIDE = _VNNI or torch.backends.quantized.engine == "qnnpack"


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
        #: What torch's quantized product takes; None where the layer becomes part of an exported program.
        self.prepacked: torch.ScriptObject | None = prepacked(weight, scale, bias)

    def _load_from_state_dict(self, *args: Any) -> None:
        """Take weights of 8 bits, also into what torch's product takes."""
        super()._load_from_state_dict(*args)
        if self.prepacked is not None:
            self.prepacked = prepacked(self.weight, self.scale, self.bias)

    @classmethod
    def of(cls, linear: nn.Linear) -> Int8Linear:
        """Return the layer with weights rounded to 8 bits."""
        weight, scale = quantized(linear.weight.detach().float())
        return cls(weight, scale[:, 0], None if linear.bias is None else linear.bias.detach().float())

    @classmethod
    def joined(cls, layers: Sequence[Int8Linear], heads: int) -> Int8Linear:
        """Return one layer with the outputs of several, head by head as :func:`kernels.projections.join` has them."""
        biases = [each.bias for each in layers if each.bias is not None]
        weight, bias = join_parameters([each.weight for each in layers], biases, heads)
        scale = torch.stack([each.scale.view(heads, -1) for each in layers], dim=1).flatten()
        return cls(weight, scale, bias)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to …×C."""
        if self.prepacked is not None:
            y = torch.ops.quantized.linear_dynamic(x, self.prepacked, not WIDE)
            return y.view(*x.shape[:-1], len(self.scale))  # for no rows oneDNN returns one dimension
        rows, scale = quantized(x.reshape(-1, x.size(-1)))
        y = torch._int_mm(rows, self.weight.T) * scale * self.scale
        return (y if self.bias is None else y + self.bias).view(*x.shape[:-1], -1)


def quantized(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return a matrix in 8 bits, and the scale of each row, O×1."""
    scale = x.abs().amax(1, keepdim=True).clamp(min=1e-20) / LARGEST
    return (x / scale).round_().to(torch.int8), scale


def prepacked(weight: Tensor, scale: Tensor, bias: Tensor | None) -> torch.ScriptObject:
    """Return the parameters as torch's quantized products take them.

    oneDNN computes where outputs outnumber inputs, which is faster, and with AMX, which FBGEMM leaves unused.
    """
    outputs, inputs = weight.shape
    by_onednn = _VNNI and (_AMX or outputs > inputs) and "onednn" in torch.backends.quantized.supported_engines
    with _PACKING, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*quantized tensor creation")
        zeros = torch.zeros(len(scale), dtype=torch.long)
        whole = torch._make_per_channel_quantized_tensor(weight, scale.double(), zeros, 0)
        engine = torch.backends.quantized.engine
        try:
            torch.backends.quantized.engine = "onednn" if by_onednn else engine
            return torch.ops.quantized.linear_prepack(whole, bias)
        finally:
            torch.backends.quantized.engine = engine


class OneDnnLinear(nn.Module):
    """A linear layer of fp32 whose weight stands as oneDNN reads it."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.bias = linear.bias
        self._pack(linear.weight.detach())

    def _pack(self, weight: Tensor) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), ROWS)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is copied and pickled: the weight as O×C."""
        return {**self.__dict__, "weight": self.weight.to_dense()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._pack(state["weight"])

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to …×C."""
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")


def to_int8(model: Model) -> Model:
    """Let a model compute with weights of 8 bits, in place; embeddings and other layers stay as they are.

    Where the CPU is faster in bfloat16, self-attention along paths keeps keys and values in it, for larger batches.
    """
    model.decoder.kept_in = torch.bfloat16 if bf16_is_faster() else None
    return _replace(model, Int8Linear.of)


def to_onednn(model: Model) -> Model:
    """Let oneDNN multiply by the weights of a model, in place, where it is faster than MKL."""
    return _replace(model, OneDnnLinear) if mkl_is_narrow() else model


def _replace(model: Model, of: Callable[[nn.Linear], nn.Module]) -> Model:
    for name, linear in linear_layers(model):
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, of(linear))
    return model


def linear_layers(model: Model) -> list[tuple[str, nn.Linear]]:
    """Return the layers of fp32 that another one can replace, with their names."""
    return [
        (name, module) for name, module in model.named_modules() if name.endswith(LAYERS) and type(module) is nn.Linear
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
