"""fairseq's Transformer language model with :class:`LocalAttention` as its self-attention."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer_lm import TransformerLanguageModel, TransformerLanguageModelConfig

from ..options import add_flags, fill_defaults, set_missing
from ..speed.implementation import ImplementationOptions, configure_runtime
from .base import LocalModel
from .transformer import LocalDecoder


class LocalLanguageModel(LocalModel, TransformerLanguageModel):
    """Base of the language models: fairseq's ``transformer_lm`` with a variant's attention in chosen layers."""

    task = "language_modeling"
    sites = ("decoder",)

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Add the flags of fairseq's model, of the variant and of the implementation; called by fairseq."""
        gen_parser_from_dataclass(parser, TransformerLanguageModelConfig(), delete_default=True)
        add_flags(parser, cls.options)
        add_flags(parser, ImplementationOptions)

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> LocalLanguageModel:
        """Return a new model; called by fairseq. Raises UsageError for invalid options."""
        fill_defaults(args, cls.options)
        # fairseq's own defaults, except for values that it takes from the task ("${task...}").
        defaults = vars(TransformerLanguageModelConfig()).items()
        set_missing(args, **{name: value for name, value in defaults if not str(value).startswith("${")})
        if args.decoder_layers_to_keep:
            args.decoder_layers = len(args.decoder_layers_to_keep.split(","))
        # fairseq chooses among three kinds of embedding inside build_model: take that of its model without layers.
        without_layers = Namespace(**{**vars(args), "decoder_layers": 0, "decoder_layers_to_keep": None})
        embed_tokens = super().build_model(without_layers, task).decoder.embed_tokens
        args.max_target_positions = without_layers.max_target_positions
        cfg = TransformerConfig.from_namespace(args)
        builder = cls.attention_builder(cfg)
        model = cls(LocalDecoder(cfg, task.target_dictionary, embed_tokens, builder, no_encoder_attn=True))
        configure_runtime(model, args)
        return model
