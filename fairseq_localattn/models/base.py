"""The base of every variant's model: its options, its command-line flags and the attention of each layer.

A variant is a class with a few attributes, mixed with one of fairseq's models (see :class:`LocalModel`);
variants/csan.py is a short example.
"""

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
from ..hub import FromPretrained
from ..options import add_flags, check_names, check_ranges, read_options
from ..speed.implementation import ImplementationOptions
from ..speed.layers import lay_out_for_decoding
from .placement import SITES, Placement, kept_layers, parse_layers

# Called with the site and with LocalAttention's arguments by keyword; returns the variant's attention.
AttentionFactory = Callable[..., LocalAttention]


class AttentionBuilder:
    """Builds the attention of every site and layer: the variant's where it is placed, ordinary attention elsewhere.

    Args:
        make_variant: builds the variant's attention; raises ValueError for options that describe none.
        placement: the sites and layers of the variant.
    """

    def __init__(self, make_variant: AttentionFactory, placement: Placement) -> None:
        self.make_variant, self.placement = make_variant, placement

    def build(self, site: str, layer: int, embed_dim: int, cfg: TransformerConfig, **kwargs: Any) -> LocalAttention:
        """Return the attention of a site (one of ``SITES``) and a layer (from 0), with the sizes that ``cfg`` gives.

        ``kwargs`` are further arguments of :class:`LocalAttention`. Raises UsageError where the options are invalid.
        """
        heads = cfg.encoder.attention_heads if site == "encoder" else cfg.decoder.attention_heads
        try:
            return self.make(site, layer, embed_dim=embed_dim, num_heads=heads, dropout=cfg.attention_dropout, **kwargs)
        except ValueError as error:
            raise UsageError(f"{site} layer {layer + 1}: {error}") from None

    def make(self, site: str, layer: int, **kwargs: Any) -> LocalAttention:
        """Return the attention of a site and a layer from all arguments of its class."""
        if self.placement.includes(site, layer):
            return self.make_variant(site, **kwargs)
        return LocalAttention(**kwargs)


class LocalModel(FromPretrained):
    """Mixin for fairseq's models: options, flags and placement of a variant's attention.

    A subclass for one paper sets ``prefix`` and ``options`` and defines ``make_attention``; ``unsupported_sites`` names
    the sites where its attention is not defined. The fields ``<prefix>_<site>_layers`` of the options place it.
    """

    #: fairseq's task that the model is trained on; set by the base classes of models/.
    task: ClassVar[str]
    #: The sites that the model has; set by the base classes of models/.
    sites: ClassVar[tuple[str, ...]] = SITES
    #: What the names of the variant's options begin with, as in ``csan_window`` and ``--csan-window``.
    prefix: ClassVar[str]
    #: Dataclass of the variant's options, from which its flags and their defaults are made.
    options: ClassVar[type[FairseqDataclass]]
    #: Sites where the variant's attention is not defined, each with the reason, which the error message gives.
    unsupported_sites: ClassVar[dict[str, str]] = {}
    #: Class method ``(options, site, **arguments of LocalAttention)`` that returns the variant's attention; it raises
    #: ValueError for invalid options.
    make_attention: ClassVar[Callable[..., LocalAttention]]
    #: Whether the label-smoothed loss may overwrite the logits; set by ``configure_runtime``.
    loss_in_place: bool = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Check the names of a variant's options when its class is defined."""
        super().__init_subclass__(**kwargs)
        if "options" in vars(cls):
            check_names(cls.options, cls.prefix)

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Add the flags of fairseq's model, of the variant and of the implementation; called by fairseq."""
        super().add_args(parser)  # type: ignore[misc]
        add_flags(parser, cls.options)
        add_flags(parser, ImplementationOptions)

    def prepare_for_inference_(self, cfg: Any) -> None:
        """Prepare the model for decoding; called by fairseq-generate and the other commands that only read a model."""
        super().prepare_for_inference_(cfg)  # type: ignore[misc]
        lay_out_for_decoding(self)  # type: ignore[arg-type]

    @classmethod
    def check_args(cls, args: Namespace) -> None:
        """Raise UsageError for invalid or contradictory options. ``args`` are complete; no model is built."""
        check_ranges(args, cls.options)
        cfg = TransformerConfig.from_namespace(args)
        builder = cls.attention_builder(cfg)
        for site in builder.placement.sites:
            embed_dim = cfg.encoder.embed_dim if site == "encoder" else cfg.decoder.embed_dim
            with torch.device("meta"):  # runs the checks of the attention's constructor without its memory
                builder.build(site, min(builder.placement.layers[site]), embed_dim, cfg)
        # fairseq adds _name when it has parsed the command line: a checkpoint with options without effect still loads.
        if not hasattr(args, "_name"):
            cls.check_effects(args, cfg)

    @classmethod
    def check_effects(cls, args: Namespace, cfg: TransformerConfig) -> None:
        """Raise UsageError for options that have no effect, which are likely mistakes; ``cfg`` is made of ``args``."""

    @classmethod
    def attention_builder(cls, cfg: TransformerConfig) -> AttentionBuilder:
        """Return what builds the attention of every layer. Raises UsageError for an invalid placement."""
        options = read_options(cfg, cls.options)
        return AttentionBuilder(partial(cls.make_attention, options), cls.placement(options, cfg))

    @classmethod
    def placement(cls, options: Any, cfg: TransformerConfig) -> Placement:
        """Return the layers of each site that have the variant's attention, from the ``…_layers`` options.

        Raises UsageError for layers beyond the stack, for a site that the variant or the model does not support, and
        for options of fairseq that would replace the attention.
        """
        layers = {}
        for site in cls.sites:
            stack = cfg.encoder if site == "encoder" else cfg.decoder
            # The layers of a pruned stack keep their numbers, so its depth is not an upper bound.
            depth = None if stack.layers_to_keep else stack.layers
            existing = kept_layers(stack.layers, stack.layers_to_keep)
            name = f"{cls.prefix}_{site}_layers"
            layers[site] = parse_layers(getattr(options, name), "--" + name.replace("_", "-"), existing, depth)
        placement = Placement(layers)
        for site in placement.sites:
            flag = f"--{cls.prefix}-{site}-layers"
            if site in cls.unsupported_sites:
                raise UsageError(f"{flag}: {cls.unsupported_sites[site]}")
            if site == "decoder" and cfg.cross_self_attention:
                raise UsageError(f"{flag}: --cross-self-attention mixes source and target positions; drop one of them")
        if cfg.quant_noise.pq != 0:
            raise UsageError("--quant-noise-pq quantizes projections one by one, and here they are fused: leave it out")
        for stack in (cfg.encoder, cfg.decoder):
            if stack.xformers_att_config is not None:
                raise UsageError("--…-xformers-att-config replaces the attention that this architecture is about")
        return placement
