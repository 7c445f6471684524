"""The encoder of a model that attends to phrases: it hands the phrases to the layers, and collects what they made.

fairseq's encoder calls its layers with the words alone. So a hook on each layer with phrases adds them to the call, and
another takes the composed phrases out of its result; both stand outside of activation checkpointing, which then sees
all that it must repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerConfig
from torch import Tensor, nn

from ...errors import UsageError
from ...mechanisms.phrasal import MultiGranularityAttention
from ...mechanisms.phrase_memory.partition import Partition, choose, ngram_lengths, partition_of
from ..base import Attentions
from ..transformer import LocalEncoder, LocalEncoderLayer


class PhraseEncoderLayer(LocalEncoderLayer):
    """fairseq's encoder layer, which takes a partition where its attention is one over phrases."""

    def forward(
        self,
        x: Tensor,
        encoder_padding_mask: Tensor | None,
        attn_mask: Tensor | None = None,
        partition: Partition | None = None,
    ) -> Any:
        """x: T×B×C. With a partition the result has the composed phrases B×H×P×C besides: (x, phrases)."""
        if partition is None:
            return super().forward(x, encoder_padding_mask, attn_mask)
        attention = self.self_attn
        attention.partition = partition
        try:
            x = super().forward(x, encoder_padding_mask, attn_mask)
            return x, attention.composed
        finally:
            attention.partition = attention.composed = None


class PhraseEncoder(LocalEncoder):
    """fairseq's encoder for layers with :class:`MultiGranularityAttention`.

    Args:
        granularities: those that its heads have, ascending: the n of n-grams, or levels of a tree from 1.
        needs_phrases: they are a tree's, and come with the batch; else n-grams, which are made here.
    """

    def __init__(
        self,
        cfg: TransformerConfig,
        dictionary: Dictionary,
        embed: nn.Module,
        attentions: Attentions,
        granularities: Sequence[int],
        needs_phrases: bool,
    ) -> None:
        self.granularities = tuple(granularities)
        self._partition: Partition | None = None
        self._composed: list[Tensor] = []
        self._heads: tuple[int, ...] = ()
        super().__init__(cfg, dictionary, embed, attentions, PhraseEncoderLayer)
        self.needs_phrases = needs_phrases and bool(self._heads)
        self.tag_proj: nn.Linear | None = None

    def supervise(self, tags: int) -> None:
        """Add the classifier of the phrases' tags (Eq. 9), for this many of them."""
        self.tag_proj = nn.Linear(self.cfg.encoder.embed_dim, tags)
        nn.init.xavier_uniform_(self.tag_proj.weight)
        nn.init.zeros_(self.tag_proj.bias)

    def build_encoder_layer(self, cfg: TransformerConfig) -> nn.Module:
        layer = super().build_encoder_layer(cfg)
        if isinstance(layer.self_attn, MultiGranularityAttention):
            self._heads = layer.self_attn.granularities
            layer.register_forward_pre_hook(self._give_partition, with_kwargs=True)
            layer.register_forward_hook(self._take_phrases)
        return layer

    def _give_partition(self, layer: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, {**kwargs, "partition": self._partition}

    def _take_phrases(self, layer: nn.Module, args: Any, output: tuple[Tensor, Tensor]) -> Tensor:
        x, phrases = output
        if self.tag_proj is not None:
            self._composed.append(phrases)
        return x

    def partition(self, src_tokens: Tensor, src_phrases: Tensor | None) -> Partition:
        """The phrases of B×T tokens, by granularity. Raises UsageError where they must be given and are not."""
        padding = src_tokens.eq(self.padding_idx)
        if not self.needs_phrases:
            return partition_of(ngram_lengths(padding, self.granularities), padding, longest=max(self.granularities))
        if src_phrases is None:
            raise UsageError(
                "this model needs the phrases of each sentence, and got none: they come from data with trees, by "
                "--task translation_with_phrases"
            )
        lengths = choose(src_phrases, [level - 1 for level in self.granularities])
        if padding.device.type == "cpu" and (lengths.sum(dim=-1) != (~padding).sum(dim=-1, keepdim=True)).any():
            raise UsageError("the phrases do not cover the words of their sentence: they are those of another text")
        return partition_of(lengths, padding)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
        src_phrases: Tensor | None = None,
    ) -> dict[str, Any]:
        """As fairseq's encoder.

        src_phrases: B×K×P, the length of each phrase of each of the K levels in tokens, </s> included, 0 = no phrase.
        With tag supervision the result has ``phrases`` besides: for each layer that has some, the composed phrases
        B×H×P×C of its H heads (see :meth:`head_levels`).
        """
        if self._heads:
            self._partition = self.partition(src_tokens, src_phrases)
        self._composed = []
        try:
            out = super().forward(src_tokens, src_lengths, return_all_hiddens, token_embeddings)
            return {**out, "phrases": self._composed}
        finally:
            self._partition, self._composed = None, []

    def tag_logits(self, encoder_out: dict[str, Any]) -> list[Tensor]:
        """The scores of the tags (Eq. 9) of the phrases in an output: for each layer B×H×P×tags."""
        return [] if self.tag_proj is None else [self.tag_proj(phrases) for phrases in encoder_out["phrases"]]

    def upgrade_state_dict_named(self, state_dict: dict[str, Any], name: str) -> dict[str, Any]:
        """As fairseq's; the classifier of the tags goes where no layer with phrases was kept."""
        state_dict = super().upgrade_state_dict_named(state_dict, name)
        if self.tag_proj is None:
            for part in ("weight", "bias"):
                state_dict.pop(f"{name}.tag_proj.{part}", None)
        return state_dict

    def head_levels(self) -> tuple[int, ...]:
        """The level of the tree, from 0, of each head of phrases, in the order of the tags' logits."""
        return tuple(self.granularities[head] - 1 for head in self._heads)
