"""Sentence classification with the Transformer's encoder, for fairseq's task and criterion ``sentence_prediction``.

The features of a sentence are the mean over its tokens, the end-of-sentence symbol included (as in tensor2tensor, whose
tiny models Nguyen et al. 2020 use); one linear layer makes the scores of the classes. fairseq has no such model: its
own classifiers read the first token, which needs pre-training to mean something. The plain one, with fairseq's own
encoder, is ``transformer_localattn_classifier``; a variant's is a subclass of :class:`LocalClassifier`.
"""

from argparse import ArgumentParser, Namespace
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import FairseqEncoder, FairseqEncoderModel, register_model, register_model_architecture
from fairseq.models.transformer import TransformerConfig, TransformerEncoderBase, TransformerModel
from fairseq.models.transformer.transformer_config import EncDecBaseConfig
from torch import Tensor, nn

from ..options import add_flags, fill_defaults, set_missing
from ..speed.implementation import ImplementationOptions, configure_runtime
from .base import LocalModel
from .transformer import LocalEncoder


@dataclass
class ClassifierOptions(FairseqDataclass):
    """Those of fairseq's Transformer that an encoder has and that are not of one stack."""

    activation_fn: ChoiceEnum(utils.get_available_activation_fns()) = field(  # type: ignore[valid-type]
        default="relu", metadata={"help": "activation function to use"}
    )
    dropout: float = field(default=0.1, metadata={"help": "dropout probability"})
    attention_dropout: float = field(default=0.0, metadata={"help": "dropout probability for attention weights"})
    activation_dropout: float = field(default=0.0, metadata={"help": "dropout probability after activation in FFN"})
    layernorm_embedding: bool = field(default=False, metadata={"help": "add layernorm to embedding"})
    no_scale_embedding: bool = field(default=False, metadata={"help": "if True, dont scale embeddings"})
    no_token_positional_embeddings: bool = field(default=False, metadata={"help": "no positions"})
    checkpoint_activations: bool = field(default=False, metadata={"help": "recompute activations to save memory"})


class ClassificationHead(nn.Module):
    """Mean over the tokens, dropout, one linear layer."""

    def __init__(self, channels: int, num_classes: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.out_proj = nn.Linear(channels, num_classes)

    def forward(self, features: Tensor, padding: Tensor) -> Tensor:
        """Scores B×K from features T×B×C and padding B×T (True = padding). A sentence of padding alone has mean 0."""
        real = (~padding).T[..., None]  # T×B×1
        mean = (features * real).sum(dim=0) / real.sum(dim=0).clamp(min=1)
        return self.out_proj(F.dropout(mean, self.dropout, self.training))


@register_model("transformer_localattn_classifier")
class PlainClassifier(FairseqEncoderModel):
    """The plain Transformer's encoder under a classification head."""

    def __init__(self, encoder: FairseqEncoder, dropout: float) -> None:
        super().__init__(encoder)
        self.dropout = dropout
        self.classification_heads = nn.ModuleDict()

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        gen_parser_from_dataclass(parser, EncDecBaseConfig(), delete_default=True, with_prefix="--encoder")
        gen_parser_from_dataclass(parser, ClassifierOptions(), delete_default=True)

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> "PlainClassifier":
        args.max_source_positions = args.max_positions  # which the task has set
        if kept := getattr(args, "encoder_layers_to_keep", None):  # a list from the command line, text from overrides
            args.encoder_layers_to_keep = kept if isinstance(kept, str) else ",".join(map(str, kept))
            args.encoder_layers = len(args.encoder_layers_to_keep.split(","))
        words, path = task.source_dictionary, getattr(args, "encoder_embed_path", None)
        embed_tokens = TransformerModel.build_embedding(args, words, args.encoder_embed_dim, path)
        return cls(cls.build_encoder(TransformerConfig.from_namespace(args), words, embed_tokens), args.dropout)

    @classmethod
    def build_encoder(cls, cfg: TransformerConfig, words: Dictionary, embed_tokens: nn.Module) -> FairseqEncoder:
        return TransformerEncoderBase(cfg, words, embed_tokens)

    def register_classification_head(self, name: str, num_classes: int) -> None:
        """Called by the task, before it loads a checkpoint as well."""
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
        """Scores B×K of the named head; the features T×B×C without one. ``src_tokens``: B×T, padded on either side."""
        features = self.encoder(src_tokens, src_lengths)["encoder_out"][0]
        if classification_head_name is None:
            return features, None
        padding = src_tokens.eq(self.encoder.padding_idx)
        return self.classification_heads[classification_head_name](features, padding), None

    def get_normalized_probs(self, net_output: Any, log_probs: bool, sample: Any = None) -> Tensor:
        """Over the classes, B×K."""
        normalise = torch.log_softmax if log_probs else torch.softmax
        return normalise(net_output[0].float(), dim=-1)


class LocalClassifier(LocalModel, PlainClassifier):
    """The classifier whose encoder has a variant's attention in chosen layers."""

    task = "sentence_prediction"
    sites = ("encoder",)

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        PlainClassifier.add_args(parser)
        add_flags(parser, cls.options)
        add_flags(parser, ImplementationOptions)

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> PlainClassifier:
        fill_defaults(args, cls.options)
        model = super().build_model(args, task)
        configure_runtime(model, args)
        return model

    @classmethod
    def build_encoder(cls, cfg: TransformerConfig, words: Dictionary, embed_tokens: nn.Module) -> FairseqEncoder:
        return LocalEncoder(cfg, words, embed_tokens, cls.attentions(cfg))


def _set_sizes(args: Namespace, dim: int, ffn: int) -> None:
    """Two layers of four heads, where the command line has not set them; then fairseq's defaults for the rest."""
    sizes = {"embed_dim": dim, "ffn_embed_dim": ffn, "attention_heads": 4, "layers": 2}
    set_missing(args, **{f"encoder_{name}": size for name, size in sizes.items()})
    fill_defaults(args, ClassifierOptions)


@register_model_architecture("transformer_localattn_classifier", "transformer_localattn_classifier")
def transformer_localattn_classifier(args: Namespace) -> None:
    """The "tiny version" of Nguyen et al. 2020."""
    _set_sizes(args, dim=128, ffn=512)


@register_model_architecture("transformer_localattn_classifier", "transformer_localattn_classifier_tiny")
def transformer_localattn_classifier_tiny(args: Namespace) -> None:
    """For tests."""
    _set_sizes(args, dim=64, ffn=128)
