"""From the words of a sentence to the phrase memory of each head: composition and interaction.

``G = Com(partition(H))``, ``H_g = Rec(G)`` (Hao et al. 2019, Eq. 8 and 11). Each head has parameters of its own ("F_h
is a representation function with its own trainable parameters"), shared by all its phrases.

The paper writes ``g ∈ R^{d_h}``, which its numbers of parameters contradict: projections of keys and values from d_h
would make max pooling smaller than the Transformer, and it has the same 88.0M. So a phrase has the model's width d
here; what runs inside of Com and Rec has the head's, d_h: queries and keys of ``sans``, and recurrent states, which are
projected back. With that the numbers of Tables 1-4 come out but that of the LSTM composition (see the README).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .partition import (
    Partition,
    choose,
    first_tokens,
    last_tokens,
    normalise_in_phrases,
    pool_phrases,
    project_heads,
    sum_phrases,
)
from .recurrent import Recurrence

COMPOSITIONS = ("max", "lstm", "sans")
INTERACTIONS = ("none", "lstm", "onlstm")


def projections(heads: int, channels: int, outputs: int) -> nn.Parameter:
    """One matrix a head, heads×channels×outputs, each with Xavier's initialisation."""
    weight = torch.empty(heads, channels, outputs)
    for matrix in weight:
        nn.init.xavier_uniform_(matrix)
    return nn.Parameter(weight)


class MaxComposition(nn.Module):
    """The maximum of the phrase's words, by channel. No parameters, so the same for all heads of a granularity."""

    def __init__(self, heads: int, channels: int, hidden: int) -> None:
        super().__init__()

    def forward(self, x: Tensor, partition: Partition, heads: Sequence[int]) -> Tensor:
        """x: B×T×C; ``partition``: of G granularities; ``heads``: that of each of H heads. Returns B×H×P×C."""
        return choose(pool_phrases(x[:, None], partition), heads)


class LSTMComposition(nn.Module):
    """The last state of an LSTM over the phrase's words, of the width of a head, projected to the model's width.

    All phrases run side by side, as many steps as the longest n-gram has words. Constituents may be as long as the
    sentence: they run one after another, each from a state of its own, in as many steps as the sentence has words.
    """

    def __init__(self, heads: int, channels: int, hidden: int) -> None:
        super().__init__()
        self.recurrence = Recurrence(heads, channels, hidden)
        self.output_weight = projections(heads, hidden, channels)

    def forward(self, x: Tensor, partition: Partition, heads: Sequence[int]) -> Tensor:
        """As :class:`MaxComposition`."""
        partition = partition.of(heads)
        gates = self.recurrence.gates(x[:, None])
        if partition.longest is None:
            states = last_tokens(self.recurrence.run(gates, restart=first_tokens(partition)), partition)
        else:
            states = self.side_by_side(gates, partition, partition.longest)
        return project_heads(states, self.output_weight)

    def side_by_side(self, gates: Tensor, partition: Partition, longest: int) -> Tensor:
        """The state after each phrase of at most ``longest`` words, B×H×P×hidden, from gates B×H×T×gates."""
        batch, heads, length, width = gates.shape
        lengths, count = partition.lengths, partition.count
        first = (lengths.cumsum(-1) - lengths)[..., None] + torch.arange(longest, device=gates.device)
        padded = partition.index.eq(count)
        # Words of the sentence are numbered from its first real one, which comes after padding on the left.
        start = padded.cumprod(dim=-1).sum(dim=-1)
        places = (first + start[..., None, None]).clamp(max=length - 1).flatten(2)  # B×H×(P·longest)
        by_phrase = gates.gather(2, places[..., None].expand(-1, -1, -1, width))
        rows = by_phrase.view(batch, heads, count, longest, width).transpose(1, 2).flatten(0, 1)  # (B·P)×H×longest×…
        states = self.recurrence.run(rows).view(batch, count, heads, longest, -1).transpose(1, 2)
        last = (lengths - 1).clamp(min=0)[..., None, None].expand(-1, -1, -1, 1, states.size(-1))
        there = lengths.gt(0)[..., None]
        return torch.where(there, states.gather(3, last)[:, :, :, 0], states.new_zeros(()))


class SelfAttentionComposition(nn.Module):
    """Attention over the phrase's own words, whose query is made of their maximum.

    ``g = Σ_t α_t x_t`` with ``α = softmax_t((W_q max_t x_t) · (W_k x_t) / √d_h)`` over the words t of the phrase.
    """

    def __init__(self, heads: int, channels: int, hidden: int) -> None:
        super().__init__()
        self.query_weight = projections(heads, channels, hidden)
        self.key_weight = projections(heads, channels, hidden)
        self.scaling = 1 / math.sqrt(hidden)

    def forward(self, x: Tensor, partition: Partition, heads: Sequence[int]) -> Tensor:
        """As :class:`MaxComposition`."""
        words = x[:, None]
        query = project_heads(choose(pool_phrases(words, partition), heads), self.query_weight)  # B×H×P×hidden
        partition = partition.of(heads)
        # Each word meets its own phrase's query; padding the query of a phrase that there is not.
        index = partition.index.clamp(max=partition.count - 1)[..., None].expand(-1, -1, -1, query.size(-1))
        scores = (query.gather(2, index) * project_heads(words, self.key_weight)).sum(dim=-1) * self.scaling
        return sum_phrases(words, normalise_in_phrases(scores, partition), partition)


class Interaction(nn.Module):
    """An LSTM or ON-LSTM over the phrases of a sentence, of the width of a head, projected to the model's width."""

    def __init__(self, heads: int, channels: int, hidden: int, ordered: bool, chunk: int = 1) -> None:
        super().__init__()
        self.recurrence = Recurrence(heads, channels, hidden, ordered, chunk)
        self.output_weight = projections(heads, hidden, channels)

    def forward(self, phrases: Tensor) -> Tensor:
        """B×H×P×C → B×H×P×C. What is not there comes after what is, so it changes nothing."""
        return project_heads(self.recurrence(phrases), self.output_weight)


_COMPOSITIONS: dict[str, type[nn.Module]] = {
    "max": MaxComposition,
    "lstm": LSTMComposition,
    "sans": SelfAttentionComposition,
}


def make_composition(name: str, heads: int, channels: int, hidden: int) -> nn.Module:
    """One of :data:`COMPOSITIONS` for this many heads of width ``hidden``; ValueError for another name."""
    if name not in _COMPOSITIONS:
        raise ValueError(f"unknown composition {name!r}: choose from {', '.join(COMPOSITIONS)}")
    return _COMPOSITIONS[name](heads, channels, hidden)


def make_interaction(name: str, heads: int, channels: int, hidden: int, chunk: int = 1) -> nn.Module | None:
    """One of :data:`INTERACTIONS`; None for ``none``; ValueError for another name or a chunk that does not divide."""
    if name not in INTERACTIONS:
        raise ValueError(f"unknown interaction {name!r}: choose from {', '.join(INTERACTIONS)}")
    return None if name == "none" else Interaction(heads, channels, hidden, name == "onlstm", chunk)
