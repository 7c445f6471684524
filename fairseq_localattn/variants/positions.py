"""Today's positions and windows: RoPE, ALiBi, T5's relative bias, sliding windows with sinks.

The models ``transformer_rope`` (Su et al. 2021), ``transformer_alibi`` (Press et al. 2022), ``transformer_t5bias``
(Raffel et al. 2020) and ``transformer_sinks`` (Xiao et al. 2024); their attentions are in mechanisms/{rotary, alibi,
relative, sinks}.py. The first three leave out fairseq's absolute positions, as their authors do.
"""

from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model

from ..models.architectures import leave_out_positions, register_sizes
from ..models.transformer import LocalTransformerModel
from ..options import layer_option, no_layers, option


@dataclass
class RopeOptions(FairseqDataclass):
    """Options of rotary positions."""

    rope_base: float = option(10_000.0, "base of the angles' steps (θ = base^(-2c/D))")
    rope_encoder_layers: str = layer_option("encoder", "rotary positions", "all")
    rope_decoder_layers: str = layer_option("decoder", "rotary positions", "all")
    rope_cross_layers: str = no_layers()


@register_model("transformer_rope")
class RopeTransformerModel(LocalTransformerModel):
    """fairseq's Transformer with queries and keys rotated by their positions."""

    prefix, options = "rope", RopeOptions


@dataclass
class AlibiOptions(FairseqDataclass):
    """Options of linear biases."""

    alibi_encoder_layers: str = layer_option("encoder", "linear biases", "all")
    alibi_decoder_layers: str = layer_option("decoder", "linear biases", "all")
    alibi_cross_layers: str = no_layers()


@register_model("transformer_alibi")
class AlibiTransformerModel(LocalTransformerModel):
    """fairseq's Transformer whose scores fall with the distance; symmetric in the encoder."""

    prefix, options = "alibi", AlibiOptions


@dataclass
class T5BiasOptions(FairseqDataclass):
    """Options of T5's relative bias."""

    t5bias_buckets: int = option(32, "buckets of distances; in the encoder half of them for each direction")
    t5bias_distance: int = option(128, "distances from here on share the last bucket")
    t5bias_encoder_layers: str = layer_option("encoder", "the bias", "all")
    t5bias_decoder_layers: str = layer_option("decoder", "the bias", "all")
    t5bias_cross_layers: str = no_layers()


@register_model("transformer_t5bias")
class T5BiasTransformerModel(LocalTransformerModel):
    """fairseq's Transformer with T5's bias for buckets of distances, a table a layer."""

    prefix, options = "t5bias", T5BiasOptions


@dataclass
class SinksOptions(FairseqDataclass):
    """Options of sliding windows with sinks."""

    sinks_window: int = option(16, "positions in the window: ±w/2 in the encoder, the last w in the decoder")
    sinks_count: int = option(4, "words at the start that every query sees; 0 for none")
    sinks_encoder_layers: str = layer_option("encoder", "windows", "all")
    sinks_decoder_layers: str = layer_option("decoder", "windows", "all")
    sinks_cross_layers: str = no_layers()


@register_model("transformer_sinks")
class SinksTransformerModel(LocalTransformerModel):
    """fairseq's Transformer with sliding windows and attention sinks."""

    prefix, options = "sinks", SinksOptions


_BIG = "_wmt_en_de_big"
_WITHOUT: dict[str, Any] = {"own": {_BIG: None}, "adjust": leave_out_positions}
register_sizes(RopeTransformerModel, **_WITHOUT)
register_sizes(AlibiTransformerModel, **_WITHOUT)
_TINY = {"t5bias_buckets": 8, "t5bias_distance": 6}
register_sizes(T5BiasTransformerModel, adjust=leave_out_positions, own={_BIG: None, "_tiny": _TINY})
register_sizes(SinksTransformerModel, own={_BIG: None, "_tiny": {"sinks_window": 4, "sinks_count": 2}})
