"""Named architectures: the sizes of a plain Transformer together with a variant's options.

Sizes are defined once, in the function of the plain architecture: fairseq's own, or one of those in this module. Every
variant's architecture refers to a plain one, its baseline. Where a paper's model differs from the baseline in more than
the attention (MAN halves the feed-forward network), the variant's module says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_NAME_REGISTRY, ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.models.transformer import TransformerConfig

from ..errors import UsageError
from ..grammar.placement import SITES, parse_layers, ranges_of, written
from ..options import fill_defaults, option_names, set_missing
from ..speed.runtime import ImplementationOptions
from .base import LocalModel
from .struct_config import named_architecture

# Architecture of this package → its baseline.
_BASELINES: dict[str, str] = {}


# Sizes of this package's own, the same in both stacks.
_SIZES: dict[str, dict[str, int]] = {
    "tiny": {"embed_dim": 64, "ffn_embed_dim": 128, "attention_heads": 4, "layers": 2},  # for tests
    "small": {"embed_dim": 128, "ffn_embed_dim": 512, "attention_heads": 4, "layers": 3},  # for Multi30k on a CPU
    "medium": {"embed_dim": 256, "ffn_embed_dim": 1024, "attention_heads": 4, "layers": 3},  # for IWSLT14, with bf16
}


def _set_both(args: Any, **values: Any) -> None:
    """Set options of encoder and decoder, named without their stack, where the command line has not."""
    for stack in ("encoder", "decoder"):
        set_missing(args, **{f"{stack}_{name}": value for name, value in values.items()})


def _register_changed(base: str, name: str, **values: Any) -> None:
    """Register fairseq's architecture ``base`` under ``name``, with other options in both stacks."""

    def changed(args: Any) -> None:
        _set_both(args, **values)
        ARCH_CONFIG_REGISTRY[base](args)

    named_architecture(ARCH_MODEL_NAME_REGISTRY[base], name)(changed)


for _size, _values in _SIZES.items():
    _register_changed("transformer", f"transformer_localattn_{_size}", **_values)
    # fairseq's LightConv and DynamicConv, with kernels up to 15; tests need no tiny one.
    if _size != "tiny":
        _register_changed("lightconv_iwslt_de_en", f"lightconv_{_size}", **_values, kernel_size_list=[3, 7, 15])
# Deeper Transformers, systems of Table 4 of Nguyen et al. 2020, and their small sizes.
_register_changed("transformer_wmt_en_de", "transformer_localattn_wmt_en_de_7_layers", layers=7)
_register_changed("transformer_wmt_en_de", "transformer_localattn_wmt_en_de_8_layers", layers=8)
_register_changed("transformer_localattn_small", "transformer_localattn_small_4_layers", layers=4)
_register_changed("transformer_localattn_small", "transformer_localattn_small_5_layers", layers=5)
# Eight heads, over which Figure 2 of Yang et al. 2019 counts its areas, at small size.
_register_changed("transformer_localattn_small", "transformer_localattn_small_8_heads", attention_heads=8)


@named_architecture("transformer", "transformer_localattn_summarization")
def transformer_localattn_summarization(args: Any) -> None:
    """Set the sizes for CNN/DM and Gigaword as in MASS (Song et al. 2019): GELU, learned positions, embedding norm."""
    set_missing(args, activation_fn="gelu", layernorm_embedding=True)
    _set_both(args, learned_pos=True, embed_dim=768, ffn_embed_dim=3072, attention_heads=12, layers=6)
    ARCH_CONFIG_REGISTRY["transformer"](args)


def leave_out_positions(args: Any) -> None:
    """Leave out the absolute positions of both stacks; an ``adjust`` of :func:`register_architecture`."""
    set_missing(args, no_token_positional_embeddings=True)


def _clip_layers(args: Any, names: Iterable[str]) -> None:
    """Leave out the layers that a shallower stack does not have, in those options ``…_layers`` of ``names``."""
    for name in names:
        site = name.removesuffix("_layers").rpartition("_")[2]
        stack = "encoder" if site == "encoder" else "decoder"
        if not name.endswith("_layers") or site not in SITES or getattr(args, f"{stack}_layers_to_keep", None):
            continue
        text, depth = getattr(args, name), getattr(args, f"{stack}_layers")
        try:
            parse_layers(text, name, (), depth)
        except UsageError:  # it names a layer beyond the stack
            setattr(args, name, written(ranges_of(parse_layers(text, name, range(depth)))) or "none")


