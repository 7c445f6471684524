"""What a model is beside its weights: sizes and texts, from the options in a checkpoint of fairseq."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..errors import UsageError
from ..grammar.placement import SITES, parse_layers
from ..grammar.presets import PRESETS, stack_of, window_of

ACTIVATIONS = ("relu", "gelu", "gelu_accurate", "gelu_fast", "tanh", "linear")
# fairseq's plain Transformers; other architectures must say their attention by options that are known here.
PLAIN = re.compile(r"transformer(_tiny|_(iwslt|wmt|vaswani|localattn)_\w+)?")
#: Options of fairseq that change the model and are not computed here.
REFUSED = (
    *("adaptive_input", "adaptive_softmax_cutoff", "no_cross_attention", "cross_self_attention", "base_layers"),
    *("char_inputs", "merge_src_tgt_embed", "encoder_layers_to_keep", "decoder_layers_to_keep"),
    *("encoder_xformers_att_config", "decoder_xformers_att_config", "quant_noise_scalar"),
    *("scale_attn", "scale_heads", "scale_fc", "scale_resids"),
)


@dataclass(frozen=True)
class StackSizes:
    """The sizes of an encoder or a decoder, by fairseq's names."""

    embed_dim: int
    ffn_embed_dim: int
    layers: int
    attention_heads: int
    normalize_before: bool = False
    learned_pos: bool = False
    positions: bool = True
    final_norm: bool = False
    layers_to_keep: None = None


@dataclass(frozen=True)
class Sizes:
    """All that makes a model of weights.

    Args:
        encoder, decoder: the two stacks.
        texts: site → text of its layers (:mod:`fairseq_localattn.grammar`).
        activation_fn: of the feed-forward networks, one of :data:`ACTIVATIONS`.
        max_source_positions, max_target_positions: the longest sentence, its end included.
        scale_embedding: embeddings are multiplied by √C.
        layernorm_embedding: embeddings are normalised.
    """

    encoder: StackSizes
    decoder: StackSizes
    texts: Mapping[str, str]
    activation_fn: str = "relu"
    max_source_positions: int = 1024
    max_target_positions: int = 1024
    scale_embedding: bool = True
    layernorm_embedding: bool = False
    attention_dropout: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the sizes as JSON can hold them."""
        return asdict(self)

    def check(self, *, most_layers: int, most: int, where: str) -> None:
        """Raise UsageError for numbers that no model of these weights has, and for values of another type."""
        for owner in (self.encoder, self.decoder, self):
            for each in fields(owner):
                value, name = getattr(owner, each.name), each.name
                if each.type == "int":
                    top = most_layers if name == "layers" else most
                    wrong = type(value) is not int or not 1 <= value <= top
                elif each.type in ("bool", "str"):
                    wrong = type(value).__name__ != each.type
                else:
                    continue
                if wrong:
                    raise UsageError(f"{where}: {name} is {value!r:.60}, as in no exported model; export it again")
        texts = self.texts.items() if isinstance(self.texts, Mapping) else [(None, None)]
        if not all(site in SITES and isinstance(text, str) for site, text in texts):
            raise UsageError(f"{where}: its texts are damaged; export the model again")
        if self.activation_fn not in ACTIVATIONS:
            raise UsageError(f"{where}: there is no activation {self.activation_fn!r:.60}; export the model again")

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Sizes:
        """Return what :meth:`as_dict` wrote. Raises UsageError for anything else."""
        try:
            stacks = {name: StackSizes(**found[name]) for name in ("encoder", "decoder")}
            return cls(**{**found, **stacks})
        except (TypeError, KeyError) as error:
            raise UsageError(f"the sizes of the model are not of this version ({error})") from None


def options_of(state: Mapping[str, Any]) -> tuple[Namespace, Namespace]:
    """Return the options of the model and of the task in a checkpoint, by flat names."""
    cfg = state.get("cfg")
    if cfg is None:
        return state["args"], state["args"]
    model, task = (_flat(cfg.get(part) or {}) for part in ("model", "task"))
    return Namespace(**{**task, **model}), Namespace(**task)


def text_options(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a checkpoint says of the tokeniser and the subwords, by the names of fairseq's flags."""
    cfg = state.get("cfg")
    if cfg is None:
        return {}
    found: dict[str, Any] = {}
    for part in ("tokenizer", "bpe"):
        given = cfg.get(part)
        if isinstance(given, (Mapping, Namespace)):
            values = _flat(given)
            found |= {**{name: value for name, value in values.items() if name != "_name"}, part: values.get("_name")}
    return found


