"""fairseq's Transformer with LocalAttention at every site: hooks and layer numbers, nothing else.

What a variant says of itself stands in :class:`~.model.LocalModel`. fairseq's own forward passes run unchanged.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import torch
from fairseq.data import Dictionary
from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import (
    TransformerConfig,
    TransformerDecoderBase,
    TransformerEncoderBase,
    TransformerModel,
)
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase, TransformerEncoderLayerBase
from torch import Tensor, nn

from ..core.attention import LocalAttention
from ..options import fill_defaults
from ..speed.implementation import configure_runtime
from ..speed.layers import ResidualInPlace
from .base import Attentions, LocalModel
from .placement import layer_numbers

# In what fairseq's encoder returns, once it was reordered: of which of the rows that were encoded each row is a copy.
SENTENCES = "sentences"


class LocalEncoderLayer(ResidualInPlace, TransformerEncoderLayerBase):
    """fairseq's encoder layer; its attention comes from ``attentions``."""

    def __init__(self, cfg: TransformerConfig, attentions: Attentions, layer: int, return_fc: bool = False) -> None:
        self.build_attention = partial(attentions.build, layer=layer, cfg=cfg)
        super().__init__(cfg, return_fc=return_fc)

    def build_self_attention(self, embed_dim: int, cfg: TransformerConfig) -> LocalAttention:
        return self.build_attention("encoder", embed_dim=embed_dim, self_attention=True)


class LocalDecoderLayer(ResidualInPlace, TransformerDecoderLayerBase):
    """fairseq's decoder layer; its attentions come from ``attentions``."""

    def __init__(self, cfg: TransformerConfig, attentions: Attentions, layer: int, no_encoder_attn: bool) -> None:
        self.build_attention = partial(attentions.build, layer=layer, cfg=cfg)
        super().__init__(cfg, no_encoder_attn)

    def build_self_attention(
        self, embed_dim: int, cfg: TransformerConfig, add_bias_kv: bool = False, add_zero_attn: bool = False
    ) -> LocalAttention:
        return self.build_attention("decoder", embed_dim=embed_dim, self_attention=not cfg.cross_self_attention)

    def build_encoder_attention(self, embed_dim: int, cfg: TransformerConfig) -> LocalAttention:
        width = cfg.encoder.embed_dim
        return self.build_attention(
            "cross", embed_dim=embed_dim, kdim=width, vdim=width, encoder_decoder_attention=True
        )


def wrap_layer(layer: nn.Module, cfg: TransformerConfig) -> nn.Module:
    """Activation checkpointing and FSDP, as fairseq applies them to its own layers."""
    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    return fsdp_wrap(layer, min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap)


class LocalEncoder(TransformerEncoderBase):
    """fairseq's encoder, with numbered layers of a class of our own."""

    def __init__(
        self,
        cfg: TransformerConfig,
        dictionary: Dictionary,
        embed: nn.Module,
        attentions: Attentions,
        layer_class: type[LocalEncoderLayer] = LocalEncoderLayer,
    ) -> None:
        self.attentions, self.layer_class = attentions, layer_class
        self.numbers: Iterator[int] = iter(layer_numbers(cfg.encoder.layers, cfg.encoder.layers_to_keep))
        super().__init__(cfg, dictionary, embed)
        del self.numbers  # an iterator would not survive a copy of the model

    def build_encoder_layer(self, cfg: TransformerConfig) -> nn.Module:
        return wrap_layer(self.layer_class(cfg, self.attentions, next(self.numbers), self.return_fc), cfg)

    def reorder_encoder_out(self, encoder_out: dict[str, list[Tensor]], new_order: Tensor) -> dict[str, list[Tensor]]:
        """As fairseq's; but on a CPU nothing is copied while each row stays a row of its sentence.

        Beam search calls it for every word, and its hypotheses mostly change places within their sentence, whose rows
        are copies of each other. (On a GPU a look at the order would make it wait, and the copy costs next to nothing.)
        """
        if new_order.device.type != "cpu":
            return super().reorder_encoder_out(encoder_out, new_order)
        before = encoder_out.get(SENTENCES, [])
        after = before[0].index_select(0, new_order) if before else new_order
        if before and torch.equal(before[0], after):
            return encoder_out
        return {**super().reorder_encoder_out(encoder_out, new_order), SENTENCES: [after]}


class LocalDecoder(TransformerDecoderBase):
    """fairseq's decoder, with numbered layers of a class of our own."""

    def __init__(
        self,
        cfg: TransformerConfig,
        dictionary: Dictionary,
        embed: nn.Module,
        attentions: Attentions,
        layer_class: type[LocalDecoderLayer] = LocalDecoderLayer,
        no_encoder_attn: bool = False,
    ) -> None:
        self.attentions, self.layer_class = attentions, layer_class
        self.numbers: Iterator[int] = iter(layer_numbers(cfg.decoder.layers, cfg.decoder.layers_to_keep))
        super().__init__(cfg, dictionary, embed, no_encoder_attn=no_encoder_attn)
        del self.numbers

    def build_decoder_layer(self, cfg: TransformerConfig, no_encoder_attn: bool = False) -> nn.Module:
        return wrap_layer(self.layer_class(cfg, self.attentions, next(self.numbers), no_encoder_attn), cfg)


class LocalTransformerModel(LocalModel, TransformerModel):
    """fairseq's Transformer whose attention at chosen sites and layers is a variant's."""

    task = "translation"
    # The classes of the layers, for a variant that changes more than the attention.
    encoder_layer: ClassVar[type[LocalEncoderLayer]] = LocalEncoderLayer
    decoder_layer: ClassVar[type[LocalDecoderLayer]] = LocalDecoderLayer

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> LocalTransformerModel:
        fill_defaults(args, cls.options)  # a checkpoint of an older version may lack an option
        model = super().build_model(args, task)
        configure_runtime(model, args)
        return model

    def set_beam_size(self, beam_size: int) -> None:
        """Called by fairseq's generator, whose own Transformer lacks it: one copy of the encoder's side a sentence."""
        self.decoder.set_beam_size(beam_size)

    @classmethod
    def build_encoder(cls, args: Any, src_dict: Dictionary, embed_tokens: nn.Module) -> LocalEncoder:
        cfg = TransformerConfig.from_namespace(args)
        return LocalEncoder(cfg, src_dict, embed_tokens, cls.attentions(cfg), cls.encoder_layer)

    @classmethod
    def build_decoder(cls, args: Any, tgt_dict: Dictionary, embed_tokens: nn.Module) -> LocalDecoder:
        cfg = TransformerConfig.from_namespace(args)
        attentions = cls.attentions(cfg)
        return LocalDecoder(cfg, tgt_dict, embed_tokens, attentions, cls.decoder_layer, cfg.no_cross_attention)
