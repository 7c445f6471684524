"""Any mechanism at any layer, site and head, described by a text (fairseq_localattn/grammar).

The models ``transformer_localattn``, ``transformer_lm_hybrid`` and ``transformer_hybrid_classifier``, in the sizes
``transformer_hybrid_small`` and others. The papers' models are texts of this kind with options of their own.
"""

from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig

from ..errors import UsageError
from ..grammar.layers import is_plain
from ..grammar.placement import SITES
from ..grammar.presets import PLAIN
from ..grammar.words import PHRASES
from ..models.architectures import register_architecture, register_sizes
from ..models.base import LocalModel
from ..models.builder import AttentionBuilder
from ..models.classifier import LocalClassifier
from ..models.language_model import LocalLanguageModel
from ..models.layers.phrase_encoder import PhraseEncoderLayer
from ..models.layers.sublayers import OrderedDecoderLayer, OrderedEncoderLayer
from ..models.phrase_model import PhraseModel
from ..options import option


def _text(of: str) -> Any:
    """Return the field of a text."""
    return option("", f"{of}, such as '1-3: 2*local(window=2) + 2*global; 4-6: dman > san'; empty: ordinary attention")


@dataclass
class EncoderOptions(FairseqDataclass):
    """The text of an encoder."""

    localattn_encoder: str = _text("attention of the encoder's layers")


@dataclass
class DecoderOptions(FairseqDataclass):
    """The text of a decoder."""

    localattn_decoder: str = _text("self-attention of the decoder's layers")


@dataclass
class HybridOptions(DecoderOptions, EncoderOptions):
    """The texts of a translation model."""

    localattn_cross: str = _text("attention of the decoder's layers to the encoder")


class PhraseOrderedLayer(PhraseEncoderLayer, OrderedEncoderLayer):
    """An encoder layer with sublayers in any order, one of which may attend to phrases."""


class HybridModel(LocalModel):
    """Mixin of the three models."""

    prefix = "localattn"
    unplaced = tuple(f"localattn_{site}" for site in SITES)  # a text of ordinary attention is no mistake

    @classmethod
    def attention_builder(cls, cfg: TransformerConfig) -> AttentionBuilder:
        """Return what builds the layers that the texts describe. Raises UsageError, with the place in the text."""
        cls.check_compatible(cfg)
        texts = {site: getattr(cfg, f"localattn_{site}") for site in cls.sites}
        builder = AttentionBuilder(texts, cfg, {site: f"--localattn-{site}" for site in cls.sites})
        plain = all(is_plain(layer.kinds) for layer in builder.layers["decoder"].values())
        plain = plain and all(each.word == PLAIN for each in builder.mechanisms("decoder"))
        if cfg.cross_self_attention and not plain:
            raise UsageError(
                "--localattn-decoder: --cross-self-attention mixes source and target positions; drop one of them"
            )
        return builder

    @classmethod
    def placed(cls, cfg: TransformerConfig) -> list[str]:
        """Return the sites whose text describes another than ordinary attention."""
        return list(cls.attention_builder(cfg).texts())


@register_model("transformer_localattn")
class HybridTransformerModel(HybridModel, PhraseModel):
    """fairseq's Transformer with the attention that three texts describe."""

    options = HybridOptions
    encoder_layer = PhraseOrderedLayer
    decoder_layer = OrderedDecoderLayer


@register_model("transformer_lm_hybrid")
class HybridLanguageModel(HybridModel, LocalLanguageModel):
    """fairseq's language model with the attention that a text describes."""

    options = DecoderOptions
    decoder_layer = OrderedDecoderLayer


@register_model("transformer_hybrid_classifier")
class HybridClassifier(HybridModel, LocalClassifier):
    """The classifier with the attention that a text describes."""

    options = EncoderOptions
    encoder_layer = OrderedEncoderLayer

    @classmethod
    def attention_builder(cls, cfg: TransformerConfig) -> AttentionBuilder:
        """Return what builds the layers. Raises UsageError also for phrases, which only translation provides."""
        builder = super().attention_builder(cfg)
        if found := [each for each in builder.mechanisms("encoder") if each.word in PHRASES]:
            raise UsageError(f"--localattn-encoder: {found[0]}: phrases are for translation")
        return builder


register_architecture(HybridTransformerModel, "transformer_localattn", "transformer")
register_sizes(HybridTransformerModel, "transformer_hybrid")
register_sizes(HybridLanguageModel)
register_sizes(HybridClassifier)
