"""Encoder of a model with attention over phrases: passes each batch's phrases to its layers.

fairseq's encoder calls its layers with the words only. A forward pre-hook on each layer with phrases therefore adds the
partition to the call, and a forward hook takes the composed phrases out of the result. Both hooks are outside of
activation checkpointing, which thereby sees all inputs that it must replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairseq.models.transformer import TransformerConfig
from torch import Tensor, nn

from ...core.projections import xavier_linear
from ...mechanisms.phrasal import phrase_attentions, phrases_of
from ...mechanisms.phrase_memory.partition import Partition, partition_of_batch
from ..transformer import LocalEncoder, LocalEncoderLayer


class PhraseEncoderLayer(LocalEncoderLayer):
    """fairseq's encoder layer that accepts a partition for its :class:`~.phrasal.MultiGranularityAttention`."""

    def forward(
        self,
        x: Tensor,
        encoder_padding_mask: Tensor | None,
        attn_mask: Tensor | None = None,
        partition: Partition | None = None,
    ) -> Any:
        """Return x, T×B×C; with a partition, x and the composed phrases B×H×P×C of its last such attention.

        ``encoder_padding_mask``: B×T, True = padding.
        """
        if partition is None:
            return super().forward(x, encoder_padding_mask, attn_mask)
        with phrases_of(self, partition) as attentions:
            x = super().forward(x, encoder_padding_mask, attn_mask)
            return x, attentions[-1].composed


class PhraseEncoder(LocalEncoder):
    """fairseq's encoder for layers with :class:`~.phrasal.MultiGranularityAttention`.

    Args:
        granularities: the distinct granularities of the heads, ascending: n of n-grams, or levels of a tree from 1.
        needs_phrases: the phrases come with the batch, from trees; otherwise they are n-grams, computed here.
        args, kwargs: see :class:`LocalEncoder`.
    """

    def __init__(self, *args: Any, granularities: Sequence[int], needs_phrases: bool, **kwargs: Any) -> None:
        self.granularities = tuple(granularities)
        self._partition: Partition | None = None
        self._composed: list[Tensor] = []
        self._head_granularities: tuple[int, ...] = ()  # of each head, as an index into granularities
        super().__init__(*args, **kwargs)
        self.needs_phrases = needs_phrases and bool(self._head_granularities)
        self.tag_proj: nn.Linear | None = None

    def add_tag_classifier(self, tags: int) -> None:
        """Add the linear layer that predicts one of ``tags`` tags for each phrase (Eq. 9)."""
        self.tag_proj = xavier_linear(self.cfg.encoder.embed_dim, tags)

    def build_encoder_layer(self, cfg: TransformerConfig) -> nn.Module:
        """Return the next layer, with hooks where it has phrases; called by fairseq's constructor."""
        layer = super().build_encoder_layer(cfg)
        if attentions := phrase_attentions(layer):
            self._head_granularities = attentions[-1].granularities
            layer.register_forward_pre_hook(self._add_partition, with_kwargs=True)
            layer.register_forward_hook(self._collect_phrases)
        return layer

    def _add_partition(self, layer: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Add the batch's partition to the arguments of a layer."""
        return args, {**kwargs, "partition": self._partition}

    def _collect_phrases(self, layer: nn.Module, args: Any, output: tuple[Tensor, Tensor]) -> Tensor:
        """Store the composed phrases of a layer for the tag classifier; return its output without them."""
        x, phrases = output
        if self.tag_proj is not None:
            self._composed.append(phrases)
        return x

    def partition(self, src_tokens: Tensor, src_phrases: Tensor | None) -> Partition:
        """Return the phrases of B×T tokens by granularity; see :meth:`forward` for ``src_phrases``.

        Raises UsageError where phrases are needed and missing, or (on the CPU) do not cover their sentence.
        """
        padding = src_tokens.eq(self.padding_idx)
        return partition_of_batch(padding, self.granularities, src_phrases, of_trees=self.needs_phrases)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
        src_phrases: Tensor | None = None,
    ) -> dict[str, Any]:
        """Return the output of fairseq's encoder, with ``phrases`` added.

        ``phrases`` has the composed phrases B×H×P×C of each layer with phrases, for the tag classifier; it is empty
        without one. See :meth:`head_levels` for the H heads.

        Args:
            src_tokens: B×T.
            src_phrases: B×K×P, the lengths in tokens of the phrases on each of K levels, </s> included; 0 = no phrase.
            Others: see fairseq's encoder.
        """
        if self._head_granularities:
            self._partition = self.partition(src_tokens, src_phrases)
            self._partition.prepare(self._head_granularities)
        self._composed = []
        try:
            out = super().forward(src_tokens, src_lengths, return_all_hiddens, token_embeddings)
            return {**out, "phrases": self._composed}
        finally:
            self._partition, self._composed = None, []

    def tag_logits(self, encoder_out: dict[str, Any]) -> list[Tensor]:
        """Return the logits of the tags (Eq. 9) from the encoder's output: B×H×P×tags for each layer with phrases."""
        return [] if self.tag_proj is None else [self.tag_proj(phrases) for phrases in encoder_out["phrases"]]

    def upgrade_state_dict_named(self, state_dict: dict[str, Any], name: str) -> dict[str, Any]:
        """Adapt a checkpoint's state dict; without layers with phrases (pruned), drop the tag classifier as well."""
        state_dict = super().upgrade_state_dict_named(state_dict, name)
        if self.tag_proj is None:
            for part in ("weight", "bias"):
                state_dict.pop(f"{name}.tag_proj.{part}", None)
        return state_dict

    def head_levels(self) -> tuple[int, ...]:
        """Return the level of the tree, from 0, of each head of phrases, in the order of the tag logits."""
        return tuple(self.granularities[index] - 1 for index in self._head_granularities)
