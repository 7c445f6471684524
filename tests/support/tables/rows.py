"""The rows of the papers' tables (configs/<paper>/<table>.yaml): recipes, as fairseq parses them, and their models.

A row is named 'man/table1_iwslt14_man': paper, table and row.

Models are built at full size on torch's device `meta`, which has shapes and no numbers, with dictionaries of the sizes
that the recipe states.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from fairseq import options
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from torch import nn

from experiments.recipes.flags import expand
from experiments.recipes.recipe import Recipe
from experiments.recipes.scales import recipe_at
from experiments.recipes.tables import RowSource, find_table, tables_of
from experiments.system.checkout import USER_DIR
from fairseq_localattn.analysis.probing.models import architecture_options, new_encoder
from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.mechanisms.block import BlockAttention
from fairseq_localattn.mechanisms.convolutional import ConvolutionalAttention
from fairseq_localattn.mechanisms.gaussian import GaussianAttention
from fairseq_localattn.mechanisms.local_convolution import LocalConvolution
from fairseq_localattn.mechanisms.masked import StaticMaskAttention
from fairseq_localattn.mechanisms.mixed import MixedAttention
from fairseq_localattn.mechanisms.phrasal import MultiGranularityAttention
from fairseq_localattn.mechanisms.relative import RelativeAttention
from fairseq_localattn.mechanisms.windowed import MultiplicativeWindowAttention, WindowAttention
from support.paths import ROOT

CONFIGS = ROOT / "configs"
PAPERS = ("man", "diffwin", "csan", "mma", "mgsa")
BASES = {  # recipes that tables extend, at full scale: of one paper, and of several
    path.relative_to(CONFIGS).with_suffix("").as_posix(): path
    for folder in ("base", *(f"{p}/base" for p in PAPERS))
    for path in CONFIGS.glob(f"{folder}/*.yaml")
}
SMALL = {path.stem: path for path in CONFIGS.glob("scales/small/*.yaml")}
TABLES = {f"{paper}/{name}": find_table(paper, name) for paper in PAPERS for name in tables_of(paper)}
_PLACES = {
    f"{name}_{row}": (table, row) for name, table in TABLES.items() for row in table.sources
}  # fmt: skip
ROWS = sorted(name for name, (table, row) in _PLACES.items() if row in table.rows("full"))
SMALL_ROWS = sorted(name for name, (table, row) in _PLACES.items() if row in table.rows("small"))
LEVELS = 3  # of the trees


@cache
def row(name: str, scale: str = "full") -> Recipe:
    """Return the recipe of a row at a scale."""
    return recipe_at(*_PLACES[name], scale)


def baseline_of_row(name: str) -> str:
    """Return the name of the row that a row is tested against; empty without one."""
    table, short = _PLACES[name]
    found = table.baseline(short)
    return "" if found is None else f"{found[0].paper}/{found[0].name}_{found[1]}"


def source_of(name: str) -> RowSource:
    """Return what a row is made of."""
    table, short = _PLACES[name]
    return table.sources[short]


def chain(path: Path) -> Iterator[Path]:
    """Yield a file, the one that it extends, and so on."""
    yield path
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("extends: "):
            yield from chain((path.parent / line.removeprefix("extends: ")).resolve())


def values(found: Recipe, section: str) -> dict[str, Any]:
    """Return the flags of a section as the recipe states them."""
    return {key: entry.value for key, entry in found.section(section).items()}


def same(stated: Any, found: Any) -> bool:
    """Return whether a value that fairseq has parsed is the recipe's."""
    if isinstance(stated, list):
        return list(ast.literal_eval(found) if isinstance(found, str) else found) == stated
    if isinstance(stated, bool) or not isinstance(stated, (int, float)) or isinstance(found, str):
        return str(found) == str(stated)
    return found == stated


@cache
def _parse(architecture: str, section: str, argv: tuple[str, ...]) -> Any:
    head = ["DATA", "--user-dir", str(USER_DIR)]
    if section == "train":
        return options.parse_args_and_arch(options.get_training_parser(), [*head, "--arch", architecture, *argv])
    parser = options.get_eval_lm_parser() if section == "eval_lm" else options.get_generation_parser()
    return options.parse_args_and_arch(parser, [*head, "--path", "MODEL", *argv])


_EXPANDED: dict[tuple[str, str, str], tuple[str, ...]] = {}


def parsed(name: str, section: str, scale: str = "full") -> Any:
    """Return the namespace that fairseq's command would have. Raises RecipeError for a flag that it would refuse."""
    found = row(name, scale)
    flags = (found.architecture, section, repr(sorted(values(found, section).items())))
    if flags not in _EXPANDED:  # many rows have the same ones
        _EXPANDED[flags] = tuple(expand(found, section, arch=found.architecture))
    return copy.copy(_parse(found.architecture, section, _EXPANDED[flags]))


@cache
def _dictionary(size: int) -> Dictionary:
    words = Dictionary()
    for n in range(size - len(words)):
        words.add_symbol(f"w{n}")
    return words


def build(name: str) -> nn.Module:
    """Return a row's model at full size, without numbers; of a probing row from scratch its new encoder alone."""
    found, architecture = row(name), row(name).architecture
    sizes = found.sizes
    words = sizes["dictionary"] if isinstance(sizes["dictionary"], list) else [sizes["dictionary"]] * 2
    source, target = map(_dictionary, words)
    tags = _dictionary(sizes.get("tags", 9))
    task = SimpleNamespace(
        source_dictionary=source, target_dictionary=target, tag_dictionary=tags, phrase_levels=LEVELS
    )
    with torch.device("meta"):
        if found.probing == "scratch":
            return new_encoder(*_for_probing(found, architecture, source))
        args = parsed(name, "train")
        if args.task == "sentence_prediction":
            args.max_positions = getattr(args, "max_positions", 512) or 512
        model = ARCH_MODEL_REGISTRY[architecture].build_model(args, task)
        if args.task == "sentence_prediction":
            model.register_classification_head("head", num_classes=sizes["classes"])
    return model


