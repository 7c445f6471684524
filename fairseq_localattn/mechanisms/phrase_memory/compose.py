"""Composition of words into phrases, and interaction between phrases, for each phrase head.

``G = Com(partition(H))`` and ``H_g = Rec(G)`` (Hao et al. 2019, Eq. 8 and 11). Each head has parameters of its own
("F_h is a representation function with its own trainable parameters"), shared by all its phrases.

The paper writes ``g ∈ R^{d_h}``, which contradicts its numbers of parameters: projecting keys and values from d_h would
make max pooling smaller than the Transformer, and both have 88.0M. Here a phrase has the model's width d, and only the
inner parts of Com and Rec have the head's width d_h: the queries and keys of ``sans``, and recurrent states, which are
projected back to d. The numbers of Tables 1-4 follow, except for that of the LSTM composition.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor, nn

from .partition import Partition, choose, project_heads
from .recurrent import Recurrence
from .reductions import (
    attend_in_phrases,
    first_tokens,
    last_tokens,
    normalise_in_phrases,
    pool_phrases,
    score_in_phrases,
    sum_phrases,
)

COMPOSITIONS = ("max", "lstm", "sans")
INTERACTIONS = ("none", "lstm", "onlstm")


def projections(heads: int, channels: int, outputs: int) -> nn.Parameter:
    """Return one matrix per head, heads×channels×outputs, each initialised by Xavier's rule."""
    weight = torch.empty(heads, channels, outputs)
    for matrix in weight:
        nn.init.xavier_uniform_(matrix)
    return nn.Parameter(weight)


class MaxComposition(nn.Module):
    """The maximum of a phrase's words in each channel. It has no parameters: all heads of a granularity are equal."""

    def __init__(self, heads: int, channels: int, hidden: int) -> None:
        super().__init__()

    def forward(self, x: Tensor, partition: Partition, heads: Sequence[int]) -> Tensor:
        """Compose the phrases of each head.

        Args:
            x: B×T×C.
            partition: phrases of G granularities.
            heads: the index of the granularity of each of H heads.

        Returns B×H×P×C.
        """
        return choose(pool_phrases(x, partition), heads)


class LSTMComposition(nn.Module):
    """The last state of an LSTM over a phrase's words, of the head's width, projected to the model's width.

    N-grams are short: all phrases run in parallel, in as many steps as the longest has words. Constituents may be as
    long as the sentence: they run in sequence, with a new state for each, in as many steps as the sentence has words.
    """

    def __init__(self, heads: int, channels: int, hidden: int) -> None:
        super().__init__()
        self.recurrence = Recurrence(heads, channels, hidden)
        self.output_weight = projections(heads, hidden, channels)

    def forward(self, x: Tensor, partition: Partition, heads: Sequence[int]) -> Tensor:
        """Compose as in :class:`MaxComposition`."""
        partition = partition.of(heads)
        gates = self.recurrence.gates(x[:, None])
        if partition.longest is None:
            states = last_tokens(self.recurrence.run(gates, restart=first_tokens(partition)), partition)
        else:
            states = self.in_parallel(gates, partition, partition.longest)
        return project_heads(states, self.output_weight)

    def in_parallel(self, gates: Tensor, partition: Partition, longest: int) -> Tensor:
        """Return the state after each phrase of at most ``longest`` words, B×H×P×hidden, from gates B×H×T×gates."""
        batch, heads, length, width = gates.shape
        lengths, count = partition.lengths, partition.count
        first = (lengths.cumsum(-1) - lengths)[..., None] + torch.arange(longest, device=gates.device)
        # Phrases are counted from the first real word, which follows any padding on the left.
        places = (first + partition.start[:, None, None, None]).clamp(max=length - 1).flatten(2)  # B×H×(P·longest)
        by_phrase = gates.gather(2, places[..., None].expand(-1, -1, -1, width))
        rows = by_phrase.view(batch, heads, count, longest, width).transpose(1, 2).flatten(0, 1)  # (B·P)×H×longest×…
        states = self.recurrence.run(rows).view(batch, count, heads, longest, -1).transpose(1, 2)
        last = (lengths - 1).clamp(min=0)[..., None, None].expand(-1, -1, -1, 1, states.size(-1))
        exists = lengths.gt(0)[..., None]
        return torch.where(exists, states.gather(3, last)[:, :, :, 0], states.new_zeros(()))


class SelfAttentionComposition(nn.Module):
    """Attention over a phrase's own words, with a query made from their maximum.

    ``g = Σ_t α_t x_t`` with ``α = softmax_t((W_q max_t x_t) · (W_k x_t) / √d_h)`` over the words t of the phrase.
    """

    def __init__(self, heads: int, channels: int, hidden: int) -> None:
        super().__init__()
        self.query_weight = projections(heads, channels, hidden)
        self.key_weight = projections(heads, channels, hidden)
        self.scaling = 1 / math.sqrt(hidden)

    def forward(self, x: Tensor, partition: Partition, heads: Sequence[int]) -> Tensor:
        """Compose as in :class:`MaxComposition`."""
        if partition.dense:
            partition = partition.of(heads)
            queries = project_heads(pool_phrases(x, partition), self.query_weight)
            return attend_in_phrases(
                x, project_heads(x[:, None], self.key_weight), queries, partition, scaling=self.scaling
            )
        pooled = pool_phrases(x, partition)
        queries_of, first = [], 0
        for place, group in groupby(heads):  # neighbouring heads of one granularity have the same maxima
            last = first + len(list(group))
            queries_of.append(project_heads(pooled[:, place : place + 1], self.query_weight[first:last]))
            first = last
        partition = partition.of(heads)
        scores = score_in_phrases(project_heads(x[:, None], self.key_weight), torch.cat(queries_of, dim=1), partition)
        return sum_phrases(x, normalise_in_phrases(scores * self.scaling, partition), partition)


class Interaction(nn.Module):
    """An LSTM or ON-LSTM over the phrases of a sentence, of the head's width, projected to the model's width."""

    def __init__(self, heads: int, channels: int, hidden: int, *, ordered: bool, chunk: int = 1) -> None:
        super().__init__()
        self.recurrence = Recurrence(heads, channels, hidden, ordered=ordered, chunk=chunk)
        self.output_weight = projections(heads, hidden, channels)

    def forward(self, phrases: Tensor) -> Tensor:
        """Run over phrases: B×H×P×C → B×H×P×C. Places without a phrase come last and do not influence the others."""
        return project_heads(self.recurrence(phrases), self.output_weight)


_COMPOSITIONS: dict[str, type[nn.Module]] = {
    "max": MaxComposition,
    "lstm": LSTMComposition,
    "sans": SelfAttentionComposition,
}


def make_composition(name: str, heads: int, channels: int, hidden: int) -> nn.Module:
    """Return one of :data:`COMPOSITIONS` for a number of heads of width ``hidden``; ValueError for another name."""
    if name not in _COMPOSITIONS:
        raise ValueError(f"unknown composition {name!r}: choose from {', '.join(COMPOSITIONS)}")
    return _COMPOSITIONS[name](heads, channels, hidden)


def make_interaction(name: str, heads: int, channels: int, hidden: int, chunk: int = 1) -> nn.Module | None:
    """Return one of :data:`INTERACTIONS`, None for ``none``.

    Raises ValueError for another name, and for a chunk that does not divide ``hidden``.
    """
    if name not in INTERACTIONS:
        raise ValueError(f"unknown interaction {name!r}: choose from {', '.join(INTERACTIONS)}")
    return None if name == "none" else Interaction(heads, channels, hidden, ordered=name == "onlstm", chunk=chunk)
