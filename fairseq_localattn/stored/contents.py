"""Checks of a checkpoint's file and contents that run before it is used. Nothing in the file is run."""

from __future__ import annotations

import os
import pickletools
import zipfile
from argparse import Namespace
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from ..ranges import RANGES
from . import older

# Objects in the options, meters and states of a checkpoint; fairseq's have some thousands, and one for each tensor.
MOST_OBJECTS = 5_000_000


# Parts of a checkpoint, and the types that each may have. None is allowed as well.
KINDS: dict[str, tuple[type, ...]] = {
    "args": (Namespace,),
    "cfg": (Mapping,),
    "cfg.model": (Namespace, Mapping),
    "cfg.task": (Namespace, Mapping),
    "cfg.criterion": (Namespace, Mapping),
    "criterion": (Mapping,),
    "task_state": (Mapping,),
    "last_optimizer_state": (Mapping,),
    "optimizer_history": (list,),
    "extra_state": (Mapping,),
    "extra_state.best": (int, float),
    "extra_state.metrics": (Mapping,),
    "extra_state.train_iterator": (Mapping,),
    "extra_state.train_iterator.epoch": (int,),
    "optimizer_history.-1.num_updates": (int,),
}
MOST_UPDATES = 2**31  # and epochs: fairseq makes seeds of them
# What an option may name beside files and folders.
STREAMS = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty")


class ContentsError(ValueError):
    """Contents that a checkpoint of fairseq-train does not have; the message says which."""


def read(path: str) -> dict[str, Any]:
    """Return the state in a checkpoint, in today's form. In torch's newer format tensors are mapped from the file.

    Raises ContentsError for a file that is damaged, or whose contents could exhaust the memory, and what ``torch.load``
    raises for files that it cannot or must not read.
    """
    packed = zipfile.is_zipfile(path)
    if packed:
        check_archive(path)
    else:
        with open(path, "rb") as file:
            if file.read(4) == b"PK\x03\x04":
                raise zipfile.BadZipFile("the end is missing")
    state = older.load(path, mmap=packed)
    if not isinstance(state, dict):
        raise ContentsError(f"it is no checkpoint of fairseq's: it holds a {type(state).__name__}")
    count_objects(state)
    check_kinds(state)
    tensors = dict(find_tensors(state))
    for name, tensor in tensors.items():
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_complex() or tensor.is_meta:
            raise ContentsError(
                f"the tensor {name} is sparse, quantized, complex or without data, as in no checkpoint of fairseq's"
            )
        if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            raise ContentsError(f"the tensor {name} claims {tensor.numel():,} numbers and stores fewer")
    weights = {name: tensor for name, tensor in tensors.items() if name.startswith("model.")}
    model = state.get("model")
    if not weights or not isinstance(model, dict) or not all(isinstance(value, Tensor) for value in model.values()):
        raise ContentsError("it is no checkpoint of fairseq's: it has no model of fairseq's in it")
    check_options(state, weights)
    broken = [name for name, tensor in weights.items() if tensor.is_floating_point() and not tensor.isfinite().all()]
    if broken:
        raise ContentsError(f"{len(broken)} of {len(weights)} weights hold NaN or infinity, {broken[0]} first")
    return state


def check_archive(path: str) -> None:
    """Raise ContentsError for a record that is compressed (torch's never are), encrypted, or has a wrong checksum."""
    with zipfile.ZipFile(path) as archive:
        for record in archive.infolist():
            if record.compress_type != zipfile.ZIP_STORED:
                raise ContentsError(f"its record {record.filename} is compressed, as fairseq-train writes none")
            if record.flag_bits & 1:
                raise ContentsError(f"its record {record.filename} is encrypted")
        wrong = archive.testzip()
    if wrong is not None:
        raise ContentsError(f"its record {wrong} does not have the checksum that was written with it")


