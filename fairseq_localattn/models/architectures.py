"""Named architectures: the size of a plain Transformer, and a variant's options.

A size stands in one place, the function of the plain architecture: fairseq's where fairseq has it, else one of those
below. So each variant has, by construction, a plain Transformer to be compared with. Where a paper's model differs from
it in more than the attention (MAN halves the feed-forward network), the variant's file says in what.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    register_model_architecture,
)
from fairseq.models.transformer_lm import base_lm_architecture

from ..errors import UsageError
from ..options import fill_defaults, set_missing
from ..speed.implementation import ImplementationOptions

_BASELINES: dict[str, str] = {}


def _set_sizes(args: Any, dim: int, ffn: int, heads: int, layers: int) -> None:
    """Sizes of both stacks, where the command line has not set them; then fairseq's defaults for the rest."""
    for side in ("encoder", "decoder"):
        sizes = {"embed_dim": dim, "ffn_embed_dim": ffn, "attention_heads": heads, "layers": layers}
        set_missing(args, **{f"{side}_{name}": size for name, size in sizes.items()})
    ARCH_CONFIG_REGISTRY["transformer"](args)


@register_model_architecture("transformer", "transformer_localattn_tiny")
def transformer_localattn_tiny(args: Any) -> None:
    """For tests: fairseq's transformer_tiny, with the four heads that the variants need."""
    _set_sizes(args, dim=64, ffn=128, heads=4, layers=2)


@register_model_architecture("transformer", "transformer_localattn_small")
def transformer_localattn_small(args: Any) -> None:
    """For two CPU cores: trains on Multi30k in minutes."""
    _set_sizes(args, dim=128, ffn=512, heads=4, layers=3)


@register_model_architecture("transformer", "transformer_localattn_summarization")
def transformer_localattn_summarization(args: Any) -> None:
    """The Transformer of CNN/DM and Gigaword (MASS, Song et al. 2019): GELU, learned positions, embedding norm."""
    learned = {"encoder_learned_pos": True, "decoder_learned_pos": True}
    set_missing(args, activation_fn="gelu", layernorm_embedding=True, **learned)
    _set_sizes(args, dim=768, ffn=3072, heads=12, layers=6)


def _register_changed(base: str, name: str, **sizes: int) -> None:
    """Register the plain Transformer ``base`` with other sizes in both stacks, under ``name``."""

    def changed(args: Any) -> None:
        set_missing(args, **{f"{stack}_{size}": n for stack in ("encoder", "decoder") for size, n in sizes.items()})
        ARCH_CONFIG_REGISTRY[base](args)

    register_model_architecture("transformer", name)(changed)


# Deeper Transformers, systems of Table 4 of Nguyen et al. 2020, and their small sizes.
_register_changed("transformer_wmt_en_de", "transformer_localattn_wmt_en_de_7_layers", layers=7)
_register_changed("transformer_wmt_en_de", "transformer_localattn_wmt_en_de_8_layers", layers=8)
_register_changed("transformer_localattn_small", "transformer_localattn_small_4_layers", layers=4)
_register_changed("transformer_localattn_small", "transformer_localattn_small_5_layers", layers=5)
# Eight heads, over which Figure 2 of Yang et al. 2019 counts its areas, at small size.
_register_changed("transformer_localattn_small", "transformer_localattn_small_8_heads", attention_heads=8)


def _set_lm_sizes(args: Any, dim: int, ffn: int, heads: int, layers: int) -> None:
    """Sizes of a language model, where the command line has not set them; then fairseq's defaults for the rest."""
    sizes = {"embed_dim": dim, "ffn_embed_dim": ffn, "attention_heads": heads, "layers": layers}
    set_missing(args, **{f"decoder_{name}": size for name, size in sizes.items()})
    base_lm_architecture(args)


@register_model_architecture("transformer_lm", "transformer_lm_localattn")
def transformer_lm_localattn(args: Any) -> None:
    """Base size in pre-norm, like all of fairseq's named language models; its transformer_lm is in post-norm."""
    _set_lm_sizes(args, dim=512, ffn=2048, heads=8, layers=6)


@register_model_architecture("transformer_lm", "transformer_lm_localattn_tiny")
def transformer_lm_localattn_tiny(args: Any) -> None:
    """For tests."""
    _set_lm_sizes(args, dim=64, ffn=128, heads=4, layers=2)


@register_model_architecture("transformer_lm", "transformer_lm_localattn_small")
def transformer_lm_localattn_small(args: Any) -> None:
    """For two CPU cores."""
    _set_lm_sizes(args, dim=128, ffn=512, heads=4, layers=3)


def register_architecture(
    model: str,
    name: str,
    baseline: str,
    options: type[FairseqDataclass],
    differs: Callable[[Any], None] | None = None,
    **defaults: Any,
) -> None:
    """Register ``name``: the sizes of the plain architecture ``baseline``, and options with these ``defaults``.

    ``differs`` sets, in the options that are complete by then, what differs from the plain architecture.
    """

    def architecture(args: Any) -> None:
        fill_defaults(args, options, **defaults)
        fill_defaults(args, ImplementationOptions)
        if differs is not None:
            differs(args)
        ARCH_CONFIG_REGISTRY[baseline](args)
        # fairseq calls this while it reads the command line: a mistake ends there, before workers start.
        ARCH_MODEL_REGISTRY[model].check(args)

    register_model_architecture(model, name)(architecture)
    _BASELINES[name] = baseline


def localattn_architectures(task: str | None = None) -> dict[str, str]:
    """Architecture → model, of this package's variants; of those for one of fairseq's tasks where it is given."""
    names = [name for name in _BASELINES if task in (None, ARCH_MODEL_REGISTRY[name].task)]
    return {name: ARCH_MODEL_NAME_REGISTRY[name] for name in names}


def baseline_of(architecture: str) -> str:
    """The plain Transformer of the same size. Raises UsageError for an architecture that is not this package's."""
    if architecture not in _BASELINES:
        raise UsageError(f"unknown architecture {architecture!r}: choose from {', '.join(sorted(_BASELINES))}")
    return _BASELINES[architecture]


def quick_size_of(architecture: str) -> str:
    """The ``_small`` architecture of a name that is a variant without a size; any other name as it is."""
    baseline_of(architecture)
    small = f"{architecture}_small"
    return small if small in _BASELINES else architecture


def small_size_of(architecture: str) -> str:
    """Return the ``_small`` size of an architecture's model; the architecture itself where its model has none.

    Of a plain Transformer it is ``transformer_localattn_small``. Raises UsageError for an unknown architecture.
    """
    if architecture not in ARCH_MODEL_NAME_REGISTRY:
        raise UsageError(f"unknown architecture {architecture!r}: choose from {', '.join(sorted(_BASELINES))}")
    model = ARCH_MODEL_NAME_REGISTRY[architecture]
    words = architecture.split("_")
    for count in range(len(words), 0, -1):
        small = "_".join([*words[:count], "small"])
        if ARCH_MODEL_NAME_REGISTRY.get(small) == model:
            return small
    return "transformer_localattn_small" if model == "transformer" else architecture
