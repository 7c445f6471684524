"""Convolutional Self-Attention Networks (CSAN; Yang et al., NAACL 2019).

The model ``transformer_csan``: its attention is in mechanisms/convolutional.py.
"""

from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model

from ..models.architectures import register_architecture, register_sizes
from ..models.transformer import LocalTransformerModel
from ..options import layer_option, no_layers, option


@dataclass
class CSANOptions(FairseqDataclass):
    """Options of CSAN; the defaults are the paper's 2D model."""

    csan_window: int = option(11, "positions a query sees (the paper's M + 1); odd")
    csan_heads: int = option(3, "heads a query sees (the paper's N + 1); odd; 1 is 1D-CSAN")
    csan_encoder_layers: str = layer_option("encoder", "CSAN", "1-3")
    csan_decoder_layers: str = layer_option("decoder", "CSAN", more=" (beyond the paper)")
    csan_cross_layers: str = no_layers()


@register_model("transformer_csan")
class CSANTransformerModel(LocalTransformerModel):
    """fairseq's Transformer with convolutional self-attention in chosen layers."""

    prefix = "csan"
    options = CSANOptions


_LAYERS = ["csan_encoder_layers"]
register_sizes(CSANTransformerModel, lower_half=_LAYERS)
register_sizes(CSANTransformerModel, "transformer_csan_1d", lower_half=_LAYERS, csan_heads=1)
# Of eight heads, over which Figure 2 counts its areas.
_EIGHT_HEADS: dict[str, Any] = {"baseline": "transformer_localattn_small_8_heads", "csan_encoder_layers": "1-2"}
register_architecture(CSANTransformerModel, "transformer_csan_small_8_heads", **_EIGHT_HEADS)
register_architecture(CSANTransformerModel, "transformer_csan_1d_small_8_heads", csan_heads=1, **_EIGHT_HEADS)
