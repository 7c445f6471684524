"""The inputs of the steps of an attention: positions, masks, and the projected queries, keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from torch import Tensor

from ..kernels.masks import Frame


@dataclass(frozen=True)
class Call:
    """One call of an attention: T queries, S keys, B sentences, H heads, C channels, D channels a head.

    Args:
        frame: positions and masks.
        query: T×B×C, the module's input before projection.
        q: B×H×T×D, not scaled.
        k, v: B×H×S×D.
        extra: outputs of the extra projections by name, B×H×T×D of queries and B×H×S×D of keys, and whatever the step
            ``prepare`` returns.
    """

    frame: Frame
    query: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    extra: Mapping[str, Tensor] = field(default_factory=dict)

    def heads(self, at: slice) -> Call:
        """Return the call of some heads; ``extra`` keeps all heads."""
        return replace(self, q=self.q[:, at], k=self.k[:, at], v=self.v[:, at])

    def with_extra(self, more: Mapping[str, Tensor]) -> Call:
        """Return the call with further tensors in ``extra``."""
        return replace(self, extra={**self.extra, **more}) if more else self
