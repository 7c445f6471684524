"""A sliding window with attention sinks: the words around the query, and the first words of the sentence.

Sliding windows: Beltagy et al. 2020 (Longformer), Jiang et al. 2023 (Mistral); sinks: Xiao et al. 2024 (StreamingLLM).
"""

from __future__ import annotations

from ..core.attention import LocalAttention
from ..kernels.windows import Window, distance_windows
from ..ranges import check_number


class SinkAttention(LocalAttention):
    """Self-attention to a window and to the first ``sinks`` words of the sentence. No parameter is added.

    Query i sees key j if ``|i - j| ≤ window / 2`` (causal: ``0 ≤ i - j < window``), or if j is one of the first words
    after the padding. Time and memory are proportional to T·(window + sinks) from :data:`core.banded.BANDED_FROM` keys.

    Args:
        window: w, positions in the window, 1 or more; an even one that is not causal has w + 1.
        sinks: a, words at the start that every query sees; 0 or more.
        embed_dim, num_heads, kwargs: see :class:`LocalAttention`; a causal window ends at the query.

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
        check_number("the number of attention sinks", sinks, 0)
        self.window, self.sinks = window, sinks

    def windows(self) -> tuple[Window, ...]:
        """Return the window and the sinks."""
        half_width = self.window - 1 if self.causal else self.window // 2
        return distance_windows(((-half_width, half_width),), self.sinks)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, window={self.window}, sinks={self.sinks}"
