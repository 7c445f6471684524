"""Settings of a run of the benchmarks."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn

from fairseq_localattn.errors import UsageError

PARTS = ("module", "step", "long", "generation", "inference", "scaling", "start", "optimizer", "launches", "training")
PRECISIONS = ("fp32", "bf16")
SEED = 1


class Size(NamedTuple):
    """A size of the models: the plain architecture, the suffix of the variants' names, channels and heads."""

    plain: str
    suffix: str
    channels: int
    heads: int


SIZES = {
    "base": Size("transformer", "", 512, 8),
    "small": Size("transformer_localattn_small", "_small", 128, 4),
    "tiny": Size("transformer_localattn_tiny", "_tiny", 64, 4),
}


@dataclass(frozen=True)
class Settings:
    """Settings from the command line.

    Args:
        systems, lengths: None for the part's defaults.
        flags: more flags of fairseq-train for this package's models.
        optimizer: of fairseq-train, for this package's models.
        graphs: numbers of shapes whose steps are recorded, each a training of its own; empty: the package's default.
        largest_scores: bytes; attentions that make larger tensors H×T×T are left out.
    """

    device: torch.device
    precision: str = "fp32"
    size: str = "base"
    systems: tuple[str, ...] | None = None
    lengths: tuple[int, ...] | None = None
    tokens: int = 4096
    pairs: int = 160_000
    words: int = 10152
    dropout: float = 0.1
    flags: tuple[str, ...] = ()
    optimizer: str = "adam"
    graphs: tuple[int, ...] = ()
    rounds: int = 7
    warm_up: int = 2
    largest_scores: int = 1 << 30

    @property
    def sizes(self) -> Size:
        """The size of the models."""
        return SIZES[self.size]

    @property
    def half_parameters(self) -> bool:
        """Whether parameters are in bf16, as with fairseq's --bf16 on a GPU; on a CPU steps use autocast instead."""
        return self.precision == "bf16" and self.device.type != "cpu"

    def place(self, module: nn.Module) -> nn.Module:
        """Move a module to the device and convert it to the precision of the run."""
        module = module.to(self.device)
        return module.bfloat16() if self.half_parameters else module

    def autocast(self) -> Any:
        """Return the context in which a forward pass runs."""
        if self.precision == "bf16" and not self.half_parameters:
            return torch.autocast(self.device.type, torch.bfloat16)
        return contextlib.nullcontext()

    def synchronize(self) -> None:
        """Wait until the device has finished."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def chosen(self, known: tuple[str, ...]) -> list[str]:
        """Return the selected ones of a part's systems: all without --systems."""
        return [name for name in known if self.systems is None or name in self.systems]


def names_of(text: str, option: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Parse a comma-separated list of ``known`` names, without repetitions. Raises UsageError."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise UsageError(f"{option} {text}: {unknown[0] if unknown else 'no name'}: choose from {', '.join(known)}")
    return names


def numbers_of(text: str, option: str, least: int = 4) -> tuple[int, ...]:
    """Parse a comma-separated list of whole numbers; return them in ascending order. Raises UsageError."""
    try:
        numbers = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        numbers = ()
    if not numbers or numbers[0] < least:
        raise UsageError(f"{option} {text}: give whole numbers from {least}, separated by commas, as in 64,512")
    return numbers


def device_of(name: str | None, precision: str) -> torch.device:
    """Return the device of this name, or by default a GPU if there is one.

    Raises UsageError if there is none, or if it does not support the precision.
    """
    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        raise UsageError(f"--device cuda: torch {torch.__version__} sees no GPU: give --device cpu")
    device = torch.device(name or ("cuda" if there else "cpu"))
    if device.type == "cuda" and precision == "bf16" and not torch.cuda.is_bf16_supported(including_emulation=False):
        raise UsageError(f"--precision bf16: {torch.cuda.get_device_name(device)} has no bf16: give fp32")
    return device
