"""Named architectures: the sizes of a plain Transformer together with a variant's options.

Sizes are defined once, in the function of the plain architecture: fairseq's own, or one of those in this module. Every
variant's architecture refers to a plain one, its baseline. Where a paper's model differs from the baseline in more than
the attention (MAN halves the feed-forward network), the variant's module says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
)

from ..errors import UsageError
from ..options import fill_defaults, set_missing
from ..speed.implementation import ImplementationOptions
from .struct_config import named_architecture

# Architecture of this package → its baseline.
_BASELINES: dict[str, str] = {}


def _set_sizes(args: Any, dim: int, ffn: int, heads: int, layers: int) -> None:
    """Set the sizes of both stacks where the command line has not; leave the rest to fairseq's defaults."""
    for stack in ("encoder", "decoder"):
        sizes = {"embed_dim": dim, "ffn_embed_dim": ffn, "attention_heads": heads, "layers": layers}
        set_missing(args, **{f"{stack}_{name}": size for name, size in sizes.items()})
    ARCH_CONFIG_REGISTRY["transformer"](args)


@named_architecture("transformer", "transformer_localattn_tiny")
def transformer_localattn_tiny(args: Any) -> None:
    """Set the sizes for tests: fairseq's transformer_tiny with four heads, which the variants need."""
    _set_sizes(args, dim=64, ffn=128, heads=4, layers=2)


@named_architecture("transformer", "transformer_localattn_small")
def transformer_localattn_small(args: Any) -> None:
    """Set the sizes for two CPU cores: trains on Multi30k in minutes."""
    _set_sizes(args, dim=128, ffn=512, heads=4, layers=3)


@named_architecture("transformer", "transformer_localattn_summarization")
def transformer_localattn_summarization(args: Any) -> None:
    """Set the sizes for CNN/DM and Gigaword as in MASS (Song et al. 2019): GELU, learned positions, embedding norm."""
    learned = {"encoder_learned_pos": True, "decoder_learned_pos": True}
    set_missing(args, activation_fn="gelu", layernorm_embedding=True, **learned)
    _set_sizes(args, dim=768, ffn=3072, heads=12, layers=6)


def _register_changed(base: str, name: str, **sizes: int) -> None:
    """Register the plain Transformer ``base`` with other sizes in both stacks, under ``name``."""

    def changed(args: Any) -> None:
        set_missing(args, **{f"{stack}_{size}": n for stack in ("encoder", "decoder") for size, n in sizes.items()})
        ARCH_CONFIG_REGISTRY[base](args)

    named_architecture("transformer", name)(changed)


# Deeper Transformers, systems of Table 4 of Nguyen et al. 2020, and their small sizes.
_register_changed("transformer_wmt_en_de", "transformer_localattn_wmt_en_de_7_layers", layers=7)
_register_changed("transformer_wmt_en_de", "transformer_localattn_wmt_en_de_8_layers", layers=8)
_register_changed("transformer_localattn_small", "transformer_localattn_small_4_layers", layers=4)
_register_changed("transformer_localattn_small", "transformer_localattn_small_5_layers", layers=5)
# Eight heads, over which Figure 2 of Yang et al. 2019 counts its areas, at small size.
_register_changed("transformer_localattn_small", "transformer_localattn_small_8_heads", attention_heads=8)


@named_architecture("lightconv", "lightconv_small")
def lightconv_small(args: Any) -> None:
    """Set the sizes of ``transformer_localattn_small`` for fairseq's LightConv and DynamicConv, kernels up to 15."""
    for stack in ("encoder", "decoder"):
        sizes = {"embed_dim": 128, "ffn_embed_dim": 512, "attention_heads": 4, "layers": 3}
        set_missing(args, **{f"{stack}_{name}": size for name, size in sizes.items()})
        set_missing(args, **{f"{stack}_kernel_size_list": [3, 7, 15]})
    ARCH_CONFIG_REGISTRY["lightconv_iwslt_de_en"](args)


def leave_out_positions(args: Any) -> None:
    """Leave out the absolute positions of both stacks; an ``adjust`` of :func:`register_architecture`."""
    set_missing(args, no_token_positional_embeddings=True)


def register_architecture(
    model: str,
    name: str,
    baseline: str,
    options: type[FairseqDataclass],
    *,
    adjust: Callable[[Any], None] | None = None,
    **defaults: Any,
) -> None:
    """Register an architecture with fairseq.

    Args:
        model: the registered name of the variant's model.
        name: the name for ``--arch``.
        baseline: the plain architecture whose sizes it has.
        options: the variant's options.
        adjust: sets in ``args``, whose variant options are complete, what else differs from the baseline.
        defaults: values of the options, by name, that replace the dataclass's defaults.
    """

    def architecture(args: Any) -> None:
        fill_defaults(args, options, **defaults)
        fill_defaults(args, ImplementationOptions)
        if adjust is not None:
            adjust(args)
        ARCH_CONFIG_REGISTRY[baseline](args)
        # fairseq runs this function while it parses the command line, before it starts worker processes.
        ARCH_MODEL_REGISTRY[model].check_args(args)

    named_architecture(model, name)(architecture)
    _BASELINES[name] = baseline


def localattn_architectures(task: str | None = None) -> dict[str, str]:
    """Return architecture → model for this package's variants, or only for those of one of fairseq's tasks."""
    names = [name for name in _BASELINES if task in (None, ARCH_MODEL_REGISTRY[name].task)]
    return {name: ARCH_MODEL_NAME_REGISTRY[name] for name in names}


def baseline_of(architecture: str) -> str:
    """Return the plain architecture of the same sizes. Raises UsageError for a name that is not this package's."""
    if architecture not in _BASELINES:
        raise UsageError(f"unknown architecture {architecture!r}: choose from {', '.join(sorted(_BASELINES))}")
    return _BASELINES[architecture]


def quick_size_of(architecture: str) -> str:
    """Return the ``_small`` architecture of a variant's name without a size, and any other name unchanged."""
    baseline_of(architecture)
    small = f"{architecture}_small"
    return small if small in _BASELINES else architecture


def small_size_of(architecture: str) -> str:
    """Return the ``_small`` size of an architecture's model; the architecture itself where its model has none.

    That of a plain Transformer is ``transformer_localattn_small``. Raises UsageError for an unknown architecture.
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
