"""Mask Attention Networks (MAN; Fan et al., NAACL 2021).

The model ``transformer_man``: its attentions are in mechanisms/masked.py, its layers in models/layers/sublayers.py.
"""

from argparse import Namespace
from dataclasses import dataclass, field
from typing import Any

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig

from ..core.attention import ACTIVATIONS
from ..errors import UsageError
from ..grammar import presets
from ..grammar.presets import DEFAULT_ORDER, parse_order, parse_static_width
from ..mechanisms.relative import MAX_DISTANCES
from ..models.architectures import register_architecture
from ..models.layers.sublayers import OrderedDecoderLayer, OrderedEncoderLayer
from ..models.transformer import LocalTransformerModel
from ..options import set_missing


@dataclass
class MANOptions(FairseqDataclass):
    """Options of MAN; the defaults are the model of the paper's text."""

    man_encoder_order: str = field(
        default=DEFAULT_ORDER,
        metadata={"help": "sublayers of an encoder layer, in order: dman (dynamic mask), sman (static), san, ffn"},
    )
    man_decoder_order: str = field(
        default=DEFAULT_ORDER,
        metadata={"help": "those of a decoder layer; cross-attention follows the last of dman, sman, san"},
    )
    man_encoder_layers: str = field(
        default="all", metadata={"help": "encoder layers with that order: all, none, or numbers from 1 (1-3, 1,4-6)"}
    )
    man_decoder_layers: str = field(default="all", metadata={"help": "decoder layers with that order; others: san,ffn"})
    man_cross_layers: str = field(
        default="none", metadata={"help": "must stay none: source and target positions cannot be compared"}
    )
    man_static_width: str = field(
        default="4",
        metadata={"help": "sman sees the keys at distance ≤ b: a whole number, or sqrt for √L/2 by sentence length L"},
    )
    man_max_distance: int = field(
        default=1024, metadata={"help": "distances with a parameter of their own in dman; beyond, that of this one"}
    )
    man_head_activation: ChoiceEnum(tuple(ACTIVATIONS)) = field(  # type: ignore[valid-type]
        default="none",
        metadata={"help": "on the concatenated heads of every attention, before the output projection"},
    )
    man_post_norm: bool = field(
        default=False, metadata={"help": "layer norm after each sublayer, in an architecture that has it before"}
    )


@register_model("transformer_man")
class MANTransformerModel(LocalTransformerModel):
    """fairseq's Transformer with mask attention networks: several attentions a layer, in a chosen order."""

    prefix = "man"
    options = MANOptions
    encoder_layer = OrderedEncoderLayer
    decoder_layer = OrderedDecoderLayer

    text = staticmethod(presets.man)

    plain_text = staticmethod(presets.plain_man)

    @classmethod
    def texts(cls, options: Any, cfg: TransformerConfig) -> dict[str, str]:
        """Return the texts of the sites. Raises UsageError also for options of no layer that are invalid."""
        for site in ("encoder", "decoder"):
            parse_order(getattr(options, f"man_{site}_order"), f"--man-{site}-order")
        parse_static_width(options.man_static_width)
        if not 0 <= options.man_max_distance <= MAX_DISTANCES:
            raise UsageError(
                f"--man-max-distance {options.man_max_distance}: give a number from 0 to {MAX_DISTANCES:,}"
            )
        return super().texts(options, cfg)

    @classmethod
    def check_effects(cls, args: Namespace, cfg: TransformerConfig) -> None:
        """Raise UsageError for orders of no layer, and for options of masks that no order has."""
        placed = cls.placed(cfg)
        used = {kind for site in placed for kind in parse_order(getattr(args, f"man_{site}_order"), "")}
        for site in ("encoder", "decoder"):
            flag, order = f"--man-{site}-order", getattr(args, f"man_{site}_order")
            if site not in placed and order != DEFAULT_ORDER:
                raise UsageError(
                    f"{flag} {order} changes nothing: --man-{site}-layers is none, give all or some layers"
                )
        for name, kind in (("man_static_width", "sman"), ("man_max_distance", "dman")):
            value = getattr(args, name)
            if kind not in used and value != getattr(MANOptions(), name):
                flag = "--" + name.replace("_", "-")
                raise UsageError(f"{flag} {value} changes nothing: no order has {kind}, see --man-encoder-order")


def _register(suffix: str, baseline: str, ffn: int, norm: str = "pre", **defaults: Any) -> None:
    """Register an architecture that has its own FFN size (2·d in the paper) and place of the layer norm."""

    def adjust(args: Namespace) -> None:
        norms = {f"{stack}_normalize_before": norm == "pre" for stack in ("encoder", "decoder")}
        if args.man_post_norm:
            if given := [name for name in norms if getattr(args, name, False)]:
                raise UsageError(f"--man-post-norm and --{given[0].replace('_', '-')}: choose one of them")
            norms = dict.fromkeys(norms, False)
        set_missing(args, encoder_ffn_embed_dim=ffn, decoder_ffn_embed_dim=ffn, **norms)

    name = f"transformer_man{suffix}"
    register_architecture("transformer_man", name, baseline, MANOptions, adjust=adjust, **defaults)


_register("", "transformer", ffn=1024)
_register("_tiny", "transformer_localattn_tiny", ffn=128)
_register("_small", "transformer_localattn_small", ffn=256)
_register("_medium", "transformer_localattn_medium", ffn=512)
# As in the authors' code, with the 36.8M parameters of Table 1: DMAN in the encoder only, ReLU on the heads.
_register("_iwslt_de_en", "transformer_iwslt_de_en", ffn=512, man_decoder_layers="none", man_head_activation="relu")
# As in the paper's text (49.4M parameters).
_register("_iwslt_de_en_full", "transformer_iwslt_de_en", ffn=1024)
_register("_wmt_en_de", "transformer_wmt_en_de", ffn=1024, man_head_activation="relu")
_register("_wmt_en_de_big", "transformer_vaswani_wmt_en_de_big", ffn=2048, man_head_activation="relu")
_register("_summarization", "transformer_localattn_summarization", ffn=1536, norm="post", man_head_activation="gelu")
