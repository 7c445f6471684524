"""Convolutional Self-Attention Networks (CSAN; Yang et al., NAACL 2019).

The model ``transformer_csan``: its attention is in mechanisms/convolutional.py.
"""

from dataclasses import dataclass, field
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model

from ..grammar import presets
from ..models.architectures import register_architecture
from ..models.transformer import LocalTransformerModel


@dataclass
class CSANOptions(FairseqDataclass):
    """Options of CSAN; the defaults are the paper's 2D model."""

    csan_window: int = field(default=11, metadata={"help": "positions a query sees (the paper's M + 1); odd"})
    csan_heads: int = field(default=3, metadata={"help": "heads a query sees (the paper's N + 1); odd; 1 is 1D-CSAN"})
    csan_encoder_layers: str = field(
        default="1-3", metadata={"help": "encoder layers with CSAN: all, none, or numbers from 1 (1-3, 1,4-6)"}
    )
    csan_decoder_layers: str = field(
        default="none", metadata={"help": "decoder layers with CSAN in their self-attention (beyond the paper)"}
    )
    csan_cross_layers: str = field(
        default="none", metadata={"help": "must stay none: source and target positions cannot be compared"}
    )


@register_model("transformer_csan")
class CSANTransformerModel(LocalTransformerModel):
    """fairseq's Transformer with convolutional self-attention in chosen layers."""

    prefix = "csan"
    options = CSANOptions

    text = staticmethod(presets.csan)


def _register(suffix: str, baseline: str, **defaults: Any) -> None:
    """Register the 2D and the 1D architecture with the sizes of ``baseline``."""
    names = f"transformer_csan{suffix}", f"transformer_csan_1d{suffix}"
    register_architecture("transformer_csan", names[0], baseline, CSANOptions, **defaults)
    register_architecture("transformer_csan", names[1], baseline, CSANOptions, csan_heads=1, **defaults)


_register("", "transformer")
_register("_tiny", "transformer_localattn_tiny", csan_encoder_layers="1")
_register("_small", "transformer_localattn_small", csan_encoder_layers="1-2")
_register("_medium", "transformer_localattn_medium", csan_encoder_layers="1-2")
_register("_small_8_heads", "transformer_localattn_small_8_heads", csan_encoder_layers="1-2")
_register("_iwslt_de_en", "transformer_iwslt_de_en")
_register("_wmt_en_de", "transformer_wmt_en_de")
_register("_wmt_en_de_big", "transformer_vaswani_wmt_en_de_big")
