"""Several projections of one input as one matrix product. Needs torch alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def join(projections: Sequence[nn.Linear], heads: int) -> tuple[Tensor, Tensor | None]:
    """Weight (heads·n·D)×C and bias of n projections of C → heads·D channels.

    They are joined head by head: a head's channels of all projections are neighbours in the product. So in each result
    sentences and heads are one dimension of equal steps, and a product over them needs no copy. The parameters stay
    apart, so that checkpoints are fairseq's; joining them is a copy of each.
    """
    weight = torch.stack([p.weight.unflatten(0, (heads, -1)) for p in projections], dim=1).flatten(0, 2)
    if projections[0].bias is None:
        return weight, None
    return weight, torch.stack([p.bias.view(heads, -1) for p in projections], dim=1).flatten()


class JoinedProjections:
    """:func:`join`, whose result is kept while no gradient is asked for: in decoding it serves every word.

    Whoever changes parameters behind autograd's back (``.data``, as half-precision optimizers do) must call
    :meth:`forget`; a module does so when it goes to training or to evaluation.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], tuple[tuple, tuple[Tensor, Tensor | None]]] = {}

    def of(self, names: tuple[str, ...], projections: Sequence[nn.Linear], heads: int) -> tuple[Tensor, Tensor | None]:
        """:func:`join` of the projections with these names."""
        parameters = [p for each in projections for p in (each.weight, each.bias) if p is not None]
        if torch.is_grad_enabled() or any(p.is_inference() for p in parameters):  # those have no count of their changes
            return join(projections, heads)
        state = tuple((p._version, p.data_ptr(), p.dtype) for p in parameters)
        if names not in self._kept or self._kept[names][0] != state:
            self._kept[names] = state, join(projections, heads)
        return self._kept[names][1]

    def forget(self) -> None:
        """Keep nothing."""
        self._kept.clear()
