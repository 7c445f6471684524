"""A batch of a fixed shape, whose tensors are overwritten by each batch that is copied into it."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .ladder import Shape


class Padding(NamedTuple):
    """What a tensor is padded with, and whether in front."""

    value: int
    left: bool = False


Paddings = dict[str, Padding]  # by the name of a tensor
#: What a batch has beside its tensors, and what no model reads.
BESIDE = ("net_input", "id", "nsentences", "ntokens")
#: Inputs of models with phrases, which are as many as words or fewer.
PHRASES = "src_phrases"


def unknown_tensors(sample: dict[str, Any], paddings: Paddings) -> list[str]:
    """Return the names of what a batch has, and no padding is known for."""
    return [name for name in {**sample, **sample["net_input"]} if name not in paddings and name not in BESIDE]


class FixedBatch:
    """A batch of one shape.

    Args:
        like: a batch of fairseq, B×…×T, whose names, types and further sizes it has.
        word: by which it is filled at first, as if all sentences were as long as can be; phrases need padding alone.

    Attributes:
        sample: the batch as fairseq's criterions take it. Its numbers of sentences and tokens are of no meaning.
    """

    def __init__(self, like: dict[str, Any], shape: Shape, paddings: Paddings, word: int) -> None:
        self.shape, self.paddings = shape, paddings
        self.tensors = {name: self._make(tensor, word) for name, tensor in self._tensors_of(like).items()}
        if PHRASES in self.tensors:
            for name, tensor in self.tensors.items():
                tensor.fill_(paddings[name].value)
        inputs = {name: self.tensors[name] for name in like["net_input"]}
        others = {name: tensor for name, tensor in self.tensors.items() if name not in inputs}
        self.sample = {**others, "net_input": inputs, "nsentences": shape.rows, "ntokens": shape.rows * shape.length}

    def _tensors_of(self, sample: dict[str, Any]) -> dict[str, Tensor]:
        return {name: value for name, value in {**sample, **sample["net_input"]}.items() if name in self.paddings}

    def _make(self, like: Tensor, word: int) -> Tensor:
        rows, length = self.shape
        if like.dim() == 1:
            return like.new_full((rows,), length)
        return like.new_full((rows, *like.shape[1:-1], length), word)

    def fits(self, sample: dict[str, Any]) -> bool:
        """Return whether a batch is no larger."""
        return all(
            tensor.size(0) <= self.shape.rows and (tensor.dim() == 1 or tensor.size(-1) <= self.shape.length)
            for tensor in self._tensors_of(sample).values()
        )

    def copy_(self, sample: dict[str, Any]) -> None:
        """Overwrite the batch by another, and by padding around it."""
        for name, tensor in self._tensors_of(sample).items():
            whole, (value, left) = self.tensors[name], self.paddings[name]
            whole.fill_(value)
            rows = whole[: tensor.size(0)]
            if tensor.dim() > 1:
                length = tensor.size(-1)
                rows = rows[..., -length:] if left else rows[..., :length]
            rows.copy_(tensor, non_blocking=True)


def is_same_kind(sample: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether two batches have tensors of the same names."""
    return {*sample, *sample["net_input"]} == {*other, *other["net_input"]}
