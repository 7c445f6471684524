"""The base of every variant's model: its options, its command-line flags and the attention of each layer.

A variant is a class with a few attributes, mixed with one of fairseq's models (see :class:`LocalModel`);
variants/csan.py is a short example.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Set
from typing import Any, ClassVar

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.models.transformer import TransformerConfig

from ..compat.pruning import prune
from ..core.projections import lay_out_for_decoding
from ..errors import UsageError
from ..grammar.build import reason_against
from ..grammar.parse import Stack
from ..grammar.placement import SITES, Placement, kept_layers, parse_layers
from ..grammar.presets import PRESETS, Sublayers, stack_of
from ..hub import FromPretrained
from ..options import add_flags, check_names, check_ranges, fill_defaults, flag_of, option_names, read_options
from ..speed.products import convert_to_bf16
from ..speed.runtime import ImplementationOptions, softmax_is_fairseqs
from .builder import AttentionBuilder
from .struct_config import as_namespace


class LocalModel(FromPretrained):
    """Mixin for fairseq's models: options, flags and placement of a variant's attention.

    A subclass for one paper sets ``prefix`` and ``options``. The preset of the prefix (:mod:`grammar.presets`) says
    what its layers are, and the fields ``<prefix>_<site>_layers`` of the options place them.
    """

    #: fairseq's task that the model is trained on; set by the base classes of models/.
    task: ClassVar[str]
    #: The sites that the model has; set by the base classes of models/.
    sites: ClassVar[tuple[str, ...]] = SITES
    #: What the names of the variant's options begin with, as in ``csan_window`` and ``--csan-window``.
    prefix: ClassVar[str]
    #: Dataclass of the variant's options, from which its flags and their defaults are made.
    options: ClassVar[type[FairseqDataclass]]
    #: Options that change more than the attention, so that no text expresses them.
    beyond_text: ClassVar[tuple[str, ...]] = ()
    #: Options that have an effect even where no layer has the variant.
    unplaced: ClassVar[tuple[str, ...]] = ()

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

    @classmethod
    def completed(cls, args: Any) -> Namespace:
        """Return the options of a model; those that a checkpoint of an older version lacks have their defaults."""
        args = as_namespace(args)
        fill_defaults(args, cls.options)
        fill_defaults(args, ImplementationOptions)
        return args

    @property
    def runtime(self: Any) -> ImplementationOptions:
        """The options by which attention, matrix products and loss are computed."""
        stack = self.encoder if self.sites == ("encoder",) else self.decoder
        return read_options(stack.cfg, ImplementationOptions)

    @property
    def loss_in_place(self: Any) -> bool:
        """Whether the label-smoothed loss may overwrite the logits."""
        return str(self.runtime.localattn_loss) == "auto" and softmax_is_fairseqs(self)

    @property
    def most_graphs(self) -> int:
        """The number of shapes of batches whose training steps a GPU records."""
        return self.runtime.localattn_graphs

    def load_state_dict(self, state_dict: Any, strict: bool = True, model_cfg: Any = None, args: Any = None) -> Any:
        """Copy the weights of a checkpoint; called by fairseq.

        Layers that ``…_layers_to_keep`` leaves out are dropped here, because fairseq also clears the option, which says
        the layers' numbers, and thus their attention.
        """
        return super().load_state_dict(prune(state_dict, model_cfg or args), strict)  # type: ignore[misc]

    def prepare_for_inference_(self, cfg: Any) -> None:
        """Prepare the model for decoding; called by fairseq-generate and the other commands that only read a model."""
        super().prepare_for_inference_(cfg)  # type: ignore[misc]
        convert_to_bf16(self, str(self.runtime.localattn_cpu_matmul))  # type: ignore[arg-type]
        lay_out_for_decoding(self)  # type: ignore[arg-type]

    @classmethod
    def check_args(cls, args: Namespace) -> None:
        """Raise UsageError for invalid or contradictory options. ``args`` are complete; no model is built."""
        check_ranges(args, cls.options)
        cfg = TransformerConfig.from_namespace(args)
        builder = cls.attention_builder(cfg)
        with torch.device("meta"):  # runs the checks of the constructors without their memory
            builder.check(cls.sites)

    @classmethod
    def check_effects(cls, args: Namespace, cfg: TransformerConfig, given: Set[str]) -> None:
        """Raise UsageError for likely mistakes: options that have no effect, and a stack without any positions.

        ``cfg`` is made of ``args``; ``given`` are the options that have another value than the architecture's.
        """
        placed, prefix = cls.placed(cfg), f"--{cls.prefix}"
        if "cross" in placed and cfg.no_cross_attention:
            flag = f"{prefix}-cross" + ("" if hasattr(args, f"{cls.prefix}_cross") else "-layers")
            raise UsageError(f"{flag} changes nothing: --no-cross-attention takes that attention out; place none there")
        for name in option_names(cls.options):
            sites = [site for site in cls.sites if name.startswith(f"{cls.prefix}_{site}")] or cls.sites
            acts = name.endswith("_layers") or name in cls.unplaced or not set(sites).isdisjoint(placed)
            if not acts:
                cls.refuse_unused(args, given & {name}, f"no layer has it, see {prefix}-{sites[0]}-layers")
        if cfg.no_token_positional_embeddings and "no_token_positional_embeddings" not in given:
            texts = cls.attention_builder(cfg).texts().items()
            same = "".join(f" --localattn-{site} '{text}'" for site, text in texts)
            for site in cls.sites:
                if site not in ("cross", *placed):
                    raise UsageError(
                        f"{prefix}-{site}-layers: the {site} would have no positions; take transformer_hybrid with "
                        f"these sizes{same}, which has absolute ones, or give --no-token-positional-embeddings as well"
                    )

    @classmethod
    def refuse_unused(cls, args: Namespace, names: Set[str], reason: str) -> None:
        """Raise UsageError for options without effect, except those whose value is ``none``."""
        for name in sorted(names):
            value = getattr(args, name)
            if str(value).strip().lower() != "none":
                shown = "" if isinstance(value, bool) else f" {value}"
                raise UsageError(f"{flag_of(name)}{shown} changes nothing: {reason}")

    @classmethod
    def stacks(cls, options: Any, cfg: TransformerConfig) -> dict[str, Stack]:
        """Return the layers of each site that is not plain. Raises UsageError for invalid options or sites."""
        placed, found, preset = cls.placement(options, cfg), {}, PRESETS[cls.prefix]
        for site in cls.sites:
            stack = cfg.encoder if site == "encoder" else cfg.decoder
            layers = set(kept_layers(stack.layers, stack.layers_to_keep))
            own = layers & placed.layers.get(site, frozenset())
            sublayers: Sublayers = ()
            if own:
                try:
                    sublayers = preset.sublayers(options, site, stack.attention_heads)
                except ValueError as error:
                    raise UsageError(f"{site} layer {min(own) + 1}: {error}") from None
                if reason := reason_against(sublayers, site):
                    raise UsageError(f"--{cls.prefix}-{site}-layers: {reason}")
            described = stack_of(own, layers, sublayers=sublayers, plain=preset.plain(options))
            if described is not None:
                found[site] = described
        return found

    @classmethod
    def attention_builder(cls, cfg: TransformerConfig) -> AttentionBuilder:
        """Return what builds the attention of every layer. Raises UsageError for invalid options."""
        return AttentionBuilder(cls.stacks(read_options(cfg, cls.options), cfg), cfg, flags={})

    @classmethod
    def stored_texts(cls, args: Namespace) -> dict[str, str]:
        """Return site → text of the sites that are not plain. ``args`` of an old checkpoint may lack options."""
        return cls.attention_builder(TransformerConfig.from_namespace(cls.completed(args))).texts()

    @classmethod
    def placed(cls, cfg: TransformerConfig) -> list[str]:
        """Return the sites that have the variant in at least one layer. Raises UsageError as :meth:`placement` does."""
        return cls.placement(read_options(cfg, cls.options), cfg).sites

    @classmethod
    def placement(cls, options: Any, cfg: TransformerConfig) -> Placement:
        """Return the layers of each site that have the variant's attention, from the ``…_layers`` options.

        Raises UsageError for layers beyond the stack, for a decoder site with --cross-self-attention, and for options
        of fairseq that would replace the attention.
        """
        layers = {}
        for site in cls.sites:
            stack = cfg.encoder if site == "encoder" else cfg.decoder
            # The layers of a pruned stack keep their numbers, so its depth is not an upper bound.
            depth = None if stack.layers_to_keep else stack.layers
            existing = kept_layers(stack.layers, stack.layers_to_keep)
            name = f"{cls.prefix}_{site}_layers"
            layers[site] = parse_layers(getattr(options, name), flag_of(name), existing, depth)
        placement = Placement(layers)
        for site in placement.sites:
            flag = f"--{cls.prefix}-{site}-layers"
            if site == "decoder" and cfg.cross_self_attention:
                raise UsageError(f"{flag}: --cross-self-attention mixes source and target positions; drop one of them")
        cls.check_compatible(cfg)
        return placement

    @classmethod
    def check_compatible(cls, cfg: TransformerConfig) -> None:
        """Raise UsageError for options of fairseq that would replace the attention, or that do not fit each other."""
        if cfg.cross_self_attention and cfg.encoder.embed_dim != cfg.decoder.embed_dim:
            raise UsageError("--cross-self-attention joins the words of both sentences: their widths must be equal")
        if cfg.quant_noise.scalar and not torch.cuda.is_available():
            raise UsageError("--quant-noise-scalar: fairseq quantizes on a GPU alone, and there is none")
        for stack in (cfg.encoder, cfg.decoder):
            if stack.xformers_att_config is not None:
                raise UsageError("--…-xformers-att-config replaces the attention that this architecture is about")
