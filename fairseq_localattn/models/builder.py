"""The builder of the attentions in fairseq's layers: the grammar's, with fairseq's quantization noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairseq.models.transformer import TransformerConfig
from fairseq.modules.quant_noise import quant_noise
from torch import nn

from ..core.attention import LocalAttention
from ..errors import UsageError
from ..grammar.layers import LayerBuilder
from ..grammar.parse import Stack


class AttentionBuilder(LayerBuilder):
    """Builds the attention of every site and layer, with the noise that ``--quant-noise-pq`` asks for.

    Args:
        cfg: of fairseq, with the options of the implementation.
        texts, flags: see :class:`LayerBuilder`.
    """

    def __init__(self, texts: Mapping[str, str | Stack], cfg: TransformerConfig, flags: Mapping[str, str]) -> None:
        super().__init__(texts, cfg, flags, implementation=str(cfg.localattn_attention))

    def build(
        self, site: str, layer: int, embed_dim: int, *, position: int | None = None, **kwargs: Any
    ) -> LocalAttention:
        """Return an attention as :meth:`LayerBuilder.build` does. Raises UsageError also for a wrong block size."""
        attention = super().build(site, layer, embed_dim, position=position, **kwargs)
        noise = self.cfg.quant_noise
        for module in attention.modules():
            if isinstance(module, nn.Linear):
                try:
                    quant_noise(module, noise.pq, noise.pq_block_size)
                except AssertionError as error:
                    raise UsageError(f"--quant-noise-pq-block-size {noise.pq_block_size}: {error}") from None
        return attention
