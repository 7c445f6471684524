"""Bi-directional Block Self-Attention (Bi-BloSAN; Shen et al., ICLR 2018) as CSAN compares with it.

The model ``transformer_blocksan``: its attention is in mechanisms/block.py.
"""

from dataclasses import dataclass

from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model

from ..models.architectures import register_sizes
from ..models.transformer import LocalTransformerModel
from ..options import layer_option, no_layers, option


@dataclass
class BlockSANOptions(FairseqDataclass):
    """Options of block attention; the defaults are those of CSAN's code."""

    blocksan_length: int = option(4, "words in a block; 0: ⌈(2n)^⅓⌉ in a sentence of n words (Bi-BloSAN's code)")
    blocksan_encoder_layers: str = layer_option("encoder", "blocks", "all")
    blocksan_decoder_layers: str = no_layers("a word would see the future of its own block")
    blocksan_cross_layers: str = no_layers("a block is one of the sentence's own words")


@register_model("transformer_blocksan")
class BlockSANTransformerModel(LocalTransformerModel):
    """fairseq's Transformer with block attention in chosen layers of the encoder."""

    prefix = "blocksan"
    options = BlockSANOptions


register_sizes(BlockSANTransformerModel)
