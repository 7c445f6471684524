"""A model as a folder of data: weights as safetensors, a JSON of all else, dictionaries, subwords, and a model card."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from ..errors import UsageError
from ..files import check_folder, write_whole
from ..ranges import RANGES
from . import safetensors
from .dictionary import Dictionary
from .linear import unpacked
from .sizes import Sizes
from .text import FILES

VERSION = 1
WEIGHTS, ABOUT, CARD = "model.safetensors", "model.json", "README.md"
#: Options of the text that are kept; the files of :data:`FILES` are copied.
TEXT = (
    "source_lang",
    "target_lang",
    "tokenizer",
    "moses_no_dash_splits",
    "moses_no_escape",
    "lowercase",
    "truncate_source",
    "bpe",
    "bpe_separator",
    "int8",
)
DICTIONARIES = {side: f"dict.{side}.txt" for side in ("source", "target")}


def check_new(folder: Path, *more: str) -> None:
    """Raise UsageError for a folder with a file that would be overwritten; ``more``: further names."""
    names = (ABOUT, WEIGHTS, CARD, *DICTIONARIES.values(), *map(_file, FILES), *more)
    if there := [name for name in names if (folder / name).exists()]:
        raise UsageError(f"--to {folder}: {there[0]} is in it; give a new folder")


def _file(option: str) -> str:
    """Return the name in a folder of the file that an option gives."""
    return option.replace("_", ".")


def save(
    folder: Path,
    sizes: Sizes,
    weights: Mapping[str, Tensor],
    dictionaries: Mapping[str, Dictionary],
    options: Mapping[str, Any],
    programs: Mapping[str, Any] | None = None,
) -> None:
    """Write a folder; ``dictionaries`` by ``source`` and ``target``, ``options`` of the text by fairseq's names.

    ``programs``: what callers of exported programs need to know; the folder then has no weights.

    Raises UsageError for a folder with a file that would be overwritten, and for a file of subwords that is missing.
    """
    check_new(folder)
    kept = {name: options[name] for name in TEXT if options.get(name) is not None}
    files = {name: Path(options[name]) for name, bpe in FILES.items() if options.get(name) and kept.get("bpe") == bpe}
    for name, path in files.items():
        if not path.is_file():
            raise UsageError(f"--{name.replace('_', '-')} {path}: no such file; give the one of the training")
    check_folder(folder)
    for name, path in files.items():
        kept[name] = _file(name)
        shutil.copyfile(path, folder / kept[name])
    for side, dictionary in dictionaries.items():
        dictionary.write(folder / DICTIONARIES[side])
    first: dict[int, str] = {}
    same = {name: first.setdefault(tensor.data_ptr(), name) for name, tensor in weights.items()}
    if programs is None:
        safetensors.write(folder / WEIGHTS, {name: weights[name] for name in first.values()})
    about: dict[str, Any] = {
        "version": VERSION,
        "sizes": sizes.as_dict(),
        "text": kept,
        "same": {name: other for name, other in same.items() if name != other},
    }
    if programs is not None:
        about["programs"] = programs
    write_whole(folder / ABOUT, json.dumps(about, indent=1) + "\n")


def read(folder: Path) -> tuple[Sizes, dict[str, Tensor], dict[str, Dictionary], dict[str, Any]]:
    """Return what :func:`save` was given. Raises UsageError for a folder that is damaged or of another version."""
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        version, text, same = about["version"], dict(about["text"]), dict(about["same"])
    except OSError as error:
        what = f"{ABOUT} cannot be read: {error.strerror}"
        raise UsageError(f"{folder}: {what}; give a checkpoint, or a folder of export") from None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UsageError(f"{folder / ABOUT}: is damaged; export the model again") from None
    if version != VERSION:
        raise UsageError(f"{folder}: was exported by another version ({version}, here {VERSION}); export it again")
    if "programs" in about:
        raise UsageError(
            f"{folder}: holds programs for other software, which are not run here: export it with --format safetensors"
        )
    try:
        sizes = Sizes.from_dict(about["sizes"])
    except (KeyError, UsageError) as error:
        raise UsageError(f"{folder / ABOUT}: {error}; export the model again") from None
    weights = safetensors.read(folder / WEIGHTS)
    parameters = sum(tensor.numel() for tensor in weights.values())
    sizes.check(most_layers=len(weights), most=max(parameters, RANGES["positions"][1]), where=str(folder / ABOUT))
    for name, other in same.items():
        if not isinstance(other, str) or other not in weights:
            raise UsageError(f"{folder / WEIGHTS}: has no {other}; export the model again")
        weights[name] = weights[other]
    try:
        weights = unpacked(weights)
    except KeyError as error:
        raise UsageError(f"{folder / WEIGHTS}: has no {error.args[0]}; export the model again") from None
    broken = [name for name, tensor in weights.items() if not bool(tensor.isfinite().all())]
    if broken:
        raise UsageError(f"{folder / WEIGHTS}: {broken[0]} holds NaN or infinity; export another checkpoint")
    # Names of files are those that are written here, whatever the JSON says: nothing outside of the folder is read.
    text |= {name: str(folder / _file(name)) for name in FILES if text.get(name)}
    dictionaries = {side: Dictionary.read(folder / name) for side, name in DICTIONARIES.items()}
    return sizes, weights, dictionaries, text
