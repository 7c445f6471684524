"""Convolutional self-attention over a window of positions and of neighbouring heads (CSAN, Yang et al., NAACL 2019).

1D: query i of head h attends to positions i - M/2 … i + M/2 of its own head (Eq. 4-6). 2D: it attends to these
positions of heads h - N/2 … h + N/2, with one softmax over the whole area (Eq. 7-9). No parameters are added. Time and
memory are linear in the length.
"""

from __future__ import annotations

import torch

from ..kernels.masks import Frame
from .banded import BandedAttention


class ConvolutionalAttention(BandedAttention):
    """Self-attention over an area of (head_span × window) around each query.

    Args:
        window: M + 1, positions in the area; odd.
        head_span: N + 1, heads in the area; odd, at most ``num_heads``; 1 is the 1D form.
        embed_dim, num_heads, kwargs: see :class:`LocalAttention`.

    Raises ValueError for an even or non-positive window or head span, and for a head span above ``num_heads``.
    """

    kind = "csan"
    undefined_at = {"cross": "a window around the query's position means nothing in the other sentence"}

    def __init__(
        self, embed_dim: int, num_heads: int, *, window: int = 11, head_span: int = 3, **kwargs: object
    ) -> None:
        super().__init__(embed_dim, num_heads, **kwargs)  # type: ignore[arg-type]
        for what, size in (("window", window), ("number of heads in an area", head_span)):
            if size < 1 or size % 2 == 0:
                raise ValueError(f"the {what} must be odd and positive (it is centred on the query), not {size}")
        if head_span > num_heads:
            raise ValueError(f"an area of {head_span} heads was asked for, and there are {num_heads} heads")
        self.window, self.head_span = window, head_span

    def band(self, frame: Frame, device: torch.device) -> tuple[int, None]:
        """Return half of the window, for every query."""
        return self.window // 2, None

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, window={self.window}, head_span={self.head_span}"