def check_kinds(state: Mapping[str, Any]) -> None:
    """Raise ContentsError for a part of :data:`KINDS` that is something else, and where there are no options."""
    if state.get("args") is None and state.get("cfg") is None:
        raise ContentsError("it is no checkpoint of fairseq's: it has no options")
    for place, kinds in KINDS.items():
        value: Any = state
        for name in place.split("."):
            parts = dict(_parts(value))
            value = list(parts.values())[-1] if name == "-1" and parts else parts.get(name)
        if value is not None and not isinstance(value, kinds):
            raise ContentsError(f"its {place} is a {type(value).__name__}, as in no checkpoint of fairseq's")
        if isinstance(value, int) and kinds == (int,) and not 0 <= value < MOST_UPDATES:
            raise ContentsError(f"its {place} is {value}, as in no checkpoint of fairseq's")


def _parts(value: Any) -> Iterable[tuple[str, Any]]:
    """Return the named parts of a container; none of any other value."""
    if isinstance(value, Namespace):
        return vars(value).items()
    if isinstance(value, Mapping):
        return ((str(key), part) for key, part in value.items())
    if isinstance(value, (list, tuple, set)):
        return ((str(at), part) for at, part in enumerate(value))
    return ()


def count_objects(value: Any) -> int:
    """Return the number of objects that copying ``value`` would make, where one may be referred to many times.

    Raises ContentsError above :data:`MOST_OBJECTS`, and for an object that holds itself.
    """
    counts: dict[int, int] = {}
    open_objects: set[int] = set()
    stack = [(value, False)]
    while stack:
        item, done = stack.pop()
        if done:
            open_objects.discard(id(item))
            counts[id(item)] = 1 + sum(counts.get(id(part), 1) for _, part in _parts(item))
            if counts[id(item)] > MOST_OBJECTS:
                raise ContentsError(f"copied, its options would be more than {MOST_OBJECTS:,} objects")
            continue
        if id(item) in open_objects:
            raise ContentsError("an object in it holds itself")
        if id(item) in counts or not isinstance(item, (Namespace, Mapping, list, tuple, set)):
            continue
        open_objects.add(id(item))
        stack.append((item, True))
        stack.extend((part, False) for _, part in _parts(item))
    return counts.get(id(value), 1)


def find_tensors(value: Any) -> Iterable[tuple[str, Tensor]]:
    """Yield the tensors in nested containers with their dotted names."""
    stack = [("", value)]
    while stack:
        name, item = stack.pop()
        if isinstance(item, Tensor):
            yield name, item
        stack.extend((f"{name}.{key}" if name else key, part) for key, part in _parts(item))


def check_options(state: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Raise ContentsError for options that omegaconf would interpolate, and for sizes that the weights do not have.

    Devices and pipes are refused as well: fairseq reads files that options name, such as those of ``…_embed_path``.
    """
    parameters = sum(tensor.numel() for tensor in weights.values())
    most = {"layers": len(weights), "positions": RANGES["positions"][1], "dim": parameters, "heads": parameters}
    stack = [(key, state[key]) for key in ("args", "cfg") if key in state]
    while stack:
        name, value = stack.pop()
        if isinstance(value, str) and "${" in value:
            raise ContentsError(f"its option {name} is {value[:80]!r}, and interpolations are not carried out")
        if isinstance(value, str) and value not in STREAMS and os.path.exists(value):
            if not os.path.isfile(value) and not os.path.isdir(value):
                raise ContentsError(f"its option {name} names {value[:80]!r}, which is neither a file nor a folder")
        kind = name.replace(".", "_").rpartition("_")[2]
        if isinstance(value, int) and value > most.get(kind, value):
            raise ContentsError(f"its option {name} is {value:,}, and its weights allow {most[kind]:,} at most")
        stack.extend((f"{name}.{key}", part) for key, part in _parts(value))


def pickled_names(path: str) -> list[str]:
    """Return the names of the classes and functions in a file of pickles, without running any of it."""
    names: list[str] = []
    strings: list[str] = []
    with open(path, "rb") as file:
        try:
            while file.peek(1):
                for operation, argument, _ in pickletools.genops(file):
                    if operation.name in ("GLOBAL", "INST"):
                        names.append(str(argument).replace(" ", "."))
                    elif operation.name == "STACK_GLOBAL":
                        names.append(".".join(strings[-2:]))
                    elif isinstance(argument, str):
                        strings.append(argument)
        except Exception:  # the end of the pickles, or no pickle
            pass
    return sorted(set(names))
