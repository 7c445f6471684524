"""LSTM and ON-LSTM, with independent parameters for each of several heads that run in parallel.

LSTM (Hochreiter and Schmidhuber 1997)::

    f, i, o = σ(W x + U h + b)     ĉ = tanh(W_c x + U_c h + b_c)
    c = f ⊙ c₋₁ + i ⊙ ĉ            h = o ⊙ tanh(c)

ON-LSTM (Shen et al., ICLR 2019, Eq. 4-15) adds two master gates with ordered channels::

    f̃ = cumax(W x + U h + b)       ĩ = 1 - cumax(W x + U h + b)        cumax(z) = cumsum(softmax(z))
    ω = f̃ ⊙ ĩ                      f̂ = f ⊙ ω + (f̃ - ω)                 î = i ⊙ ω + (ĩ - ω)
    c = f̂ ⊙ c₋₁ + î ⊙ ĉ            h = o ⊙ tanh(c)

A master gate has one value per ``chunk`` channels.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ...kernels.masks import at_least_fp32
from .partition import project_heads
from .steps import run_steps


class Recurrence(nn.Module):
    """Independent LSTMs or ON-LSTMs, one per head, that run from left to right.

    Args:
        heads: the number of networks.
        channels, hidden: channels of the input and of the state of each.
        ordered: ON-LSTM instead of LSTM.
        chunk: channels that share one value of the master gates; must divide ``hidden``.

    Raises ValueError if the chunk does not divide ``hidden``.
    """

    def __init__(self, heads: int, channels: int, hidden: int, *, ordered: bool = False, chunk: int = 1) -> None:
        super().__init__()
        if ordered and (chunk < 1 or hidden % chunk):
            raise ValueError(f"master gates of chunks of {chunk} channels do not divide a state of {hidden} channels")
        self.hidden, self.ordered, self.chunk = hidden, ordered, chunk
        gates = 4 * hidden + (2 * hidden // chunk if ordered else 0)
        self.input_weight = nn.Parameter(torch.empty(heads, channels, gates))
        self.hidden_weight = nn.Parameter(torch.empty(heads, hidden, gates))
        self.bias = nn.Parameter(torch.empty(heads, gates))
        for parameter in self.parameters():  # as in torch's LSTM
            nn.init.uniform_(parameter, -1 / math.sqrt(hidden), 1 / math.sqrt(hidden))

    def forward(self, x: Tensor, restart: Tensor | None = None) -> Tensor:
        """Return the state after each position: x B×H×S×C (or 1 for H) → B×H×S×hidden.

        restart: B×H×S, True = the position starts from a zero state; None: only the first position does.
        """
        return self.run(self.gates(x), restart)

    def gates(self, x: Tensor) -> Tensor:
        """Compute the inputs' part of the gates, ``W x + b``: B×H×S×C (or 1 for H) → B×H×S×gates."""
        return project_heads(x, self.input_weight) + self.bias[:, None]

    def run(self, inputs: Tensor, restart: Tensor | None = None) -> Tensor:
        """Continue :meth:`forward` from the result of :meth:`gates`: B×H×S×gates → B×H×S×hidden."""
        dtype = at_least_fp32(inputs.dtype)
        kept = None if restart is None else (~restart).to(dtype).permute(1, 2, 0)[..., None]
        gates, weight = inputs.to(dtype).permute(1, 2, 0, 3), self.hidden_weight.to(dtype)
        states = run_steps(gates, weight, kept, self.chunk if self.ordered else None)
        return states.permute(2, 0, 1, 3).to(inputs.dtype)

    def extra_repr(self) -> str:
        heads, channels, _ = self.input_weight.shape
        kind = f"ordered, chunk={self.chunk}" if self.ordered else "plain"
        return f"{heads} × {channels} → {self.hidden}, {kind}"
