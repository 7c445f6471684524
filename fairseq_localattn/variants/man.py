"""Mask Attention Networks (MAN; Fan et al., NAACL 2021).

The model ``transformer_man``: its attentions are in mechanisms/masked.py, its layers in models/layers/sublayers.py.
"""

from argparse import Namespace
from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig

from ..core.steps import ACTIVATIONS
from ..errors import UsageError
from ..grammar.placement import Placement
from ..grammar.presets import DEFAULT_ORDER, parse_order, parse_static_width
from ..mechanisms.relative import MAX_DISTANCES
from ..models.architectures import register_architecture, register_sizes
from ..models.layers.sublayers import OrderedDecoderLayer, OrderedEncoderLayer
from ..models.transformer import LocalTransformerModel
from ..options import layer_option, no_layers, option, set_missing


@dataclass
class MANOptions(FairseqDataclass):
    """Options of MAN; the defaults are the model of the paper's text."""

    man_encoder_order: str = option(
        DEFAULT_ORDER, "sublayers of an encoder layer, in order: dman (dynamic mask), sman (static), san, ffn"
    )
    man_decoder_order: str = option(
        DEFAULT_ORDER, "sublayers of a decoder layer; cross-attention follows the last of dman, sman, san"
    )
    man_encoder_layers: str = layer_option("encoder", "that order", "all")
    man_decoder_layers: str = option("all", "decoder layers with that order; others: san,ffn")
    man_cross_layers: str = no_layers()
    man_static_width: str = option(
        "4", "b: sman sees the keys up to b positions away; or sqrt: √L/2 for L words (decoder: words so far)"
    )
    man_max_distance: int = option(
        1024, "the greatest distance with a parameter of its own in dman; greater ones share it"
    )
    man_head_activation: ChoiceEnum(tuple(ACTIVATIONS)) = option(  # type: ignore[valid-type]
        "none", "none, relu or gelu on the concatenated heads of every attention, before the output projection"
    )
    man_post_norm: bool = option(False, "layer norm after each sublayer, in an architecture that has it before")


@register_model("transformer_man")
class MANTransformerModel(LocalTransformerModel):
    """fairseq's Transformer with mask attention networks: several attentions a layer, in a chosen order.

    The weights of a plain Transformer find their place by ``load_state_dict(…, strict=False)`` where the order has
    ``san`` and ``ffn``; fairseq's ``--finetune-from-model`` needs equal parameters on both sides.
    """

    prefix = "man"
    options = MANOptions
    unplaced = ("man_head_activation", "man_post_norm")
    encoder_layer = OrderedEncoderLayer
    decoder_layer = OrderedDecoderLayer

    @classmethod
    def placement(cls, options: Any, cfg: TransformerConfig) -> Placement:
        """Return the layers with an order. Raises UsageError also for options of no layer that are invalid."""
        for site in ("encoder", "decoder"):
            parse_order(getattr(options, f"man_{site}_order"), f"--man-{site}-order")
        parse_static_width(options.man_static_width)
        if not 0 <= options.man_max_distance <= MAX_DISTANCES:
            raise UsageError(
                f"--man-max-distance {options.man_max_distance}: give a number from 0 to {MAX_DISTANCES:,}"
            )
        return super().placement(options, cfg)

    @classmethod
    def check_effects(cls, args: Namespace, cfg: TransformerConfig, given: Set[str]) -> None:
        """Raise UsageError also for options of masks that no order has."""
        super().check_effects(args, cfg, given)
        used = {kind for site in cls.placed(cfg) for kind in parse_order(getattr(args, f"man_{site}_order"), "")}
        for name, kind in (("man_static_width", "sman"), ("man_max_distance", "dman")):
            if kind not in used:
                cls.refuse_unused(args, given & {name}, f"no order has {kind}, see --man-encoder-order")


def _differences(ffn: int, pre_norm: bool = True) -> Callable[[Namespace], None]:
    """Return what sets the FFN size (2·d in the paper) and the place of the layer norm of an architecture."""

    def adjust(args: Namespace) -> None:
        norms = dict.fromkeys(("encoder_normalize_before", "decoder_normalize_before"), pre_norm)
        if args.man_post_norm:
            if given := [name for name in norms if getattr(args, name, False)]:
                raise UsageError(f"--man-post-norm and --{given[0].replace('_', '-')}: choose one of them")
            norms = dict.fromkeys(norms, False)
        set_missing(args, encoder_ffn_embed_dim=ffn, decoder_ffn_embed_dim=ffn, **norms)

    return adjust


_RELU = {"man_head_activation": "relu"}
_OWN: dict[str, dict[str, Any]] = {
    "": {"adjust": _differences(1024)},
    "_tiny": {"adjust": _differences(128)},
    "_small": {"adjust": _differences(256)},
    "_medium": {"adjust": _differences(512)},
    # As in the authors' code, with the 36.8M parameters of Table 1: DMAN in the encoder only, ReLU on the heads.
    "_iwslt_de_en": {"adjust": _differences(512), "man_decoder_layers": "none", **_RELU},
    "_wmt_en_de": {"adjust": _differences(1024), **_RELU},
    "_wmt_en_de_big": {"adjust": _differences(2048), **_RELU},
}
register_sizes(MANTransformerModel, own=_OWN)
# As in the paper's text (49.4M parameters).
_FULL = "transformer_man_iwslt_de_en_full"
register_architecture(MANTransformerModel, _FULL, "transformer_iwslt_de_en", adjust=_differences(1024))
_SUMMARIES: dict[str, Any] = {"adjust": _differences(1536, pre_norm=False), "man_head_activation": "gelu"}
_BASELINE = "transformer_localattn_summarization"
register_architecture(MANTransformerModel, "transformer_man_summarization", _BASELINE, **_SUMMARIES)
