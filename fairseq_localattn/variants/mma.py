"""Mixed Multi-Head Self-Attention (MMA; Cui et al., WNGT 2019).

The model ``transformer_mma``: its attention is in mechanisms/mixed.py.
"""

from argparse import Namespace
from collections.abc import Set
from dataclasses import dataclass
from typing import Any

from fairseq.data import Dictionary
from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig
from torch import nn

from ..models.architectures import register_architecture, register_sizes
from ..models.transformer import LocalEncoder, LocalTransformerModel
from ..options import layer_option, no_layers, option


@dataclass
class MMAOptions(FairseqDataclass):
    """Options of MMA; the defaults are the paper's model."""

    mma_heads: str = option(
        "global,local,forward,backward",
        "kinds of the encoder's heads, in order: in equal shares (global,local,forward,backward) "
        "or with counts that add up to the number of heads (global:1,local:3)",
    )
    mma_decoder_heads: str = option(
        "global,local", "kinds of the decoder's heads, where --mma-decoder-layers places MMA; forward is an error there"
    )
    mma_window: int = option(1, "w: local heads see the keys up to w positions away")
    mma_encoder_layers: str = layer_option("encoder", "MMA", "all")
    mma_decoder_layers: str = layer_option("decoder", "MMA", more=" (beyond the paper)")
    mma_cross_layers: str = no_layers()
    mma_no_encoder_positions: bool = option(
        False, "encoder without position embedding (Table 3); with --mma-heads global, the baseline's row"
    )


@register_model("transformer_mma")
class MMATransformerModel(LocalTransformerModel):
    """fairseq's Transformer with mixed heads in chosen layers."""

    prefix = "mma"
    options = MMAOptions
    beyond_text = unplaced = ("mma_no_encoder_positions",)

    @classmethod
    def check_effects(cls, args: Namespace, cfg: TransformerConfig, given: Set[str]) -> None:
        """Raise UsageError also for --mma-heads without encoder layers, and --mma-window without local heads."""
        super().check_effects(args, cfg, given)
        sites, heads = cls.placed(cfg), {"encoder": "mma_heads", "decoder": "mma_decoder_heads"}
        if "encoder" not in sites:
            cls.refuse_unused(args, given & {"mma_heads"}, "no layer has it, see --mma-encoder-layers")
        if not any("local" in getattr(args, heads[site]) for site in sites):
            cls.refuse_unused(args, given & {"mma_window"}, "no layer has local heads")

    @classmethod
    def build_encoder(cls, args: Any, src_dict: Dictionary, embed_tokens: nn.Module) -> LocalEncoder:
        """Return the encoder, on request without position embedding."""
        encoder = super().build_encoder(args, src_dict, embed_tokens)
        if args.mma_no_encoder_positions:
            encoder.embed_positions = None
        return encoder


register_sizes(MMATransformerModel, own={"_wmt_en_de_big": None})
register_architecture(MMATransformerModel, "transformer_mma_wat17", "transformer")
