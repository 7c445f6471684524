"""Gaussian attention: localness (Yang et al. 2018), local-p (Luong et al. 2015), neighbours (Sperber et al. 2018).

The models ``transformer_localness`` and ``transformer_localness_classifier``: their attention is in
mechanisms/gaussian.py. The architectures ``transformer_local_hard`` and ``transformer_neighbor`` are other settings of
the first one.
"""

from argparse import Namespace
from dataclasses import dataclass, field
from typing import Any

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig

from ..errors import UsageError
from ..grammar import presets
from ..mechanisms.gaussian import CENTERS, HIDDEN, SOURCES, parse_width
from ..models.architectures import register_architecture
from ..models.base import LocalModel
from ..models.classifier import LocalClassifier
from ..models.transformer import LocalTransformerModel


@dataclass
class LocalnessClassifierOptions(FairseqDataclass):
    """Options of the classifier; the defaults are the model of Yang et al. with widths predicted from queries."""

    localness_center: ChoiceEnum(CENTERS) = field(  # type: ignore[valid-type]
        default="predicted", metadata={"help": "the centre of a query's window: predicted, or self: its own position"}
    )
    localness_width: str = field(
        default="query",
        metadata={
            "help": "the width d of a window, 2σ: a number of positions, head (a trainable number a head), keys "
            "(predicted from the mean key) or query (predicted from the query)"
        },
    )
    localness_heads: int = field(default=0, metadata={"help": "heads with a window, the last ones; 0: all"})
    localness_cut: bool = field(
        default=False, metadata={"help": "hide keys further than d from the centre, but not the nearest one"}
    )
    localness_product: bool = field(
        default=False, metadata={"help": "multiply the weights by the Gaussian, without normalising them again"}
    )
    localness_source: ChoiceEnum(SOURCES) = field(  # type: ignore[valid-type]
        default="query", metadata={"help": "what predicts: the projected query, or the layer's input (DiffWin's code)"}
    )
    localness_hidden: ChoiceEnum(HIDDEN) = field(  # type: ignore[valid-type]
        default="tanh", metadata={"help": "the predicting layer: tanh, or linear, without biases (DiffWin's code)"}
    )
    localness_encoder_layers: str = field(
        default="1-3", metadata={"help": "encoder layers with windows: all, none, or numbers from 1 (1-3, 1,4-6)"}
    )


@dataclass
class LocalnessOptions(LocalnessClassifierOptions):
    """Options of the translation model."""

    localness_decoder_layers: str = field(
        default="none", metadata={"help": "decoder layers with windows in their self-attention"}
    )
    localness_cross_layers: str = field(
        default="none", metadata={"help": "decoder layers with windows in their attention to the encoder (predicted)"}
    )


class LocalnessModel(LocalModel):
    """Mixin of both models: checks and attention."""

    prefix = "localness"

    @classmethod
    def check_args(cls, args: Namespace) -> None:
        """Raise UsageError also for options that have no effect, which are likely mistakes."""
        super().check_args(args)
        placed = cls.placed(TransformerConfig.from_namespace(args))
        try:
            width = parse_width(args.localness_width)
        except ValueError as error:
            raise UsageError(f"--localness-width: {error}") from None
        from_query = args.localness_center == "predicted" or width == "query"
        if placed and str(args.localness_source) == "input" and not from_query:
            raise UsageError("--localness-source input changes nothing: neither centre nor width is predicted from it")
        if placed and str(args.localness_hidden) == "linear" and not (from_query or width == "keys"):
            raise UsageError("--localness-hidden linear changes nothing: neither centre nor width is predicted")

    text = staticmethod(presets.localness)


@register_model("transformer_localness")
class LocalnessTransformerModel(LocalnessModel, LocalTransformerModel):
    """fairseq's Transformer with Gaussian windows in chosen layers of its three attentions."""

    options = LocalnessOptions


@register_model("transformer_localness_classifier")
class LocalnessClassifier(LocalnessModel, LocalClassifier):
    """The classifier with Gaussian windows in chosen layers."""

    options = LocalnessClassifierOptions


def _register(suffix: str, baseline: str, half: int, **defaults: Any) -> None:
    """Register the three systems with the sizes of ``baseline``; ``half`` of its heads are those of local_hard."""
    systems: dict[str, dict[str, Any]] = {
        "transformer_localness": {},
        "transformer_local_hard": {"localness_width": "10", "localness_heads": half},
        "transformer_neighbor": {"localness_center": "self", "localness_width": "head"},
    }
    for system, values in systems.items():
        options = {**values, **defaults}
        register_architecture("transformer_localness", f"{system}{suffix}", baseline, LocalnessOptions, **options)


_register("", "transformer", half=4)
_register("_tiny", "transformer_localattn_tiny", half=2, localness_encoder_layers="1")
_register("_small", "transformer_localattn_small", half=2, localness_encoder_layers="1-2")
_register("_medium", "transformer_localattn_medium", half=2, localness_encoder_layers="1-2")
_register("_iwslt_de_en", "transformer_iwslt_de_en", half=2)
_register("_wmt_en_de", "transformer_wmt_en_de", half=4)
_register("_wmt_en_de_big", "transformer_vaswani_wmt_en_de_big", half=8)

for _suffix in ("", "_tiny"):
    _name, _plain = f"transformer_localness_classifier{_suffix}", f"transformer_localattn_classifier{_suffix}"
    register_architecture(
        "transformer_localness_classifier", _name, _plain, LocalnessClassifierOptions, localness_encoder_layers="1"
    )
