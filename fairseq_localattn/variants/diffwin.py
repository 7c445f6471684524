"""Differentiable Window (Nguyen et al., ACL 2020).

The models ``transformer_diffwin``, ``transformer_lm_diffwin`` and ``transformer_diffwin_classifier``: their attentions
are in mechanisms/windowed.py.
"""

from argparse import Namespace
from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Any

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig

from ..errors import UsageError
from ..grammar.placement import Placement
from ..grammar.presets import is_segmented, window_of
from ..models.architectures import register_architecture, register_sizes
from ..models.base import LocalModel
from ..models.classifier import LocalClassifier
from ..models.language_model import LocalLanguageModel
from ..models.transformer import LocalTransformerModel
from ..options import option

WINDOWS = ChoiceEnum(("none", "mw", "aw"))
FORMS = ChoiceEnum(("token", "segment"))


@dataclass
class AnyWindowOptions(FairseqDataclass):
    """Options of windows at any site."""

    diffwin_renormalise: bool = option(False, "mw: divide the masked weights by their sum (the paper does not)")


@dataclass
class SegmentOptions(FairseqDataclass):
    """Options of windows whose ends are segments."""

    diffwin_segment_size: int = option(5, "b: tokens in a segment")


@dataclass
class EncoderOptions(FairseqDataclass):
    """Options of the encoder's self-attention."""

    diffwin_encoder: WINDOWS = option("aw", "the encoder's self-attention: none, mw (multiplicative) or aw (additive)")  # type: ignore[valid-type]
    diffwin_encoder_form: FORMS = option("token", "where its windows end: token or segment")  # type: ignore[valid-type]
    diffwin_encoder_layers: str = option("1-3", "its layers with windows: all, none, or numbers from 1 (1-3, 1,4-6)")


@dataclass
class DecoderOptions(FairseqDataclass):
    """Options of the decoder's self-attention."""

    diffwin_decoder: WINDOWS = option("mw", "the decoder's self-attention: none, mw (multiplicative) or aw (additive)")  # type: ignore[valid-type]
    diffwin_decoder_form: FORMS = option("token", "must stay token: an unfinished segment cannot be pointed to")  # type: ignore[valid-type]
    diffwin_decoder_layers: str = option("1-3", "its layers with windows: all, none, or numbers from 1 (1-3, 1,4-6)")


@dataclass
class CrossOptions(FairseqDataclass):
    """Options of the decoder's attention to the encoder."""

    diffwin_cross: WINDOWS = option("aw", "the decoder's attention to the encoder: none, mw or aw")  # type: ignore[valid-type]
    diffwin_cross_form: FORMS = option("segment", "where its windows end: token, or segment (of the source)")  # type: ignore[valid-type]
    diffwin_cross_layers: str = option("1-3", "layers of the decoder with these windows")


@dataclass
class DiffWinOptions(AnyWindowOptions, SegmentOptions, CrossOptions, DecoderOptions, EncoderOptions):
    """Options of the translation model; the defaults are the paper's best, Enc(AW)-Cr(AW,Seg)-Dec(MW)."""


@dataclass
class DiffWinLanguageModelOptions(AnyWindowOptions, DecoderOptions):
    """Options of the language model; the default is the paper's best, Dec(MW)."""


@dataclass
class DiffWinClassifierOptions(AnyWindowOptions, SegmentOptions, EncoderOptions):
    """Options of the classifier; the default is the paper's best, Enc(AW)."""


class DiffWinModel(LocalModel):
    """Mixin of the three models: placement and checks."""

    prefix = "diffwin"

    @classmethod
    def placement(cls, options: Any, cfg: TransformerConfig) -> Placement:
        """Return the layers with windows; a site with the window ``none`` has no such layers.

        Raises UsageError also for segments in the decoder's self-attention and for segments without tokens.
        """
        size = getattr(options, "diffwin_segment_size", 1)
        if size < 1:
            raise UsageError(f"--diffwin-segment-size {size}: give 1 or more tokens")
        if "decoder" in cls.sites and is_segmented(options, "decoder"):
            raise UsageError(
                "--diffwin-decoder-form segment: a decoder cannot point to a segment that is not finished; leave it at "
                "token (--diffwin-encoder-form and --diffwin-cross-form may be segment)"
            )
        without = {f"diffwin_{site}_layers": "none" for site in cls.sites if window_of(options, site) == "none"}
        return super().placement(replace(options, **without), cfg)

    @classmethod
    def check_effects(cls, args: Namespace, cfg: TransformerConfig, given: Set[str]) -> None:
        """Raise UsageError also for options that no window has."""
        sites = cls.placed(cfg)
        for site in cls.sites:
            if window_of(args, site) == "none":
                names = {name for name in given if name.startswith(f"diffwin_{site}_")}
                cls.refuse_unused(args, names, f"--diffwin-{site} is none")
        if not any(window_of(args, site) == "mw" for site in sites):
            cls.refuse_unused(args, given & {"diffwin_renormalise"}, "no layer has mw, whose weights it would divide")
        if not any(is_segmented(args, site) for site in sites):
            cls.refuse_unused(args, given & {"diffwin_segment_size"}, "no layer has windows of segments")
        super().check_effects(args, cfg, given)


@register_model("transformer_diffwin")
class DiffWinTransformerModel(DiffWinModel, LocalTransformerModel):
    """fairseq's Transformer with differentiable windows in chosen layers of its three attentions."""

    options = DiffWinOptions


@register_model("transformer_lm_diffwin")
class DiffWinLanguageModel(DiffWinModel, LocalLanguageModel):
    """fairseq's language model with differentiable windows in chosen layers."""

    options = DiffWinLanguageModelOptions


@register_model("transformer_diffwin_classifier")
class DiffWinClassifier(DiffWinModel, LocalClassifier):
    """The classifier with differentiable windows in chosen layers."""

    options = DiffWinClassifierOptions


for _model in (DiffWinTransformerModel, DiffWinLanguageModel, DiffWinClassifier):
    # Windows in the lower half of the stack, as in the paper.
    register_sizes(
        _model, lower_half=[f"diffwin_{_site}_layers" for _site in _model.sites], own={"_wmt_en_de_big": None}
    )
register_architecture(DiffWinTransformerModel, "transformer_diffwin_wmt_en_fr", "transformer_wmt_en_de")
