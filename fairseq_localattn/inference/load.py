"""A model from a checkpoint with its dictionaries, or from an exported folder. Nothing in a file is run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
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
from .linear import to_int8
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


def load(
    path: str | os.PathLike[str],
    data: str | os.PathLike[str] | None = None,
    *,
    source_lang: str | None = None,
    target_lang: str | None = None,
) -> Trained:
    """Return the model of a checkpoint, or of a folder that ``export`` wrote, ready to translate.

    Args:
        path: the checkpoint, or the folder.
        data: of a checkpoint, the folder of the dictionaries ``dict.XX.txt``; None: its own, or else the training's.
        source_lang, target_lang: None: as the options say, or else the names of the training's files in that folder.

    Raises UsageError, one line, for a file that is missing, damaged, of another model or without its dictionaries.
    """
    file = Path(path)
    languages = {"source_lang": source_lang, "target_lang": target_lang}
    given = {name: value for name, value in languages.items() if value is not None}
    if file.is_dir():
        if data is not None:
            raise UsageError(f"--data {data}: {file} is a folder of export with dictionaries of its own: leave it out")
        sizes, weights, dictionaries, text = folder.read(file)
        model = build(sizes, weights, dictionaries, where=str(file))
        if text.get("int8"):
            to_int8(model)
        return Trained(model, dictionaries["source"], dictionaries["target"], {**text, **given})
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
    folders = [Path(data)] if data is not None else [file.parent]
    if data is None and isinstance(trained := getattr(task, "data", None), str):
        folders.append(Path(trained.split(os.pathsep)[0]))
    said = {name: value for name in languages if (value := getattr(task, name, None)) is not None}
    named = said | given
    if len(named) < 2:
        named = _pair(folders, file, named)
    source, target = (_dictionary(named[name], folders) for name in languages)
    model = build(sizes, state["model"], {"source": source, "target": target}, where=str(file))
    return Trained(model, source, target, {**vars(task), **text_options(state), **named})


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
        model = Model(sizes, len(dictionaries["source"]), len(dictionaries["target"])).float()
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
    """Let embeddings that are equal in a checkpoint be one tensor in the model.

    They may be copies there: fairseq writes them so from a GPU, and averages them one by one.
    """
    first: list[tuple[Tensor, Any]] = []
    for name in ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection"):
        tensor = weights.get(f"{name}.weight", weights["decoder.embed_tokens.weight"])
        module = model.get_submodule(name)
        same = (weight for other, weight in first if torch.equal(other, tensor))
        module.weight = next(same, module.weight)
        first.append((tensor, module.weight))


def _pair(folders: Sequence[Path], file: Path, named: Mapping[str, str]) -> dict[str, str]:
    """Return the languages that the names of the training's files say, as fairseq guesses them; ``named`` as they are.

    Raises UsageError where that is not one pair whose dictionaries stand beside these files.
    """
    sides = ("source_lang", "target_lang")
    for place in filter(Path.is_dir, folders):
        names = {path.name for path in place.iterdir()}
        parts = [name.split(".") for name in names]
        said = {part[1] for part in parts if len(part) > 2 and part[1].count("-") == 1}
        pairs = [dict(zip(sides, each.split("-"), strict=True)) for each in sorted(said)]
        found = [
            pair
            for pair in pairs
            if named.items() <= pair.items() and names.issuperset(f"dict.{each}.txt" for each in pair.values())
        ]
        if len(found) == 1:
            return found[0]
        if found:
            listed = ", ".join("-".join(pair.values()) for pair in found)
            raise UsageError(
                f"{file}: its options do not name both languages, and {place} has {listed}: "
                "give --source-lang and --target-lang"
            )
    places = " and ".join(map(str, folders))
    raise UsageError(
        f"{file}: its options do not name both languages, and {places} has no files of the training such as "
        "train.de-en.de.idx: give --source-lang and --target-lang"
    )


def _dictionary(language: str, folders: Sequence[Path]) -> Dictionary:
    """Return the dictionary of a language. Raises UsageError without one."""
    name = f"dict.{language}.txt"
    for place in folders:
        if (place / name).is_file():
            return Dictionary.read(place / name)
    raise UsageError(f"{folders[0] / name}: no such file: give the folder of the dictionaries of the training")
