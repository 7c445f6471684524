"""Today's positions and windows: RoPE, ALiBi, T5's relative bias, sliding windows with sinks.

The models ``transformer_rope`` (Su et al. 2021), ``transformer_alibi`` (Press et al. 2022), ``transformer_t5bias``
(Raffel et al. 2020) and ``transformer_sinks`` (Xiao et al. 2024); their attentions are in mechanisms/{rotary, alibi,
relative, sinks}.py. The first three leave out fairseq's absolute positions, as their authors do.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model

from ..grammar import presets
from ..models.architectures import leave_out_positions, register_architecture
from ..models.transformer import LocalTransformerModel


def _layers(site: str, default: str = "all") -> Any:
    """Return the field of the option that places a mechanism at a site."""
    texts = {
        "encoder": "encoder layers with it: all, none, or numbers from 1 (1-3, 1,4-6)",
        "decoder": "decoder layers with it in their self-attention",
        "cross": "must stay none: source and target positions cannot be compared",
    }
    return field(default=default, metadata={"help": texts[site]})


@dataclass
class RopeOptions(FairseqDataclass):
    """Options of rotary positions."""

    rope_base: float = field(default=10_000.0, metadata={"help": "base of the angles' steps (θ = base^(-2c/D))"})
    rope_encoder_layers: str = _layers("encoder")
    rope_decoder_layers: str = _layers("decoder")
    rope_cross_layers: str = _layers("cross", "none")


@register_model("transformer_rope")
class RopeTransformerModel(LocalTransformerModel):
    """fairseq's Transformer with queries and keys rotated by their positions."""

    prefix, options = "rope", RopeOptions

    text = staticmethod(presets.rope)


@dataclass
class AlibiOptions(FairseqDataclass):
    """Options of linear biases."""

    alibi_encoder_layers: str = _layers("encoder")
    alibi_decoder_layers: str = _layers("decoder")
    alibi_cross_layers: str = _layers("cross", "none")


@register_model("transformer_alibi")
class AlibiTransformerModel(LocalTransformerModel):
    """fairseq's Transformer whose scores fall with the distance; symmetric in the encoder."""

    prefix, options = "alibi", AlibiOptions

    text = staticmethod(presets.alibi)


@dataclass
class T5BiasOptions(FairseqDataclass):
    """Options of T5's relative bias."""

    t5bias_buckets: int = field(default=32, metadata={"help": "buckets of distances; in the encoder half a direction"})
    t5bias_distance: int = field(default=128, metadata={"help": "distances from here on share the last bucket"})
    t5bias_encoder_layers: str = _layers("encoder")
    t5bias_decoder_layers: str = _layers("decoder")
    t5bias_cross_layers: str = _layers("cross", "none")


@register_model("transformer_t5bias")
class T5BiasTransformerModel(LocalTransformerModel):
    """fairseq's Transformer with T5's bias for buckets of distances, a table a layer."""

    prefix, options = "t5bias", T5BiasOptions

    text = staticmethod(presets.t5bias)


@dataclass
class SinksOptions(FairseqDataclass):
    """Options of sliding windows with sinks."""

    sinks_window: int = field(
        default=16, metadata={"help": "positions in the window: ±w/2 in the encoder, the last w in the decoder"}
    )
    sinks_count: int = field(default=4, metadata={"help": "words at the start that every query sees; 0 for none"})
    sinks_encoder_layers: str = _layers("encoder")
    sinks_decoder_layers: str = _layers("decoder")
    sinks_cross_layers: str = _layers("cross", "none")


@register_model("transformer_sinks")
class SinksTransformerModel(LocalTransformerModel):
    """fairseq's Transformer with sliding windows and attention sinks."""

    prefix, options = "sinks", SinksOptions

    text = staticmethod(presets.sinks)


def _register(model: type[LocalTransformerModel], adjust: Callable[[Any], None] | None, **tiny: Any) -> None:
    """Register the architectures of a model in every size; ``tiny``: options of the tests' size."""
    for suffix, baseline in (
        ("", "transformer"),
        ("_tiny", "transformer_localattn_tiny"),
        ("_small", "transformer_localattn_small"),
        ("_medium", "transformer_localattn_medium"),
        ("_iwslt_de_en", "transformer_iwslt_de_en"),
        ("_wmt_en_de", "transformer_wmt_en_de"),
    ):
        name, defaults = f"transformer_{model.prefix}", tiny if suffix == "_tiny" else {}
        register_architecture(name, name + suffix, baseline, model.options, adjust=adjust, **defaults)


_register(RopeTransformerModel, leave_out_positions)
_register(AlibiTransformerModel, leave_out_positions)
_register(T5BiasTransformerModel, leave_out_positions, t5bias_buckets=8, t5bias_distance=6)
_register(SinksTransformerModel, None, sinks_window=4, sinks_count=2)
