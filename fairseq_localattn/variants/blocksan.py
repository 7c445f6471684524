"""Bi-directional Block Self-Attention (Bi-BloSAN; Shen et al., ICLR 2018) as CSAN compares with it.

The model ``transformer_blocksan``: its attention is in mechanisms/block.py.
"""

from dataclasses import dataclass, field

from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model

from ..grammar import presets
from ..models.architectures import register_architecture
from ..models.transformer import LocalTransformerModel


@dataclass
class BlockSANOptions(FairseqDataclass):
    """Options of block attention; the defaults are those of CSAN's code."""

    blocksan_length: int = field(
        default=4, metadata={"help": "words in a block; 0: ⌈(2n)^⅓⌉ in a sentence of n words (Bi-BloSAN's code)"}
    )
    blocksan_encoder_layers: str = field(
        default="all", metadata={"help": "encoder layers with blocks: all, none, or numbers from 1 (1-3, 1,4-6)"}
    )
    blocksan_decoder_layers: str = field(
        default="none", metadata={"help": "must stay none: a word would see the future of its own block"}
    )
    blocksan_cross_layers: str = field(
        default="none", metadata={"help": "must stay none: a block is one of the sentence's own words"}
    )


@register_model("transformer_blocksan")
class BlockSANTransformerModel(LocalTransformerModel):
    """fairseq's Transformer with block attention in chosen layers of the encoder."""

    prefix = "blocksan"
    options = BlockSANOptions

    text = staticmethod(presets.blocksan)


for _suffix, _baseline in (
    ("", "transformer"),
    ("_tiny", "transformer_localattn_tiny"),
    ("_small", "transformer_localattn_small"),
    ("_medium", "transformer_localattn_medium"),
    ("_iwslt_de_en", "transformer_iwslt_de_en"),
    ("_wmt_en_de", "transformer_wmt_en_de"),
    ("_wmt_en_de_big", "transformer_vaswani_wmt_en_de_big"),
):
    register_architecture("transformer_blocksan", f"transformer_blocksan{_suffix}", _baseline, BlockSANOptions)