def register_architecture(
    model: type[LocalModel], name: str, baseline: str, *, adjust: Callable[[Any], None] | None = None, **defaults: Any
) -> None:
    """Register an architecture with fairseq.

    Args:
        model: the variant's model, registered with fairseq.
        name: the name for ``--arch``.
        baseline: the plain architecture whose sizes it has.
        adjust: sets in ``args``, whose variant options are complete, what else differs from the baseline.
        defaults: values of the options, by name, that replace the dataclass's defaults.
    """
    options = model.options
    standard = {**vars(options()), **defaults}

    def architecture(args: Any) -> None:
        not_written = [name for name in option_names(options) if getattr(args, name, None) is None]
        fill_defaults(args, options, **defaults)
        given = {name for name, value in vars(args).items() if value not in (None, standard.get(name))}
        fill_defaults(args, ImplementationOptions)
        if adjust is not None:
            adjust(args)
        ARCH_CONFIG_REGISTRY[baseline](args)
        _clip_layers(args, not_written)
        # fairseq runs this function while it parses the command line, before it starts worker processes.
        model.check_args(args)
        # fairseq adds _name when it has parsed the command line: a checkpoint with options without effect still loads.
        if not hasattr(args, "_name"):
            model.check_effects(args, TransformerConfig.from_namespace(args), given)

    named_architecture(_name_of(model), name)(architecture)
    _BASELINES[name] = baseline


def _name_of(model: type[LocalModel]) -> str:
    """Return the name under which a model is registered with fairseq."""
    return next(name for name, registered in MODEL_REGISTRY.items() if registered is model)


#: The sizes of a task's models: what is added to a model's name → the plain architecture.
SIZES: dict[str, dict[str, str]] = {
    "translation": {
        "": "transformer",
        "_tiny": "transformer_localattn_tiny",
        "_small": "transformer_localattn_small",
        "_medium": "transformer_localattn_medium",
        "_iwslt_de_en": "transformer_iwslt_de_en",
        "_wmt_en_de": "transformer_wmt_en_de",
        "_wmt_en_de_big": "transformer_vaswani_wmt_en_de_big",
    },
    "language_modeling": {size: f"transformer_lm_localattn{size}" for size in ("", "_small", "_tiny")},
    "sentence_prediction": {size: f"transformer_localattn_classifier{size}" for size in ("", "_tiny")},
}
# Size → the lower half of its layers; the other sizes have six layers, and 1-3.
_LOWER_HALVES = {"_tiny": "1", "_small": "1-2", "_medium": "1-2"}


def register_sizes(
    model: type[LocalModel],
    name: str | None = None,
    *,
    lower_half: Iterable[str] = (),
    own: Mapping[str, Mapping[str, Any] | None] | None = None,
    **options: Any,
) -> None:
    """Register a model with fairseq in all sizes of its task.

    Args:
        model: the variant's model, registered with fairseq.
        name: what the architectures are called before the size; by default the model's name.
        lower_half: names of ``…_layers`` options that place the variant in the lower half of a stack.
        own: size → further options of that size alone; None leaves it out.
        options: of all sizes, as in :func:`register_architecture`.
    """
    for size, baseline in SIZES[model.task].items():
        lower = "1" if model.task == "sentence_prediction" else _LOWER_HALVES.get(size, "1-3")
        of_size = (own or {}).get(size, {})
        if of_size is not None:
            given = {**dict.fromkeys(lower_half, lower), **options, **of_size}
            register_architecture(model, (name or _name_of(model)) + size, baseline, **given)


def localattn_architectures(task: str | None = None) -> dict[str, str]:
    """Return architecture → model for this package's variants, or only for those of one of fairseq's tasks."""
    names = [name for name in _BASELINES if task in (None, ARCH_MODEL_REGISTRY[name].task)]
    return {name: ARCH_MODEL_NAME_REGISTRY[name] for name in names}


def plain_architectures() -> dict[str, str]:
    """Return architecture → model for the sizes that this package gives to models without its attention."""
    package = __name__.partition(".")[0]
    own = [name for name, sizes in ARCH_CONFIG_REGISTRY.items() if sizes.__module__.partition(".")[0] == package]
    return {name: ARCH_MODEL_NAME_REGISTRY[name] for name in own if name not in _BASELINES}


def task_of(architecture: str) -> str | None:
    """Return the task of a variant or of a plain Transformer such as variants are compared with; None for others."""
    model = ARCH_MODEL_NAME_REGISTRY.get(architecture)
    for name, baseline in _BASELINES.items():
        if architecture == name or model == ARCH_MODEL_NAME_REGISTRY[baseline]:
            task: str = ARCH_MODEL_REGISTRY[name].task
            return task
    return None


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


def other_size_of(architecture: str, size: str) -> str:
    """Return an architecture's model in the size ``small`` or ``medium``; the architecture itself if it has no such.

    Names of plain Transformers begin with ``transformer_localattn``. Raises UsageError for an unknown architecture.
    """
    if architecture not in ARCH_MODEL_NAME_REGISTRY:
        raise UsageError(f"unknown architecture {architecture!r}: choose from {', '.join(sorted(_BASELINES))}")
    model = ARCH_MODEL_NAME_REGISTRY[architecture]
    words = architecture.split("_")
    for count in range(len(words), 0, -1):
        name = "_".join([*words[:count], size])
        if ARCH_MODEL_NAME_REGISTRY.get(name) == model:
            return name
    return f"transformer_localattn_{size}" if model == "transformer" else architecture
