"""fairseq's Transformer with LocalAttention at every site: hooks and layer numbers, nothing else.

A variant is a subclass of :class:`LocalTransformerModel` with three class attributes and one method. fairseq's own
forward passes run unchanged.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import FairseqDataclass
from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import (
    TransformerConfig,
    TransformerDecoderBase,
    TransformerEncoderBase,
    TransformerModel,
)
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase, TransformerEncoderLayerBase
from torch import nn

from .attention import LocalAttention
from .errors import UsageError
from .options import add_flags, check_names, fill_defaults, read_options
from .placement import SITES, Placement, layer_numbers, parse_layers

# (site, number of heads, further arguments of LocalAttention) → the variant's attention.
MakeAttention = Callable[..., LocalAttention]


class Attentions:
    """Builds the attention of each site and layer: the variant's where it is placed, the ordinary one elsewhere."""

    def __init__(self, make_variant: MakeAttention, placement: Placement) -> None:
        self.make_variant, self.placement = make_variant, placement

    def build(self, site: str, layer: int, embed_dim: int, cfg: TransformerConfig, **kwargs: Any) -> LocalAttention:
        """The attention of a site (see placement.SITES) and layer. Raises UsageError for what cannot be built."""
        heads = cfg.encoder.attention_heads if site == "encoder" else cfg.decoder.attention_heads
        try:
            return self.make(site, layer, embed_dim=embed_dim, num_heads=heads, dropout=cfg.attention_dropout, **kwargs)
        except ValueError as error:
            raise UsageError(f"{site} layer {layer + 1}: {error}") from None

    def make(self, site: str, layer: int, **kwargs: Any) -> LocalAttention:
        """``build`` with all arguments of the attention's class."""
        return self.make_variant(site, **kwargs) if self.placement.has(site, layer) else LocalAttention(**kwargs)


class LocalEncoderLayer(TransformerEncoderLayerBase):
    """fairseq's encoder layer; its attention comes from ``attentions``."""

    def __init__(self, cfg: TransformerConfig, attentions: Attentions, layer: int, return_fc: bool = False) -> None:
        self.build_attention = partial(attentions.build, layer=layer, cfg=cfg)
        super().__init__(cfg, return_fc=return_fc)

    def build_self_attention(self, embed_dim: int, cfg: TransformerConfig) -> LocalAttention:
        return self.build_attention("encoder", embed_dim=embed_dim, self_attention=True)


class LocalDecoderLayer(TransformerDecoderLayerBase):
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


class LocalDecoder(TransformerDecoderBase):
    """fairseq's decoder, with numbered layers of a class of our own."""

    def __init__(
        self,
        cfg: TransformerConfig,
        dictionary: Dictionary,
        embed: nn.Module,
        attentions: Attentions,
        layer_class: type[LocalDecoderLayer] = LocalDecoderLayer,
    ) -> None:
        self.attentions, self.layer_class = attentions, layer_class
        self.numbers: Iterator[int] = iter(layer_numbers(cfg.decoder.layers, cfg.decoder.layers_to_keep))
        super().__init__(cfg, dictionary, embed, no_encoder_attn=cfg.no_cross_attention)
        del self.numbers

    def build_decoder_layer(self, cfg: TransformerConfig, no_encoder_attn: bool = False) -> nn.Module:
        return wrap_layer(self.layer_class(cfg, self.attentions, next(self.numbers), no_encoder_attn), cfg)


class LocalTransformerModel(TransformerModel):
    """fairseq's Transformer whose attention at chosen sites and layers is a variant's.

    A subclass gives ``prefix``, ``options`` (fields ``<prefix>_encoder_layers``, ``…_decoder_layers`` and
    ``…_cross_layers`` place it), ``nonsense`` and ``make_attention``.
    """

    prefix: ClassVar[str]
    options: ClassVar[type[FairseqDataclass]]
    # Sites where the variant has no meaning → the reason, for the error message.
    nonsense: ClassVar[dict[str, str]] = {}
    # A class method (options, site, **arguments of LocalAttention) → the variant's attention there; ValueError where
    # the options are no attention.
    make_attention: ClassVar[Callable[..., LocalAttention]]
    # The classes of the layers, for a variant that changes more than the attention.
    encoder_layer: ClassVar[type[LocalEncoderLayer]] = LocalEncoderLayer
    decoder_layer: ClassVar[type[LocalDecoderLayer]] = LocalDecoderLayer

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_names(cls.options, cls.prefix)

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        super().add_args(parser)
        add_flags(parser, cls.options)

    @classmethod
    def check(cls, args: Namespace) -> None:
        """Raise UsageError for options that make no sense together. ``args``: complete, but no model is built."""
        cfg = TransformerConfig.from_namespace(args)
        attentions = cls.attentions(cfg)
        for site in attentions.placement.sites:
            width = cfg.encoder.embed_dim if site == "encoder" else cfg.decoder.embed_dim
            with torch.device("meta"):  # the attention's own checks, without its memory
                attentions.build(site, min(attentions.placement.layers[site]), width, cfg)

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> LocalTransformerModel:
        fill_defaults(args, cls.options)  # a checkpoint of an older version may lack an option
        return super().build_model(args, task)

    @classmethod
    def build_encoder(cls, args: Any, src_dict: Dictionary, embed_tokens: nn.Module) -> LocalEncoder:
        cfg = TransformerConfig.from_namespace(args)
        return LocalEncoder(cfg, src_dict, embed_tokens, cls.attentions(cfg), cls.encoder_layer)

    @classmethod
    def build_decoder(cls, args: Any, tgt_dict: Dictionary, embed_tokens: nn.Module) -> LocalDecoder:
        cfg = TransformerConfig.from_namespace(args)
        return LocalDecoder(cfg, tgt_dict, embed_tokens, cls.attentions(cfg), cls.decoder_layer)

    @classmethod
    def attentions(cls, cfg: TransformerConfig) -> Attentions:
        options = read_options(cfg, cls.options)
        return Attentions(partial(cls.make_attention, options), cls.placement(options, cfg))

    @classmethod
    def placement(cls, options: Any, cfg: TransformerConfig) -> Placement:
        """Read the three ``…_layers`` options. Raises UsageError for layers beyond the stack and nonsensical sites."""
        layers = {}
        for site in SITES:
            stack = cfg.encoder if site == "encoder" else cfg.decoder
            # Pruned stacks keep the numbers of the layers that they had, so their depth is no bound.
            depth = None if stack.layers_to_keep else stack.layers
            there = layer_numbers(stack.layers, stack.layers_to_keep)
            name = f"{cls.prefix}_{site}_layers"
            layers[site] = parse_layers(getattr(options, name), "--" + name.replace("_", "-"), there, depth)
        placement = Placement(layers)
        for site in placement.sites:
            flag = f"--{cls.prefix}-{site}-layers"
            if site in cls.nonsense:
                raise UsageError(f"{flag}: {cls.nonsense[site]}")
            if site == "decoder" and cfg.cross_self_attention:
                raise UsageError(f"{flag}: --cross-self-attention mixes source and target positions; drop one of them")
        if cfg.quant_noise.pq > 0:
            raise UsageError("--quant-noise-pq quantizes projections one by one, and here they are fused: leave it out")
        for stack in (cfg.encoder, cfg.decoder):
            if stack.xformers_att_config is not None:
                raise UsageError("--…-xformers-att-config replaces the attention that this architecture is about")
        return placement
