"""Relative position representations (Shaw, Uszkoreit, Vaswani, NAACL 2018).

The models ``transformer_relpos``, ``transformer_lm_relpos`` and ``transformer_relpos_classifier``: their attention is
in mechanisms/relative.py. CSAN (REL_POS) and DiffWin compare themselves with them, absolute positions kept; Shaw's own
models, without absolute positions, are the architectures ``transformer_shaw…``.

CSAN's table has +0.1M. That fits 12 self-attentions with shared tables (50,688; our choice), the 18 attentions of its
code (74,496), and three encoder layers with own tables (101,376).

What is not taken over from public code: CSAN's compares positions of source and target in cross-attention, and cuts the
last row of the decoder's table. DiffWin's starts the tables from U(0, 1), and counts offsets from the number of
queries, which is 1 while decoding. DiffWin's code has no classifier of this kind: both layers and k = 16 are ours.
tensor2tensor's ``…_v2`` functions are another mechanism, with no vector beyond k.
"""

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import register_model

from ..models.architectures import leave_out_positions, register_sizes
from ..models.base import LocalModel
from ..models.classifier import LocalClassifier
from ..models.language_model import LocalLanguageModel
from ..models.transformer import LocalTransformerModel
from ..options import layer_option, no_layers, option, set_missing


@dataclass
class TableOptions(FairseqDataclass):
    """Options of the tables of vectors, at any site."""

    relpos_distance: int = option(16, "k: the greatest distance with a vector of its own; greater ones share it")
    relpos_heads: ChoiceEnum(("shared", "own")) = option(  # type: ignore[valid-type]
        "shared", "tables of a layer: shared by its heads, or each head's own"
    )
    relpos_no_values: bool = option(
        False, "relative positions in the keys alone; the attention stays on the fused path"
    )


@dataclass
class RelPosOptions(TableOptions):
    """Options of the translation model; the defaults are CSAN's row, as far as its sources tell."""

    relpos_encoder_layers: str = layer_option("encoder", "relative positions", "all")
    relpos_decoder_layers: str = layer_option("decoder", "relative positions", "all")
    relpos_cross_layers: str = no_layers()


@dataclass
class RelPosLanguageModelOptions(TableOptions):
    """Options of the language model."""

    relpos_decoder_layers: str = layer_option("decoder", "relative positions", "all")


@dataclass
class RelPosClassifierOptions(TableOptions):
    """Options of the classifier."""

    relpos_encoder_layers: str = layer_option("encoder", "relative positions", "all")


class RelPosModel(LocalModel):
    """Mixin of the three models."""

    prefix = "relpos"


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


# Shaw et al.'s own models leave out absolute positions: base with tables of each head, big with shared ones and k = 8.
_OWN: dict[str, Mapping[str, Any]] = {
    "_tiny": {"relpos_distance": 3},
    "_wmt_en_de": {"adjust": _set_shaws_base},
    "_wmt_en_de_big": {"relpos_distance": 8, "relpos_heads": "shared"},
}
register_sizes(RelPosTransformerModel)
register_sizes(RelPosTransformerModel, "transformer_shaw", own=_OWN, relpos_heads="own", adjust=leave_out_positions)
# Nguyen et al. 2020 compare with them in the lower half of a language model and in both layers of a classifier.
register_sizes(RelPosLanguageModel, lower_half=["relpos_decoder_layers"])
register_sizes(RelPosClassifier)
