"""What the models of a variant share, whatever they are for: options, flags, and which attention stands where."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.models.transformer import TransformerConfig

from ..core.attention import LocalAttention
from ..errors import UsageError
from ..options import add_flags, check_names, read_options
from ..speed.implementation import ImplementationOptions
from ..speed.layers import lay_out_for_decoding
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


class LocalModel:
    """Mixed into a model of fairseq's: what a variant says of itself, and what follows from it.

    A variant gives ``prefix``, ``options`` (whose fields ``<prefix>_<site>_layers`` place it), ``unsupported_sites`` and
    ``make_attention``.
    """

    # fairseq's task that the model is for.
    task: ClassVar[str]
    prefix: ClassVar[str]
    options: ClassVar[type[FairseqDataclass]]
    # The sites that the model has.
    sites: ClassVar[tuple[str, ...]] = SITES
    # Sites where the variant has no meaning → the reason, for the error message.
    unsupported_sites: ClassVar[dict[str, str]] = {}
    # A class method (options, site, **arguments of LocalAttention) → the variant's attention there; ValueError where
    # the options are no attention.
    make_attention: ClassVar[Callable[..., LocalAttention]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "options" in vars(cls):
            check_names(cls.options, cls.prefix)

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        super().add_args(parser)  # type: ignore[misc]
        add_flags(parser, cls.options)
        add_flags(parser, ImplementationOptions)

    def prepare_for_inference_(self, cfg: Any) -> None:
        """fairseq-generate and its like call it before they decode."""
        super().prepare_for_inference_(cfg)  # type: ignore[misc]
        lay_out_for_decoding(self)  # type: ignore[arg-type]

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
    def attentions(cls, cfg: TransformerConfig) -> Attentions:
        options = read_options(cfg, cls.options)
        return Attentions(partial(cls.make_attention, options), cls.placement(options, cfg))

    @classmethod
    def placement(cls, options: Any, cfg: TransformerConfig) -> Placement:
        """Read the ``…_layers`` options. Raises UsageError for layers beyond the stack and nonsensical sites."""
        layers = {}
        for site in cls.sites:
            stack = cfg.encoder if site == "encoder" else cfg.decoder
            # Pruned stacks keep the numbers of the layers that they had, so their depth is no bound.
            depth = None if stack.layers_to_keep else stack.layers
            there = layer_numbers(stack.layers, stack.layers_to_keep)
            name = f"{cls.prefix}_{site}_layers"
            layers[site] = parse_layers(getattr(options, name), "--" + name.replace("_", "-"), there, depth)
        placement = Placement(layers)
        for site in placement.sites:
            flag = f"--{cls.prefix}-{site}-layers"
            if site in cls.unsupported_sites:
                raise UsageError(f"{flag}: {cls.unsupported_sites[site]}")
            if site == "decoder" and cfg.cross_self_attention:
                raise UsageError(f"{flag}: --cross-self-attention mixes source and target positions; drop one of them")
        if cfg.quant_noise.pq > 0:
            raise UsageError("--quant-noise-pq quantizes projections one by one, and here they are fused: leave it out")
        for stack in (cfg.encoder, cfg.decoder):
            if stack.xformers_att_config is not None:
                raise UsageError("--…-xformers-att-config replaces the attention that this architecture is about")
        return placement
