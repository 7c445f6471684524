"""A model from a checkpoint with its dictionaries, or from an exported folder. Nothing in a file is run."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..core.attention import LocalAttention
from ..core.projections import lay_out_for_decoding
from ..errors import UsageError
from ..stored.reading import read
from . import folder
from .dictionary import Dictionary
from .int8 import to_int8
from .model import Model
from .sizes import Sizes, options_of, sizes_of, text_options

# Tensors of fairseq's models that are no weights, and the classifier of tags, which only training needs.
DROPPED = ("version", "embed_positions._float_tensor", "embed_positions.weights", "tag_proj.weight", "tag_proj.bias")


@dataclass(frozen=True)
class Trained:
    """A trained model, its dictionaries, and the options of its task (languages, tokeniser, subwords)."""

    model: Model
    source: Dictionary
    target: Dictionary
    options: Mapping[str, Any]


def load(path: str | os.PathLike[str], data: str | os.PathLike[str] | None = None) -> Trained:
    """Return the model of a checkpoint, or of a folder that ``export`` wrote, ready to translate.

    Args:
        path: the checkpoint, or the folder.
        data: of a checkpoint, the folder of the dictionaries ``dict.XX.txt``; None: its own, or else the training's.

    Raises UsageError, one line, for a file that is missing, damaged, of another model or without its dictionaries.
    """
    file = Path(path)
    if file.is_dir():
        sizes, weights, dictionaries, text = folder.read(file)
        model = build(sizes, weights, dictionaries, where=str(file))
        if text.get("int8"):
            to_int8(model)
        return Trained(model, dictionaries["source"], dictionaries["target"], text)
    if not file.is_file():
        raise UsageError(f"{file}: no such file; give a checkpoint of fairseq-train, or a folder of export")
    state = read(os.fspath(file))
    try:
        options, task = options_of(state)
        if (
            not any(name.startswith("encoder.") for name in state["model"])
            or "decoder.embed_tokens.weight" not in (state["model"])
        ):
            raise UsageError("it is no model that translates")
        sizes = sizes_of(options)
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from None
    languages = [getattr(task, f"{side}_lang", None) for side in ("source", "target")]
    source, target = (_dictionary(language, file, task, data) for language in languages)
    model = build(sizes, state["model"], {"source": source, "target": target}, where=str(file))
    return Trained(model, source, target, {**vars(task), **text_options(state)})


def build(sizes: Sizes, weights: Mapping[str, Tensor], dictionaries: Mapping[str, Dictionary], *, where: str) -> Model:
    """Return a model with the weights of a checkpoint, in fp32. Raises UsageError where they do not fit."""
    given = {name: x.float() for name, x in weights.items() if not name.partition(".")[2].endswith(DROPPED)}
    for side, stack in (("source", "encoder"), ("target", "decoder")):
        embeddings, words = given.get(f"{stack}.embed_tokens.weight"), len(dictionaries[side])
        rows = 0 if embeddings is None else len(embeddings)
        if rows != words:
            raise UsageError(
                f"{where}: the model knows {rows:,} {side} words and the dictionary has {words:,}: give the dictionary "
                "of the training"
            )
    with torch.random.fork_rng(devices=[]):
        model = Model(sizes, len(dictionaries["source"]), len(dictionaries["target"]))
    given.setdefault("decoder.output_projection.weight", given["decoder.embed_tokens.weight"])
    for name, module in model.named_modules():
        if isinstance(module, LocalAttention):
            module.upgrade_state_dict_named(given, name)
    try:
        missing, unknown = model.load_state_dict(given, strict=False)
    except RuntimeError as error:
        raise UsageError(f"{where}: its weights do not fit its options: {str(error).splitlines()[1].strip()}") from None
    if missing or unknown:
        wrong = f"{missing[0]} is missing" if missing else f"there is no {unknown[0]}"
        raise UsageError(f"{where}: its weights do not fit its options: {wrong}; use fairseq-generate")
    _tie(model, weights)
    model.eval().requires_grad_(False)
    lay_out_for_decoding(model)
    return model


def _tie(model: Model, weights: Mapping[str, Tensor]) -> None:
    """Let embeddings that are one tensor in a checkpoint be one in the model."""
    names = ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection")
    first: dict[int, Any] = {}
    for name in names:
        tensor = weights.get(f"{name}.weight", weights["decoder.embed_tokens.weight"])
        module = model.get_submodule(name)
        module.weight = first.setdefault(tensor.data_ptr(), module.weight)


def _dictionary(language: str | None, file: Path, task: Namespace, data: str | os.PathLike[str] | None) -> Dictionary:
    """Return the dictionary of a language. Raises UsageError without one."""
    if language is None:
        raise UsageError(f"{file}: its options name no languages; train with --source-lang and --target-lang")
    name = f"dict.{language}.txt"
    folders = [Path(data)] if data is not None else [file.parent]
    if data is None and isinstance(trained := getattr(task, "data", None), str):
        folders.append(Path(trained.split(os.pathsep)[0]))
    for place in folders:
        if (place / name).is_file():
            return Dictionary.read(place / name)
    raise UsageError(f"{folders[0] / name}: no such file: give the folder of the dictionaries of the training")