def _flat(options: Namespace | Mapping[str, Any]) -> dict[str, Any]:
    """Return options by their flat names: ``encoder: {layers: 3}`` is ``encoder_layers``."""
    given = vars(options) if isinstance(options, Namespace) else dict(options)
    flat = {key: value for key, value in given.items() if not isinstance(value, Mapping)}
    for part in ("encoder", "decoder", "quant_noise"):
        nested = given.get(part)
        flat |= {f"{part}_{key}": value for key, value in nested.items()} if isinstance(nested, Mapping) else {}
    return flat


def sizes_of(options: Namespace) -> Sizes:
    """Return the sizes of a translation model from its options.

    Raises UsageError for options that are missing, and for those of models that are not computed here.
    """
    for name in REFUSED:
        value = getattr(options, name, None)
        if value and value != "null":
            raise UsageError(f"its option {name} is {value!r}, which fairseq alone computes: use fairseq-generate")
    try:
        found = _sizes_of(options)
    except AttributeError as error:
        raise UsageError(
            f"its options are incomplete ({error}): it was trained by another version; use fairseq-generate"
        ) from None
    for name in ("decoder_input_dim", "decoder_output_dim"):
        width = getattr(options, name, None)
        if isinstance(width, int) and width != found.decoder.embed_dim:
            raise UsageError(f"its option {name} is {width}, which fairseq alone computes: use fairseq-generate")
    if found.activation_fn not in ACTIVATIONS:
        raise UsageError(f"its activation is {found.activation_fn!r}, which only fairseq has: use fairseq-generate")
    return found


def _sizes_of(options: Namespace) -> Sizes:
    stacks = {}
    positions = not getattr(options, "no_token_positional_embeddings", False)
    for name in ("encoder", "decoder"):
        pre = bool(getattr(options, f"{name}_normalize_before", False))
        bare = name == "encoder" and getattr(options, "mma_no_encoder_positions", False)
        stacks[name] = StackSizes(
            embed_dim=getattr(options, f"{name}_embed_dim"),
            ffn_embed_dim=getattr(options, f"{name}_ffn_embed_dim"),
            layers=getattr(options, f"{name}_layers"),
            attention_heads=getattr(options, f"{name}_attention_heads"),
            normalize_before=pre,
            learned_pos=bool(getattr(options, f"{name}_learned_pos", False)),
            positions=positions and not bare,
            final_norm=pre and not (name == "decoder" and getattr(options, "no_decoder_final_norm", False)),
        )
    names = ("max_source_positions", "max_target_positions")
    lengths = {name: getattr(options, name, None) for name in names}
    return Sizes(
        stacks["encoder"],
        stacks["decoder"],
        texts=texts_of(options, stacks),
        activation_fn=str(getattr(options, "activation_fn", "relu")),
        scale_embedding=not getattr(options, "no_scale_embedding", False),
        layernorm_embedding=bool(getattr(options, "layernorm_embedding", False)),
        **{name: length for name, length in lengths.items() if length is not None},
    )


def texts_of(options: Namespace, stacks: Mapping[str, StackSizes]) -> dict[str, str]:
    """Return site → text of the sites that are not plain, from the options of any of this package's translation models.

    Raises UsageError for an architecture of another package, and AttributeError for options that are missing.
    """
    if hasattr(options, "localattn_encoder"):
        return {site: text for site in SITES if (text := getattr(options, f"localattn_{site}"))}
    prefix = next((each for each in PRESETS if hasattr(options, f"{each}_encoder_layers")), None)
    if prefix is None:
        arch = getattr(options, "arch", None) or getattr(options, "_name", None)
        if not PLAIN.fullmatch(str(arch)):
            raise UsageError(f"its architecture {arch!r} is none of this package's: use fairseq-generate")
        return {}
    preset, found = PRESETS[prefix], {}
    for site in SITES:
        name = f"{prefix}_{site}_layers"
        stack = stacks["encoder" if site == "encoder" else "decoder"]
        where = getattr(options, name) if site == "encoder" or hasattr(options, name) else "none"
        if prefix == "diffwin" and window_of(options, site) == "none":
            where = "none"
        own = parse_layers(where, name, range(stack.layers), stack.layers)
        sublayers = preset.sublayers(options, site, stack.attention_heads) if own else ()
        described = stack_of(own, range(stack.layers), sublayers=sublayers, plain=preset.plain(options))
        if described is not None:
            found[site] = str(described)
    return found
