"""A batch of a fixed shape, whose tensors are overwritten by each batch that is copied into it."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from .ladder import Shape


class Padding(NamedTuple):
    """What a tensor is padded with, whether in front, and a word that may stand everywhere in place of padding."""

    value: int
    left: bool = False
    word: int = 0


Paddings = dict[str, Padding]  # by the name of a tensor
#: Entries of a batch that are not padded: the dictionary of the model's inputs, and what no model reads.
BESIDE = ("net_input", "id", "nsentences", "ntokens")
#: Input of models with phrases. A sentence has at most as many phrases as words.
PHRASES = "src_phrases"


def unknown_tensors(sample: dict[str, Any], paddings: Paddings) -> list[str]:
    """Return the names of what a batch has, and no padding is known for."""
    return [name for name in {**sample, **sample["net_input"]} if name not in paddings and name not in BESIDE]


class FixedBatch:
    """A batch of one shape.

    At first it is full of words, so that kernels that are chosen by their time see no padding; but where there are
    phrases, which would have to be those of the words, it is all padding.

    Args:
        like: a batch of fairseq, B×…×T, whose names, types and further sizes it has.

    Attributes:
        sample: the batch as fairseq's criterions take it. Its numbers of sentences and tokens are of no meaning.
    """

    def __init__(self, like: dict[str, Any], shape: Shape, paddings: Paddings) -> None:
        self.shape, self.paddings = shape, paddings
        self.tensors = {}
        for name, tensor in self._tensors_of(like).items():
            padding = paddings[name]
            filler = padding.value if PHRASES in like["net_input"] else padding.word
            sizes = (shape.rows, *tensor.shape[1:-1], shape.length) if tensor.dim() > 1 else (shape.rows,)
            self.tensors[name] = tensor.new_full(sizes, filler)
        inputs = {name: self.tensors[name] for name in like["net_input"]}
        others = {name: tensor for name, tensor in self.tensors.items() if name not in inputs}
        self.sample = {**others, "net_input": inputs, "nsentences": shape.rows, "ntokens": shape.rows * shape.length}

    def _tensors_of(self, sample: dict[str, Any]) -> dict[str, Tensor]:
        return {name: value for name, value in {**sample, **sample["net_input"]}.items() if name in self.paddings}

    def fits(self, sample: dict[str, Any]) -> bool:
        """Return whether a batch is no larger."""
        return all(
            tensor.size(0) <= self.shape.rows and (tensor.dim() == 1 or tensor.size(-1) <= self.shape.length)
            for tensor in self._tensors_of(sample).values()
        )

    def copy_(self, sample: dict[str, Any]) -> None:
        """Overwrite the batch by another, and by padding around it."""
        for name, tensor in self._tensors_of(sample).items():
            whole, (value, left, _) = self.tensors[name], self.paddings[name]
            whole.fill_(value)
            rows = whole[: tensor.size(0)]
            if tensor.dim() > 1:
                length = tensor.size(-1)
                rows = rows[..., -length:] if left else rows[..., :length]
            rows.copy_(tensor, non_blocking=True)
