"""The base class of mechanisms that see a band of keys, whatever its width: CSAN, and static masks of MAN."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from ..core.attention import LocalAttention
from ..core.banded import banded_attention
from ..core.call import Call
from ..kernels.masks import Frame
from ..kernels.windows import Score, Span, Window


class BandedAttention(LocalAttention, ABC):
    """Attention inside a band; a subclass defines its width by overriding ``band``, and may set ``head_span``."""

    head_span = 1
    whole = True

    @property
    def said_by_steps(self) -> bool:
        """True if a query sees its own head alone, so that ``windows`` describes it."""
        return self.head_span == 1

    @abstractmethod
    def band(self, frame: Frame, device: torch.device) -> tuple[int, Tensor | None]:
        """Return ``half_width`` and ``width_of_query`` of :func:`banded_attention`."""

    def position_scores(self, call: Call) -> tuple[Score, ...] | None:
        """Return (): nothing is added to the scores. None where a query sees several heads."""
        return () if self.head_span == 1 else None

    def windows(self) -> tuple[Window, ...]:
        """Return the band of positions; it is the same in each of the heads that a query sees."""
        return (Window(("band", self.kind, self.causal, self.extra_repr()), self._spans),)

    def _spans(self, frame: Frame, device: torch.device) -> list[Span]:
        """Return the first and the last key of the band of each query."""
        half_width, width_of_query = self.band(frame, device)
        end = frame.offset + frame.query_length
        position = torch.arange(frame.offset, end, device=device)
        if width_of_query is None:
            reach = position.new_full((), half_width)
        else:
            reach = width_of_query[:, None, frame.offset : end].long()
        return [(position - reach, position + reach)]

    def attend(self, call: Call, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        half_width, width_of_query = self.band(call.frame, call.q.device)
        return banded_attention(
            call,
            half_width=half_width,
            head_span=self.head_span,
            need_weights=need_weights,
            width_of_query=width_of_query,
            **self.computation,
        )
