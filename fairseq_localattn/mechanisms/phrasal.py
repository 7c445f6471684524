"""Multi-granularity self-attention: some heads attend to words, others to phrases (MG-SA, Hao et al., EMNLP 2019).

A head of granularity g computes ``Q = H W_Q``, ``K = H_g W_K``, ``V = H_g W_V`` (Eq. 5). Its phrase memory
``H_g = Rec(Com(H))`` has one vector per phrase (see :mod:`phrase_memory.compose`); in a word head ``H_g = H``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core.attention import LocalAttention
from ..core.call import Call
from ..core.decoding import IncrementalState
from ..core.hooks import is_plain
from ..kernels.dense import scaled_scores
from ..kernels.masks import lowest_score, normalise
from .phrase_memory.compose import make_composition, make_interaction
from .phrase_memory.partition import Partition, project_heads

WORD = "word"
LONGEST_PHRASE = 1024  # words, and levels of a tree; fairseq's positions end there by default


def parse_granularities(mix: str, heads: int) -> tuple[tuple[int, ...], int]:
    """Return the granularity of each phrase head, and the number of word heads, from a mix of heads.

    ``word,2,3,4`` gives equal shares to words and to granularities 2, 3 and 4, each the length of an n-gram or a level
    of a tree; ``word:1,2:3`` gives the numbers of heads.

    >>> parse_granularities("word,1,2,3", 8)
    ((1, 1, 2, 2, 3, 3), 2)

    Raises ValueError for a name that is neither ``word`` nor a number from 1 to LONGEST_PHRASE, for shares that do not
    divide ``heads``, for counts that do not add up to ``heads``, and for a mix without a granularity.
    """
    parts = [part.strip().partition(":") for part in mix.split(",")]
    shared = not any(colon for _, colon, _ in parts)
    if shared and heads % len(parts):
        raise ValueError(f"the {len(parts)} granularities of {mix!r} do not divide {heads} heads equally: give counts")
    granularities: list[int] = []
    words = 0
    for kind, _, given in parts:
        if not shared and not (given.isdecimal() and int(given)):
            raise ValueError(f"{kind!r} in {mix!r} needs a count of heads, as in 'word:2,2:3,3:3'")
        count = heads // len(parts) if shared else int(given)
        if kind == WORD:
            words += count
        elif kind.isdecimal() and (len(kind) > 9 or int(kind) > LONGEST_PHRASE):
            raise ValueError(f"granularity {kind[:20]} in {mix[:60]!r}: a phrase has {LONGEST_PHRASE} words or less")
        elif kind.isdecimal() and int(kind):
            granularities += [int(kind)] * count
        else:
            raise ValueError(f"unknown granularity {kind!r} in {mix!r}: give {WORD} or a number from 1")
    if words + len(granularities) != heads:
        raise ValueError(f"the granularities {mix!r} have {words + len(granularities)} heads, the model has {heads}")
    if not granularities:
        raise ValueError(f"{mix!r} has no granularity of phrases: give numbers as well, as in word,2,3,4")
    return tuple(sorted(granularities)), words


class MultiGranularityAttention(LocalAttention):
    """Self-attention with word heads, which come first, and phrase heads.

    The phrases are an input of every call. fairseq's layers cannot pass them to their attention as an argument, so the
    call must run inside of the context :meth:`use_partition`.

    Args:
        granularities: for each phrase head its granularity, as an index into those of the partition; ascending.
        composition: Com, one of ``compose.COMPOSITIONS``.
        interaction: Rec, one of ``compose.INTERACTIONS``.
        chunk: channels that share one value of ON-LSTM's master gates.
        embed_dim, num_heads, kwargs: see :class:`LocalAttention`.

    Raises ValueError if there is no phrase head or more than ``num_heads``, for granularities that do not ascend, for
    an unknown composition or interaction, for a chunk that does not divide a head's width, and with ``part=True``.
    """

    kind = "mgsa"
    whole = True
    undefined_at = dict.fromkeys(("decoder", "cross"), "phrases are those of the source sentence, which is known whole")

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
        if self.part:
            raise ValueError("phrases take all heads of an attention, and have heads of words of their own")
        if not 0 < len(granularities) <= num_heads:
            raise ValueError(f"{len(granularities)} heads of phrases among {num_heads} heads")
        if list(granularities) != sorted(granularities):
            raise ValueError(f"the granularities of the heads must ascend, not {list(granularities)}")
        self.granularities, self.word_heads = tuple(granularities), num_heads - len(granularities)
        sizes = len(self.granularities), embed_dim, self.head_dim
        self.composition = make_composition(composition, *sizes)
        self.interaction = make_interaction(interaction, *sizes, chunk=chunk)
        self.partition: Partition | None = None  # set by use_partition
        self.composed: Tensor | None = None  # the last call's phrases before their interaction, B×H×P×C

    @contextmanager
    def use_partition(self, partition: Partition) -> Iterator[None]:
        """Attend to the phrases of ``partition`` in calls inside of this context.

        After a call, :attr:`composed` holds the phrases before their interaction, B×H×P×C for the H phrase heads, until
        the context ends.
        """
        self.partition = partition
        try:
            yield
        finally:
            self.partition = self.composed = None

    def project(
        self, query: Tensor, key: Tensor, value: Tensor, state: IncrementalState | None = None
    ) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """Project q of all heads, and k and v of the word heads only; phrase heads project their phrase memory."""
        if not all(map(is_plain, (self.q_proj, self.k_proj, self.v_proj))):
            q, k, v, _ = super().project(query, key, value, state)
            return q, k[:, : self.word_heads], v[:, : self.word_heads], {}
        width = self.word_heads * self.head_dim
        weight = torch.cat([self.q_proj.weight, self.k_proj.weight[:width], self.v_proj.weight[:width]])
        bias = None
        if self.q_proj.bias is not None:
            bias = torch.cat([self.q_proj.bias, self.k_proj.bias[:width], self.v_proj.bias[:width]])
        parts = F.linear(query, weight, bias).split([self.embed_dim, width, width], dim=-1)
        q, k, v = (part.unflatten(-1, (-1, self.head_dim)).permute(1, 2, 0, 3) for part in parts)
        return q, k, v, {}

    def attend(self, call: Call, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """Attend to words in the word heads and to the phrase memory in the phrase heads.

        The weights returned are of words: the words of a phrase share its weight equally. Raises RuntimeError outside
        of :meth:`use_partition`.
        """
        if self.partition is None:
            raise RuntimeError("no phrases: call the attention inside of `with attention.use_partition(partition)`")
        k_phrases, v_phrases = self.memory(call.query, self.partition)
        partition = self.partition.of(self.granularities)
        hidden = partition.hidden[:, :, None]  # B×H×1×P
        word_queries, phrase_queries = call.q.split([self.word_heads, len(self.granularities)], dim=1)
        words, weights = super().attend(replace(call, q=word_queries), need_weights)
        if not need_weights:
            phrases = self.fused(phrase_queries, k_phrases, v_phrases, hidden=hidden)
            return torch.cat([words, phrases], dim=1), None
        scores = scaled_scores(phrase_queries, k_phrases, self.scaling)
        by_phrase = normalise(scores.masked_fill(hidden, lowest_score(scores.dtype)))
        phrases = torch.matmul(F.dropout(by_phrase, self.dropout_rate).to(v_phrases.dtype), v_phrases)
        assert weights is not None
        by_word = share_among_words(by_phrase, partition)
        return torch.cat([words, phrases], dim=1), torch.cat([weights, by_word.to(weights.dtype)], dim=1)

    def blind_queries(self, call: Call) -> Tensor | None:
        """Return the queries of word heads that see no word, and those of phrase heads that see no phrase."""
        words = super().blind_queries(call)
        if words is None:  # each sentence has a word, so it has a phrase
            return None
        assert self.partition is not None
        phrases = self.partition.of(self.granularities).hidden.all(-1)[:, :, None]  # B×H×1
        shape = phrases.size(0), self.word_heads, words.size(-1)
        return torch.cat([words.expand(shape), phrases.expand(-1, -1, words.size(-1))], dim=1)

    def memory(self, x: Tensor, partition: Partition) -> tuple[Tensor, Tensor]:
        """Compute keys and values of the phrase heads, B×H×P×D, from the words x, T×B×C; sets :attr:`composed`."""
        phrases = self.composition(x.transpose(0, 1), partition, self.granularities)
        self.composed = phrases
        if self.interaction is not None:
            phrases = self.interaction(phrases)
        if not all(map(is_plain, (self.k_proj, self.v_proj))):
            heads_of = [each(phrases).unflatten(-1, (-1, self.head_dim)) for each in (self.k_proj, self.v_proj)]
            k, v = (x.diagonal(self.word_heads, 1, 3).movedim(-1, 1) for x in heads_of)  # phrase heads are the last
            return k, v
        # Each head by its own rows of both projections, in one product.
        width, heads = self.word_heads * self.head_dim, len(self.granularities)
        weights = [each.weight[width:].view(heads, self.head_dim, -1) for each in (self.k_proj, self.v_proj)]
        projected = project_heads(phrases, torch.cat(weights, dim=1).transpose(-1, -2))
        if self.k_proj.bias is not None:
            biases = [each.bias[width:].view(heads, 1, -1) for each in (self.k_proj, self.v_proj)]
            projected = projected + torch.cat(biases, dim=-1)
        k, v = projected.chunk(2, dim=-1)
        return k, v

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, word_heads={self.word_heads}, granularities={self.granularities}"


def share_among_words(weights: Tensor, partition: Partition) -> Tensor:
    """Distribute weights of phrases, B×H×T×P, equally among the words of each phrase: B×H×T×S."""
    share = weights / partition.lengths.clamp(min=1)[:, :, None]
    with_padding = torch.cat([share, torch.zeros_like(share[..., :1])], dim=-1)
    index = partition.index[:, :, None].expand(-1, -1, weights.size(2), -1)
    return with_padding.gather(-1, index)


def phrase_attentions(module: nn.Module) -> list[MultiGranularityAttention]:
    """Return the attentions of a module that have phrases."""
    return [part for part in module.modules() if isinstance(part, MultiGranularityAttention)]


@contextmanager
def phrases_of(module: nn.Module, partition: Partition) -> Iterator[list[MultiGranularityAttention]]:
    """Let all attentions of a module that have phrases attend to those of ``partition``; yields these attentions."""
    found = phrase_attentions(module)
    with ExitStack() as stack:
        for attention in found:
            stack.enter_context(attention.use_partition(partition))
        yield found
