"""Gaussian attention: localness (Yang et al. 2018), local-p (Luong et al. 2015), neighbours (Sperber et al. 2018).

The models ``transformer_localness`` and ``transformer_localness_classifier``: their attention is in
mechanisms/gaussian.py. The architectures ``transformer_local_hard`` and ``transformer_neighbor`` are other settings of
the first one.
"""

from argparse import Namespace
from collections.abc import Set
from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig

from ..mechanisms.gaussian import CENTERS, HIDDEN, SOURCES
from ..models.architectures import SIZES, register_sizes
from ..models.base import LocalModel
from ..models.classifier import LocalClassifier
from ..models.transformer import LocalTransformerModel
from ..options import layer_option, option


@dataclass
class LocalnessClassifierOptions(FairseqDataclass):
    """Options of the classifier; the defaults are the model of Yang et al. with widths predicted from queries."""

    localness_center: ChoiceEnum(CENTERS) = option(  # type: ignore[valid-type]
        "predicted", "the centre of a query's window: predicted, or self (its own position; not in cross-attention)"
    )
    localness_width: str = option(
        "query",
        "the width d of a window, 2σ: a number of positions, head (a trainable number a head), keys "
        "(predicted from the mean key) or query (predicted from the query)",
    )
    localness_heads: int = option(0, "heads with a window, the last ones; 0: all")
    localness_cut: bool = option(False, "hide keys further than d from the centre, but not the nearest one")
    localness_product: bool = option(
        False,
        "multiply the weights by the Gaussian, without normalising them again, in place of adding it to the scores",
    )
    localness_source: ChoiceEnum(SOURCES) = option(  # type: ignore[valid-type]
        "query", "what predicts: the projected query, or the layer's input (as in DiffWin's code)"
    )
    localness_hidden: ChoiceEnum(HIDDEN) = option(  # type: ignore[valid-type]
        "tanh", "the predicting layer: tanh, or linear (one vector for all heads, no biases, as in DiffWin's code)"
    )
    localness_encoder_layers: str = layer_option("encoder", "windows", "1-3")


@dataclass
class LocalnessOptions(LocalnessClassifierOptions):
    """Options of the translation model."""

    localness_decoder_layers: str = layer_option("decoder", "windows")
    localness_cross_layers: str = layer_option("cross", "windows", more=" (centre: predicted)")


class LocalnessModel(LocalModel):
    """Mixin of both models: checks."""

    prefix = "localness"

    @classmethod
    def check_effects(cls, args: Namespace, cfg: TransformerConfig, given: Set[str]) -> None:
        """Raise UsageError also for options of a prediction where nothing is predicted."""
        super().check_effects(args, cfg, given)
        width = args.localness_width.strip().lower()
        if args.localness_center != "predicted" and width != "query":
            cls.refuse_unused(args, given & {"localness_source"}, "neither centre nor width is predicted from it")
            if width != "keys":
                cls.refuse_unused(args, given & {"localness_hidden"}, "neither centre nor width is predicted")


@register_model("transformer_localness")
class LocalnessTransformerModel(LocalnessModel, LocalTransformerModel):
    """fairseq's Transformer with Gaussian windows in chosen layers of its three attentions."""

    options = LocalnessOptions


@register_model("transformer_localness_classifier")
class LocalnessClassifier(LocalnessModel, LocalClassifier):
    """The classifier with Gaussian windows in chosen layers."""

    options = LocalnessClassifierOptions


_PLACES: dict[str, Any] = {"lower_half": ["localness_encoder_layers"]}
_HALVES = {"": 4, "_wmt_en_de": 4, "_wmt_en_de_big": 8}  # of the heads; in the other sizes 2
_HARD = {size: {"localness_heads": _HALVES.get(size, 2)} for size in SIZES["translation"]}
_NEIGHBOR: dict[str, Any] = {"localness_center": "self", "localness_width": "head"}
register_sizes(LocalnessTransformerModel, **_PLACES)
register_sizes(LocalnessTransformerModel, "transformer_local_hard", own=_HARD, localness_width="10", **_PLACES)
register_sizes(LocalnessTransformerModel, "transformer_neighbor", **_PLACES, **_NEIGHBOR)
register_sizes(LocalnessClassifier, **_PLACES)
