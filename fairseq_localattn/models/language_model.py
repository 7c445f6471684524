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
        options: dict[str, Any] = {"builder": cls.attention_builder(cfg), "layer_class": cls.decoder_layer}
        model = cls(LocalDecoder(cfg, task.target_dictionary, embed_tokens, no_encoder_attn=True, **options))
        configure_runtime(model)
        return model


#: Channels, channels of the feed-forward network, heads and layers: as in fairseq, for tests, for two CPU cores.
_SIZES = {"": (512, 2048, 8, 6), "_tiny": (64, 128, 4, 2), "_small": (128, 512, 4, 3)}


def _register(name: str, sizes: tuple[int, ...]) -> None:
    """Register a plain language model, pre-norm as fairseq's named ones (its transformer_lm is post-norm)."""

    @named_architecture("transformer_lm_localattn", name)
    def set_sizes(args: Any) -> None:
        names = ("embed_dim", "ffn_embed_dim", "attention_heads", "layers")
        set_missing(args, **{f"decoder_{name}": size for name, size in zip(names, sizes, strict=True)})
        base_lm_architecture(args)
        # fairseq's own defaults, except for values that it takes from the task ("${task...}"), and the name.
        defaults = vars(TransformerLanguageModelConfig()).items()
        own = {name: value for name, value in defaults if name[0] != "_" and not str(value).startswith("${")}
        set_missing(args, **own)


for _size, _values in _SIZES.items():
    _register(f"transformer_lm_localattn{_size}", _values)
