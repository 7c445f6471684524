"""Relative position representations (Shaw, Uszkoreit, Vaswani, NAACL 2018).

The models ``transformer_relpos``, ``transformer_lm_relpos`` and ``transformer_relpos_classifier``: their attention is
in mechanisms/relative.py. CSAN (REL_POS) and DiffWin compare themselves with them, absolute positions kept; Shaw's own
models, without absolute positions, are the architectures ``transformer_shaw…``.

What is not taken over from public code: CSAN's compares positions of source and target in cross-attention, and cuts the
last row of the decoder's table. DiffWin's starts the tables from U(0, 1), and counts offsets from the number of
queries, which is 1 while decoding. DiffWin's code has no classifier of this kind: both layers and k = 16 are chosen.
tensor2tensor's ``…_v2`` functions are another mechanism, with no vector beyond k.
"""

from argparse import Namespace
from dataclasses import dataclass, field
from typing import Any

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import MODEL_REGISTRY, register_model

from ..grammar import presets
from ..models.architectures import leave_out_positions, register_architecture
from ..models.base import LocalModel
from ..models.classifier import LocalClassifier
from ..models.language_model import LocalLanguageModel
from ..models.transformer import LocalTransformerModel
from ..options import set_missing


@dataclass
class TableOptions(FairseqDataclass):
    """Options of the tables of vectors, at any site."""

    relpos_distance: int = field(
        default=16, metadata={"help": "the greatest distance with a vector of its own (k); those beyond share it"}
    )
    relpos_heads: ChoiceEnum(("shared", "own")) = field(  # type: ignore[valid-type]
        default="shared", metadata={"help": "whether the heads of a layer share its tables or have their own"}
    )
    relpos_no_values: bool = field(default=False, metadata={"help": "relative positions in the keys alone"})


@dataclass
class EncoderOptions(FairseqDataclass):
    """Options of the encoder's self-attention."""

    relpos_encoder_layers: str = field(
        default="all", metadata={"help": "encoder layers with relative positions: all, none, or numbers from 1 (1-3)"}
    )


@dataclass
class DecoderOptions(FairseqDataclass):
    """Options of the decoder's self-attention."""

    relpos_decoder_layers: str = field(
        default="all", metadata={"help": "decoder layers with relative positions in their self-attention"}
    )


@dataclass
class RelPosOptions(TableOptions, DecoderOptions, EncoderOptions):
    """Options of the translation model; the defaults are CSAN's row, as far as its sources tell."""

    relpos_cross_layers: str = field(
        default="none", metadata={"help": "must stay none: source and target positions cannot be compared"}
    )


@dataclass
class RelPosLanguageModelOptions(TableOptions, DecoderOptions):
    """Options of the language model."""


@dataclass
class RelPosClassifierOptions(TableOptions, EncoderOptions):
    """Options of the classifier."""


class RelPosModel(LocalModel):
    """Mixin of the three models."""

    prefix = "relpos"

    text = staticmethod(presets.relpos)


@register_model("transformer_relpos")
class RelPosTransformerModel(RelPosModel, LocalTransformerModel):
    """fairseq's Transformer with relative positions in chosen layers."""

    options = RelPosOptions


@register_model("transformer_lm_relpos")
class RelPosLanguageModel(RelPosModel, LocalLanguageModel):
    """fairseq's language model with relative positions in chosen layers."""

    options = RelPosLanguageModelOptions


@register_model("transformer_relpos_classifier")
class RelPosClassifier(RelPosModel, LocalClassifier):
    """The classifier with relative positions in chosen layers."""

    options = RelPosClassifierOptions


def _set_shaws_base(args: Namespace) -> None:
    """Leave out absolute positions, and set the paper's feed-forward network, half as wide as the baseline's."""
    set_missing(args, encoder_ffn_embed_dim=1024, decoder_ffn_embed_dim=1024)
    leave_out_positions(args)


def _register(name: str, baseline: str, model: str = "transformer_relpos", **more: Any) -> None:
    register_architecture(model, name, baseline, MODEL_REGISTRY[model].options, **more)


# Shaw et al.'s own models leave out absolute positions: base with tables of each head, big with shared ones and k = 8.
_OWN: dict[str, Any] = {"relpos_heads": "own", "adjust": leave_out_positions}
for _suffix, _baseline, _shaw in (
    ("", "transformer", _OWN),
    ("_tiny", "transformer_localattn_tiny", _OWN | {"relpos_distance": 3}),
    ("_small", "transformer_localattn_small", _OWN),
    ("_medium", "transformer_localattn_medium", _OWN),
    ("_iwslt_de_en", "transformer_iwslt_de_en", _OWN),
    ("_wmt_en_de", "transformer_wmt_en_de", _OWN | {"adjust": _set_shaws_base}),
    (
        "_wmt_en_de_big",
        "transformer_vaswani_wmt_en_de_big",
        {"relpos_distance": 8, "adjust": leave_out_positions},
    ),
):
    _register(f"transformer_relpos{_suffix}", _baseline)
    _register(f"transformer_shaw{_suffix}", _baseline, **_shaw)

# Nguyen et al. 2020 compare with them in the lower half of a language model and in both layers of a classifier.
for _suffix, _layers in (("", "1-3"), ("_small", "1-2"), ("_tiny", "1")):
    _name = f"transformer_lm_relpos{_suffix}"
    _register(_name, f"transformer_lm_localattn{_suffix}", "transformer_lm_relpos", relpos_decoder_layers=_layers)
for _suffix in ("", "_tiny"):
    _name = "transformer_relpos_classifier"
    _register(_name + _suffix, f"transformer_localattn_classifier{_suffix}", _name)
