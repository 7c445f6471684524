"""A sliding window with attention sinks: the words around the query, and the first words of the sentence.

Sliding windows: Beltagy et al. 2020 (Longformer), Jiang et al. 2023 (Mistral); sinks: Xiao et al. 2024 (StreamingLLM).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core import banded
from ..core.attention import LocalAttention
from ..core.call import Call
from ..kernels.flex import PositionTerms, Span, Window
from ..kernels.masks import Frame
from ..kernels.passes import shared
from ..kernels.windows import local_window, relative_positions


class SinkAttention(LocalAttention):
    """Self-attention to a window and to the first ``sinks`` words of the sentence. No parameter is added.

    Query i sees key j if ``|i - j| ≤ window / 2`` (causal: ``0 ≤ i - j < window``), or if j is one of the first words
    after the padding. Time and memory are proportional to T·(window + sinks) from :data:`core.banded.BANDED_FROM` keys.

    Args:
        window: w, positions in the window, 1 or more; an even one that is not causal has w + 1.
        sinks: a, words at the start that every query sees; 0 or more.
        embed_dim, num_heads, kwargs: see :class:`LocalAttention`; a causal window lies before the query.

    Raises ValueError for a window below 1 and a negative number of sinks.
    """

    kind = "sinks"
    undefined_at = {"cross": "a distance between a source and a target position means nothing"}

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        window: int = 16,
        sinks: int = 4,
        **kwargs: object,
    ) -> None:
        super().__init__(embed_dim, num_heads, **kwargs)  # type: ignore[arg-type]
        if window < 1:
            raise ValueError(f"the sliding window must have 1 position or more, not {window}")
        if sinks < 0:
            raise ValueError(f"the number of attention sinks must be 0 or more, not {sinks}")
        self.window, self.sinks = window, sinks

    @property
    def half_width(self) -> int:
        """The greatest distance of a key inside of the window."""
        return self.window - 1 if self.causal else self.window // 2

    def hidden_keys(self, frame: Frame, device: torch.device) -> Tensor:
        """Return the window and the sinks, 1×T×S, or B×1×T×S with padding; True = hidden."""
        lengths, padding = (frame.query_length, frame.key_length, frame.offset), frame.key_padding_mask
        key = "sinks", self.half_width, self.sinks, lengths, device, padding
        return shared(lambda: self._hidden(frame, device), *key)

    def _hidden(self, frame: Frame, device: torch.device) -> Tensor:
        relative = relative_positions(frame.query_length, frame.key_length, frame.offset, device)
        hidden = local_window(relative, self.half_width)[None]
        behind = torch.arange(frame.key_length, device=device) >= self._first(frame, device) + self.sinks  # (B or 1)×S
        return hidden & behind[:, None] if frame.key_padding_mask is None else hidden & behind[:, None, None]

    def _first(self, frame: Frame, device: torch.device) -> Tensor:
        """Return the position of each sentence's first word, (B or 1)×1: the number of keys of padding before it."""
        if frame.key_padding_mask is None:
            return torch.zeros(1, 1, dtype=torch.long, device=device)
        return frame.key_padding_mask.long().cumprod(dim=1).sum(dim=1, keepdim=True)

    def attend(self, call: Call, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """Compute a masked product, or from BANDED_FROM keys on the band and the sinks alone."""
        frame, device = call.frame, call.q.device
        if need_weights or frame.key_length < banded.BANDED_FROM:
            return super().attend(call, need_weights)
        columns = None
        if self.sinks:
            columns = self._first(frame, device) + torch.arange(min(self.sinks, frame.key_length), device=device)
        return banded.banded_attention(call, half_width=self.half_width, columns=columns, **self.computation)

    def position_terms(self, call: Call) -> PositionTerms:
        """Return the window and the sinks."""
        return PositionTerms(self.windows())

    def windows(self) -> tuple[Window, ...]:
        """Return the window and the sinks."""
        return (Window(("sinks", self.half_width, self.sinks), self._spans),)

    def _spans(self, frame: Frame, device: torch.device) -> list[Span]:
        """Return the first and the last key of the window and of the sinks."""
        position = torch.arange(frame.offset, frame.offset + frame.query_length, device=device)
        first = self._first(frame, device)[:, None]  # (B or 1)×1×1
        window = position - self.half_width, position + self.half_width
        return [window, (first, first + self.sinks - 1)] if self.sinks else [window]

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, window={self.window}, sinks={self.sinks}"
