"""Multi-granularity self-attention: heads that attend to words, and heads that attend to phrases (Hao et al. 2019).

``Q = H W_Q``, ``K = H_g W_K``, ``V = H_g W_V`` (Eq. 5) in a head of granularity g, whose memory ``H_g = Rec(Com(H))``
has one vector a phrase (phrases/compose.py); in a head of words ``H_g = H``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.attention import LocalAttention
from ..kernels.masks import Frame, lowest_score, normalise
from .phrase_memory.compose import make_composition, make_interaction
from .phrase_memory.partition import Partition, project_heads

WORD = "word"


def parse_granularities(mix: str, heads: int) -> tuple[tuple[int, ...], int]:
    """The granularity of each head of phrases, and the number of heads of words, from a mix of heads.

    ``word,2,3,4``: equal shares of words and granularities 2, 3 and 4 (the length of an n-gram, or a level of a tree);
    ``word:1,2:3``: these numbers of heads.

    >>> parse_granularities("word,1,2,3", 8)
    ((1, 1, 2, 2, 3, 3), 2)

    Raises ValueError for what is neither ``word`` nor a number from 1, for shares that do not divide ``heads``, counts
    that do not add up to it, and a mix without a granularity.
    """
    parts = [part.strip().partition(":") for part in mix.split(",")]
    shared = not any(colon for _, colon, _ in parts)
    if shared and heads % len(parts):
        raise ValueError(f"the {len(parts)} granularities of {mix!r} do not divide {heads} heads equally: give counts")
    granularities: list[int] = []
    words = 0
    for kind, _, given in parts:
        if not shared and not (given.isdigit() and int(given)):
            raise ValueError(f"{kind!r} in {mix!r} needs a count of heads, as in 'word:2,2:3,3:3'")
        count = heads // len(parts) if shared else int(given)
        if kind == WORD:
            words += count
        elif kind.isdigit() and int(kind):
            granularities += [int(kind)] * count
        else:
            raise ValueError(f"unknown granularity {kind!r} in {mix!r}: give {WORD} or a number from 1")
    if words + len(granularities) != heads:
        raise ValueError(f"the granularities {mix!r} have {words + len(granularities)} heads, the model has {heads}")
    if not granularities:
        raise ValueError(f"{mix!r} has no granularity of phrases: give numbers as well, as in word,2,3,4")
    return tuple(sorted(granularities)), words


class MultiGranularityAttention(LocalAttention):
    """Self-attention with heads of words, which come first, and heads of phrases.

    Args:
        granularities: of each head of phrases, as an index into the granularities of :attr:`partition`, ascending.
        composition, interaction: see phrases/compose.py. chunk: channels that share a value of ON-LSTM's master gates.
        Others: see :class:`LocalAttention`.

    Before a call :attr:`partition` must be set; a call leaves in :attr:`composed` the phrases before their interaction,
    B×H×P×C for the H heads of phrases. Raises ValueError when there are more heads of phrases than heads, none, or what
    compose.py refuses.
    """

    kind = "mgsa"

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        granularities: Sequence[int],
        composition: str = "sans",
        interaction: str = "onlstm",
        chunk: int = 1,
        **kwargs: object,
    ) -> None:
        super().__init__(embed_dim, num_heads, **kwargs)  # type: ignore[arg-type]
        if not 0 < len(granularities) <= num_heads:
            raise ValueError(f"{len(granularities)} heads of phrases among {num_heads} heads")
        if list(granularities) != sorted(granularities):
            raise ValueError(f"the granularities of the heads must ascend, not {list(granularities)}")
        self.granularities, self.word_heads = tuple(granularities), num_heads - len(granularities)
        sizes = len(self.granularities), embed_dim, self.head_dim
        self.composition = make_composition(composition, *sizes)
        self.interaction = make_interaction(interaction, *sizes, chunk=chunk)
        self.partition: Partition | None = None
        self.composed: Tensor | None = None

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """q of all heads; k and v of the heads of words alone: those of phrases are projections of other vectors."""
        width = self.word_heads * self.head_dim
        weight = torch.cat([self.q_proj.weight, self.k_proj.weight[:width], self.v_proj.weight[:width]])
        bias = None
        if self.q_proj.bias is not None:
            bias = torch.cat([self.q_proj.bias, self.k_proj.bias[:width], self.v_proj.bias[:width]])
        parts = F.linear(query, weight, bias).split([self.embed_dim, width, width], dim=-1)
        q, k, v = (part.unflatten(-1, (-1, self.head_dim)).permute(1, 2, 0, 3) for part in parts)
        return q, k, v, {}

    def attend(
        self,
        frame: Frame,
        query: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        side: Mapping[str, Tensor],
        need_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """Heads of words as ever; heads of phrases over their memory. A phrase's weight is shared by its words equally.

        Raises RuntimeError without a partition.
        """
        if self.partition is None:
            raise RuntimeError("set the attribute `partition` first: which words make a phrase")
        k_phrases, v_phrases = self.memory(query, self.partition)
        partition = self.partition.of(self.granularities)
        hidden = partition.hidden[:, :, None]  # B×H×1×P
        word_queries, phrase_queries = q.split([self.word_heads, len(self.granularities)], dim=1)
        words, weights = super().attend(frame, query, word_queries, k, v, side, need_weights)
        if not need_weights:
            phrases = self.fused(phrase_queries, k_phrases, v_phrases, hidden, None)
            return torch.cat([words, phrases], dim=1), None
        scores = torch.matmul(phrase_queries * self.scaling, k_phrases.transpose(-1, -2))
        by_phrase = normalise(scores.masked_fill(hidden, lowest_score(scores.dtype)))
        phrases = torch.matmul(F.dropout(by_phrase, self.dropout_rate).to(v_phrases.dtype), v_phrases)
        assert weights is not None
        by_word = share_among_words(by_phrase, partition)
        return torch.cat([words, phrases], dim=1), torch.cat([weights, by_word.to(weights.dtype)], dim=1)

    def memory(self, x: Tensor, partition: Partition) -> tuple[Tensor, Tensor]:
        """Keys and values of the heads of phrases, B×H×P×D, from the words x, T×B×C; keeps :attr:`composed`."""
        phrases = self.composition(x.transpose(0, 1), partition, self.granularities)
        self.composed = phrases
        if self.interaction is not None:
            phrases = self.interaction(phrases)
        return self._project_phrases(phrases, self.k_proj), self._project_phrases(phrases, self.v_proj)

    def _project_phrases(self, phrases: Tensor, projection: torch.nn.Linear) -> Tensor:
        """B×H×P×C → B×H×P×D, each head by its own rows of the projection."""
        width = self.word_heads * self.head_dim
        weight = projection.weight[width:].view(len(self.granularities), self.head_dim, -1)
        projected = project_heads(phrases, weight.transpose(-1, -2))
        if projection.bias is None:
            return projected
        return projected + projection.bias[width:].view(-1, 1, self.head_dim)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, word_heads={self.word_heads}, granularities={self.granularities}"


def share_among_words(weights: Tensor, partition: Partition) -> Tensor:
    """Weights of phrases B×H×T×P as weights of words B×H×T×S: each word has an equal share of its phrase's."""
    share = weights / partition.lengths.clamp(min=1)[:, :, None]
    with_padding = torch.cat([share, torch.zeros_like(share[..., :1])], dim=-1)
    index = partition.index[:, :, None].expand(-1, -1, weights.size(2), -1)
    return with_padding.gather(-1, index)
