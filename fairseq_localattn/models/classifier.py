"""Sentence classification with the Transformer's encoder, for fairseq's task and criterion ``sentence_prediction``.

The features of a sentence are the mean over its tokens, the end-of-sentence symbol included, as in tensor2tensor, whose
tiny models Nguyen et al. 2020 use; one linear layer computes the scores of the classes. (fairseq's own classifiers read
the first token, which is meaningful after pre-training only.) The plain model is ``transformer_localattn_classifier``;
a variant's model is a subclass of :class:`LocalClassifier`.
"""

from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import FairseqEncoder, FairseqEncoderModel, register_model
from fairseq.models.transformer import TransformerConfig, TransformerEncoderBase, TransformerModel
from fairseq.models.transformer.transformer_config import EncDecBaseConfig
from torch import Tensor, nn

from ..grammar.placement import count_kept_layers
from ..hub import ClassifierHubInterface, FromPretrained
from ..options import check_ranges, fill_defaults, option, set_missing
from ..speed.runtime import configure_runtime
from .base import LocalModel
from .struct_config import as_namespace, named_architecture
from .transformer import LocalEncoder, LocalEncoderLayer


@dataclass
class ClassifierOptions(FairseqDataclass):
    """Options of fairseq's Transformer that concern its encoder without being named after it."""

    activation_fn: ChoiceEnum(utils.get_available_activation_fns()) = option(  # type: ignore[valid-type]
        "relu", "activation function to use"
    )
    dropout: float = option(0.1, "dropout probability")
    attention_dropout: float = option(0.0, "dropout probability for attention weights")
    activation_dropout: float = option(0.0, "dropout probability after activation in FFN")
    layernorm_embedding: bool = option(False, "add layernorm to embedding")
    no_scale_embedding: bool = option(False, "if True, dont scale embeddings")
    no_token_positional_embeddings: bool = option(False, "no positions")
    checkpoint_activations: bool = option(False, "recompute activations to save memory")


class ClassificationHead(nn.Module):
    """Mean over the tokens, dropout and one linear layer."""

    def __init__(self, channels: int, num_classes: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.out_proj = nn.Linear(channels, num_classes)

    def forward(self, features: Tensor, padding: Tensor) -> Tensor:
        """Return the scores B×K of the classes; the mean of a sentence that is only padding is 0.

        ``features``: T×B×C. ``padding``: B×T, True = padding.
        """
        real = (~padding).T[..., None]  # T×B×1
        mean = (features * real).sum(dim=0) / real.sum(dim=0).clamp(min=1)
        return self.out_proj(F.dropout(mean, self.dropout, self.training))


@register_model("transformer_localattn_classifier")
class PlainClassifier(FromPretrained, FairseqEncoderModel):
    """fairseq's Transformer encoder with classification heads, by name."""

    hub_interface = ClassifierHubInterface

    def __init__(self, encoder: FairseqEncoder, dropout: float) -> None:
        super().__init__(encoder)
        self.dropout = dropout
        self.classification_heads = nn.ModuleDict()

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Add the flags of the encoder; called by fairseq."""
        gen_parser_from_dataclass(parser, EncDecBaseConfig(), delete_default=True, with_prefix="--encoder")
        gen_parser_from_dataclass(parser, ClassifierOptions(), delete_default=True)

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> "PlainClassifier":
        """Return a new model without heads; called by fairseq."""
        args = as_namespace(args)
        check_ranges(args, getattr(cls, "options", ClassifierOptions))
        # On a command line the task's option is among the model's.
        args.max_source_positions = args.max_positions if hasattr(args, "max_positions") else task.max_positions()
        count_kept_layers(args, "encoder")
        words, path = task.source_dictionary, getattr(args, "encoder_embed_path", None)
        embed_tokens = TransformerModel.build_embedding(args, words, args.encoder_embed_dim, path)
        return cls(cls.build_encoder(TransformerConfig.from_namespace(args), words, embed_tokens), args.dropout)

    @classmethod
    def build_encoder(cls, cfg: TransformerConfig, words: Dictionary, embed_tokens: nn.Module) -> FairseqEncoder:
        """Return the encoder; overridden by the variants."""
        return TransformerEncoderBase(cfg, words, embed_tokens)

    def register_classification_head(self, name: str, num_classes: int) -> None:
        """Add a head for ``num_classes`` classes; called by fairseq's task, also before it loads a checkpoint."""
        channels = self.encoder.cfg.encoder.embed_dim
        self.classification_heads[name] = ClassificationHead(channels, num_classes, self.dropout)

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        features_only: bool = True,
        classification_head_name: str | None = None,
        **_: Any,
    ) -> tuple[Tensor, None]:
        """Return the scores B×K of the named head, or the features T×B×C without one, and None.

        ``src_tokens``: B×T, padded on either side.
        """
        features = self.encoder(src_tokens, src_lengths)["encoder_out"][0]
        if classification_head_name is None:
            return features, None
        padding = src_tokens.eq(self.encoder.padding_idx)
        return self.classification_heads[classification_head_name](features, padding), None

    def get_normalized_probs(self, net_output: Any, log_probs: bool, sample: Any = None) -> Tensor:
        """Return the (log-)probabilities of the classes, B×K."""
        normalise = torch.log_softmax if log_probs else torch.softmax
        return normalise(net_output[0].float(), dim=-1)


class LocalClassifier(LocalModel, PlainClassifier):
    """Base of the classifiers with a variant's attention in chosen layers of the encoder."""

    task = "sentence_prediction"
    sites = ("encoder",)
    #: Class of the layers, for a variant that changes more than the attention.
    encoder_layer: ClassVar[type[LocalEncoderLayer]] = LocalEncoderLayer

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> PlainClassifier:
        """Return a new model without heads; called by fairseq. Raises UsageError for invalid options."""
        model = super().build_model(cls.completed(args), task)
        configure_runtime(model)
        return model

    @classmethod
    def build_encoder(cls, cfg: TransformerConfig, words: Dictionary, embed_tokens: nn.Module) -> FairseqEncoder:
        """Return the encoder with the variant's attention."""
        builder, layer = cls.attention_builder(cfg), cls.encoder_layer
        return LocalEncoder(cfg, words, embed_tokens, builder=builder, layer_class=layer)


def _register(name: str, dim: int, ffn: int) -> None:
    """Register a plain classifier of two layers with four heads."""

    @named_architecture("transformer_localattn_classifier", name)
    def set_sizes(args: Namespace) -> None:
        sizes = {"embed_dim": dim, "ffn_embed_dim": ffn, "attention_heads": 4, "layers": 2}
        set_missing(args, **{f"encoder_{name}": size for name, size in sizes.items()})
        fill_defaults(args, ClassifierOptions)


_register("transformer_localattn_classifier", dim=128, ffn=512)  # the "tiny version" of Nguyen et al. 2020
_register("transformer_localattn_classifier_tiny", dim=64, ffn=128)  # for tests
