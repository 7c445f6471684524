"""Language models: fairseq's ``transformer_lm`` by name, and with :class:`LocalAttention` as its self-attention."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any, ClassVar

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer_lm import (
    TransformerLanguageModel,
    TransformerLanguageModelConfig,
    base_lm_architecture,
)

from ..grammar.placement import count_kept_layers
from ..options import set_missing
from ..speed.runtime import configure_runtime
from .base import LocalModel
from .struct_config import as_namespace, named_architecture
from .transformer import LocalDecoder, LocalDecoderLayer


@register_model("transformer_lm_localattn")
class PlainLanguageModel(TransformerLanguageModel):
    """fairseq's ``transformer_lm``, configured by flags.

    Its own registration has a dataclass, whose sizes replace those of a named architecture under fairseq-hydra-train.
    """

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Add fairseq's flags; called by fairseq."""
        gen_parser_from_dataclass(parser, TransformerLanguageModelConfig(), delete_default=True)

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> TransformerLanguageModel:
        """Return a new model; called by fairseq."""
        return super().build_model(as_namespace(args), task)


class LocalLanguageModel(LocalModel, PlainLanguageModel):
    """Base of the language models: fairseq's ``transformer_lm`` with a variant's attention in chosen layers."""

    task = "language_modeling"
    sites = ("decoder",)
    #: Class of the layers, for a variant that changes more than the attention.
    decoder_layer: ClassVar[type[LocalDecoderLayer]] = LocalDecoderLayer

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> LocalLanguageModel:
        """Return a new model; called by fairseq. Raises UsageError for invalid options."""
        args = cls.completed(args)
        count_kept_layers(args, "decoder")
        # fairseq chooses among three kinds of embedding inside build_model: take that of its model without layers.
        without_layers = Namespace(**{**vars(args), "decoder_layers": 0, "decoder_layers_to_keep": None})
        embed_tokens = super().build_model(without_layers, task).decoder.embed_tokens
        args.max_target_positions = without_layers.max_target_positions
        cfg = TransformerConfig.from_namespace(args)
        builder = cls.attention_builder(cfg)
        words, layer = task.target_dictionary, cls.decoder_layer
        model = cls(LocalDecoder(cfg, words, embed_tokens, builder, layer_class=layer, no_encoder_attn=True))
        configure_runtime(model)
        return model


def _set_lm_sizes(args: Any, dim: int, ffn: int, heads: int, layers: int) -> None:
    """Set the sizes of a language model where the command line has not; leave the rest to fairseq's defaults."""
    sizes = {"embed_dim": dim, "ffn_embed_dim": ffn, "attention_heads": heads, "layers": layers}
    set_missing(args, **{f"decoder_{name}": size for name, size in sizes.items()})
    base_lm_architecture(args)
    # fairseq's own defaults, except for values that it takes from the task ("${task...}").
    defaults = vars(TransformerLanguageModelConfig()).items()
    set_missing(args, **{name: value for name, value in defaults if not str(value).startswith("${")})


@named_architecture("transformer_lm_localattn", "transformer_lm_localattn")
def transformer_lm_localattn(args: Any) -> None:
    """Set the base sizes, pre-norm as in fairseq's named language models (its transformer_lm is post-norm)."""
    _set_lm_sizes(args, dim=512, ffn=2048, heads=8, layers=6)


@named_architecture("transformer_lm_localattn", "transformer_lm_localattn_tiny")
def transformer_lm_localattn_tiny(args: Any) -> None:
    """Set the sizes for tests."""
    _set_lm_sizes(args, dim=64, ffn=128, heads=4, layers=2)


@named_architecture("transformer_lm_localattn", "transformer_lm_localattn_small")
def transformer_lm_localattn_small(args: Any) -> None:
    """Set the sizes for two CPU cores."""
    _set_lm_sizes(args, dim=128, ffn=512, heads=4, layers=3)
