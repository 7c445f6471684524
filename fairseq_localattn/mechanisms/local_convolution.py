"""A convolution over positions as a sublayer before self-attention (QANet, Yu et al., ICLR 2018). Torch alone.

Separable: ``ReLU(P (Σ_o w_o ⊙ x_{t+o-K//2}) + b)``, each channel over K positions and then a product over the channels;
full: ``ReLU(Σ_o W_o x_{t+o-K//2} + b)``. Padding and what lies outside of the sentence are 0. In a decoder the last of
the K positions is the word's own.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core.decoding import IncrementalState
from ..core.hooks import is_plain
from ..kernels.convolution import depthwise_convolution, full_convolution, relu_in_place
from ..ranges import check_number

FORMS = ("separable", "full")
LARGEST_KERNEL = 9_999  # positions; more is certainly a typing error


class LocalConvolution(nn.Module):
    """A convolution over T×B×C that sees K positions.

    Args:
        channels: C.
        kernel: K, odd, from 1 to :data:`LARGEST_KERNEL`.
        form: ``separable`` (K·C + C² + C parameters) or ``full`` (K·C² + C).
        causal: see the K last positions, the own one included, instead of those around it.

    Raises ValueError for another kernel and for an unknown form.
    """

    #: The sites where it is not defined, each with the reason.
    undefined_at: ClassVar[Mapping[str, str]] = {"cross": "a convolution is over the positions of one sentence"}

    def __init__(self, channels: int, *, kernel: int = 7, form: str = "separable", causal: bool = False) -> None:
        super().__init__()
        if kernel < 1 or kernel % 2 == 0:
            raise ValueError(f"the kernel of a convolution must be odd and positive, not {kernel}")
        check_number("the kernel of a convolution", kernel, 1, LARGEST_KERNEL)
        if form not in FORMS:
            raise ValueError(f"unknown form {form!r} of a convolution: choose from {', '.join(FORMS)}")
        self.kernel, self.form, self.causal = kernel, form, causal
        if form == "separable":
            # Uniform with variance 1/K, as the product with Xavier's weights keeps the variance of its input.
            self.taps = nn.Parameter(torch.empty(kernel, channels).uniform_(-1, 1) * (3 / kernel) ** 0.5)
            self.point = nn.Linear(channels, channels)
            nn.init.xavier_uniform_(self.point.weight)
        else:
            self.weight = nn.Parameter(torch.empty(channels, channels, kernel))
            # torch's biases, not 0: an empty sentence would be 0 at every layer norm, whose gradient then explodes.
            self.bias = nn.Parameter(torch.empty(channels).uniform_(-1, 1) * (channels * kernel) ** -0.5)
            nn.init.xavier_uniform_(self.weight)
        self.state_key = f"{uuid.uuid4()}.conv_state"

    def forward(
        self, x: Tensor, padding: Tensor | None = None, incremental_state: IncrementalState | None = None
    ) -> Tensor:
        """Convolve x, T×B×C, after setting padded positions to 0. Returns T×B×C, which may be overwritten.

        Args:
            x: T×B×C.
            padding: B×T, True = padding.
            incremental_state: fairseq's decoding state, which holds the K-1 inputs before x (causal only).

        Raises ValueError with an incremental state unless the convolution is causal.
        """
        if padding is not None:
            x = x.masked_fill(padding.to(torch.bool).T[..., None], 0)
        if incremental_state is not None:
            x = self._with_earlier(x, incremental_state)
        else:
            before = self.kernel - 1 if self.causal else self.kernel // 2
            x = F.pad(x, (0, 0, 0, 0, before, self.kernel - 1 - before))
        if self.form == "full":
            return relu_in_place(full_convolution(x, self.weight) + self.bias)
        y = self.point(depthwise_convolution(x, self.taps))
        return relu_in_place(y) if is_plain(self.point) else F.relu(y)

    def _with_earlier(self, x: Tensor, state: IncrementalState) -> Tensor:
        """Put the K-1 inputs before x in front of it, and keep the last K-1: B×(K-1)×C, 0 before the first word."""
        if not self.causal:
            raise ValueError("only a causal convolution can be computed word by word")
        earlier = state.get(self.state_key, {}).get("inputs")
        if earlier is None:
            earlier = x.new_zeros(x.size(1), self.kernel - 1, x.size(2))
        x = torch.cat([earlier.transpose(0, 1), x])
        state[self.state_key] = {"inputs": x[x.size(0) - self.kernel + 1 :].transpose(0, 1)}
        return x

    def reorder_incremental_state(self, incremental_state: IncrementalState, new_order: Tensor) -> IncrementalState:
        """Reorder the kept inputs to follow a beam: row r becomes the former row ``new_order[r]``."""
        earlier = incremental_state.get(self.state_key, {}).get("inputs")
        if earlier is not None:
            incremental_state[self.state_key] = {"inputs": earlier.index_select(0, new_order)}
        return incremental_state

    def extra_repr(self) -> str:
        return f"kernel={self.kernel}, form={self.form}, causal={self.causal}"