def _for_probing(found: Recipe, architecture: str, words: Dictionary) -> tuple[Any, Any]:
    """Return the flags of a row that the runner gives to analysis.probing: those of its model."""
    flags = [
        f"--{key.replace('_', '-')}={value}" for key, value in values(found, "train").items() if key.startswith("mgsa_")
    ]
    return architecture_options(architecture, flags), SimpleNamespace(
        dictionary=words, phrase_levels=LEVELS, folder=Path("DATA")
    )


def sides(model: nn.Module) -> dict[str, Any]:
    """Return 'encoder' and 'decoder', as far as the model has them."""
    if not hasattr(model, "encoder") and not hasattr(model, "decoder"):
        return {"encoder": model}
    return {side: getattr(model, side) for side in ("encoder", "decoder") if getattr(model, side, None) is not None}


def sizes_of(model: nn.Module) -> dict[str, Any]:
    """Return what a recipe's `sizes` states, measured on the model."""
    measured: dict[str, set[Any]] = {"embed_dim": set(), "ffn_embed_dim": set(), "attention_heads": set()}
    found: dict[str, Any] = {}
    words = {}
    for side, stack in sides(model).items():
        found[f"{side}_layers"] = len(stack.layers)
        words[side] = stack.embed_tokens.num_embeddings
        measured["embed_dim"].add(stack.embed_tokens.embedding_dim)
        for layer in stack.layers:
            for name, module in layer.named_modules():
                if name.rpartition(".")[2] == "fc1":
                    measured["ffn_embed_dim"].add(module.out_features)
                if hasattr(module, "num_heads"):
                    measured["attention_heads"].add(module.num_heads)
        if hasattr(stack, "output_projection"):
            words["output"] = stack.output_projection.out_features
        if getattr(stack, "tag_proj", None) is not None:
            found["tags"] = stack.tag_proj.out_features
    for name, seen in measured.items():
        (found[name],) = seen  # the same everywhere
    for head in getattr(model, "classification_heads", {}).values():
        found["classes"] = head.out_proj.out_features
    found["words"] = words
    found["parameters"] = sum(weights.numel() for weights in model.parameters())
    return found


def attention_of(model: nn.Module) -> str:
    """Return the attention of the stacks that is not plain, by layers: 'encoder 1-3 aw of 1; decoder 1-3 mw of 1'."""
    parts = []
    for side, stack in sides(model).items():
        sites = {side: "self_attn", "cross": "encoder_attn"} if side == "decoder" else {side: "self_attn"}
        for site, attribute in sites.items():
            found = [_layer(layer, attribute, stack) for layer in stack.layers]
            for what, group in groupby(enumerate(found, start=1), key=lambda numbered: numbered[1]):
                layers = [number for number, _ in group]
                if what:
                    reach = f"{layers[0]}-{layers[-1]}" if len(layers) > 1 else f"{layers[0]}"
                    parts.append(f"{site} {reach} {what}")
        if side == "encoder" and stack.embed_positions is None:
            parts.append("no encoder positions")
    return "; ".join(parts)


def _layer(layer: Any, attribute: str, stack: Any) -> str:
    """Return the attention of one layer; of MAN's the order of its sublayers; nothing for fairseq's own."""
    attention: Any = getattr(layer, attribute, None)
    if attribute == "self_attn" and hasattr(layer, "sublayers"):
        shown = [each for each in layer.sublayers if each.kind != "cross"]
        names = [_sublayer(getattr(layer, each.name)) if each.kind != "ffn" else "ffn" for each in shown]
        return f"{'>'.join(names)} {getattr(attention, 'activation', 'none')}"
    return _attention(attention, stack)


def _sublayer(attention: Any) -> str:
    if isinstance(attention, StaticMaskAttention):
        return f"sman({attention.boundary or 'sqrt'})"
    if isinstance(attention, LocalConvolution):
        return f"conv({attention.form} {attention.kernel})"
    return str(attention.kind or "san")


def _attention(attention: Any, stack: Any) -> str:
    if type(attention) is LocalAttention:
        return "" if attention.activation == "none" else f"san {attention.activation}"
    if isinstance(attention, MixedAttention):
        return f"{','.join(attention.head_kinds)} w={attention.window}"
    if isinstance(attention, ConvolutionalAttention):
        return f"window {attention.window} heads {attention.head_span}"
    if isinstance(attention, GaussianAttention):
        width = f"{attention.width} from {attention.source} {attention.hidden}"
        return f"gauss {attention.center} {width} heads {attention.local_heads}"
    if isinstance(attention, RelativeAttention):
        return f"distances {attention.max_distance} {'own' if attention.own_tables else 'shared'}"
    if isinstance(attention, BlockAttention):
        return f"blocks of {attention.block_length}"
    if isinstance(attention, WindowAttention):
        kind = "mw" if isinstance(attention, MultiplicativeWindowAttention) else "aw"
        return f"{kind} of {attention.segment_size}"
    if isinstance(attention, MultiGranularityAttention):
        heads = [str(stack.granularities[each]) for each in attention.granularities]
        composition = type(attention.composition).__name__.removesuffix("Composition").lower()
        recurrence: Any = attention.interaction
        interaction = "none" if recurrence is None else "onlstm" if recurrence.recurrence.ordered else "lstm"
        phrases = "trees" if stack.needs_phrases else "ngrams"
        return f"{attention.word_heads} words, {phrases} {','.join(heads)}, {composition}, {interaction}"
    return ""
