"""fairseq's language model, the Transformer's decoder alone, with LocalAttention in its self-attention."""

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
    """fairseq's ``transformer_lm`` whose self-attention in chosen layers is a variant's."""

    task = "language_modeling"
    sites = ("decoder",)

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        gen_parser_from_dataclass(parser, TransformerLanguageModelConfig(), delete_default=True)
        add_flags(parser, cls.options)
        add_flags(parser, ImplementationOptions)

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> LocalLanguageModel:
        fill_defaults(args, cls.options)
        # fairseq's own defaults, but for those that it takes from the task ("${task...}").
        standard = vars(TransformerLanguageModelConfig()).items()
        set_missing(args, **{name: value for name, value in standard if not str(value).startswith("${")})
        if args.decoder_layers_to_keep:
            args.decoder_layers = len(args.decoder_layers_to_keep.split(","))
        # fairseq has three kinds of embedding for a language model: its own model without layers has the right one.
        bare = Namespace(**{**vars(args), "decoder_layers": 0, "decoder_layers_to_keep": None})
        embed_tokens = super().build_model(bare, task).decoder.embed_tokens
        args.max_target_positions = bare.max_target_positions
        cfg = TransformerConfig.from_namespace(args)
        model = cls(LocalDecoder(cfg, task.target_dictionary, embed_tokens, cls.attentions(cfg), no_encoder_attn=True))
        configure_runtime(model, args)
        return model
