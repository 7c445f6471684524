"""Hostile checkpoints, one line each: what is done to a valid checkpoint, or written in its place."""

from __future__ import annotations

import functools
import io
import os
import pickle
import tarfile
import zipfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

CANARY = "canary"  # the file that code of a checkpoint would create in the folder of the command
State = dict[str, Any]
Write = Callable[[State, Path], None]


class Payload:
    """An object that creates the canary when it is unpickled without protection."""

    def __reduce__(self) -> Any:
        return os.system, (f"touch {CANARY}",)


class Evaluated:
    """As :class:`Payload`, by ``eval``."""

    def __reduce__(self) -> Any:
        return eval, (CODE,)


class Foreign:
    """A class that no checkpoint has, with a state to restore."""

    def __init__(self) -> None:
        self.value = 1


CODE = f"__import__('pathlib').Path('{CANARY}').touch()"


def put(state: State, place: str, value: Any) -> None:
    """Set the value at a dotted place, such as ``cfg.model.encoder_layers``; places on the way are made."""
    *way, last = place.split(".")
    at: Any = state
    for name in way:
        if isinstance(at, list):
            at = at[int(name)]
        elif isinstance(at, Namespace):
            at = vars(at)[name]
        else:
            at = at.setdefault(name, {})
    if isinstance(at, Namespace):
        setattr(at, last, value)
    elif isinstance(at, list):
        at[int(last)] = value
    else:
        at[last] = value


def at(place: str, value: Any) -> Write:
    """Return what writes the checkpoint with another value at ``place``."""

    def write(state: State, path: Path) -> None:
        put(state, place, value)
        torch.save(state, path)

    return write


def without(*places: str) -> Write:
    """Return what writes the checkpoint without the values at these places."""

    def write(state: State, path: Path) -> None:
        for place in places:
            first, _, last = place.partition(".")
            (state[first] if last else state).pop(last or first)
        torch.save(state, path)

    return write


def weight(change: Callable[[torch.Tensor], Any]) -> Write:
    """Return what writes the checkpoint with the first weight matrix changed."""

    def write(state: State, path: Path) -> None:
        name = next(name for name, value in state["model"].items() if value.dim() == 2)
        state["model"][name] = change(state["model"][name])
        torch.save(state, path)

    return write


def raw(content: Callable[[State], bytes]) -> Write:
    """Return what writes these bytes in place of the checkpoint."""

    def write(state: State, path: Path) -> None:
        path.write_bytes(content(state))

    return write


def saved(state: Any, **options: Any) -> bytes:
    """Return the bytes that torch.save writes."""
    file = io.BytesIO()
    torch.save(state, file, **options)
    return file.getvalue()


def repacked(change: Callable[[zipfile.ZipInfo, bytes], tuple[Any, bytes]]) -> Write:
    """Return what writes the checkpoint with each record of its zip file changed."""

    def write(state: State, path: Path) -> None:
        with zipfile.ZipFile(io.BytesIO(saved(state))) as old, zipfile.ZipFile(path, "w") as new:
            for record in old.infolist():
                new.writestr(*change(record, old.read(record)))

    return write


def encrypted(state: State) -> bytes:
    """Return the checkpoint whose zip file says that its records are encrypted."""
    data = bytearray(saved(state))
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = data.find(mark)
        while start >= 0:
            data[start + at] |= 1
            start = data.find(mark, start + 4)
    return bytes(data)


def legacy_tar(state: State) -> bytes:
    """Return a file of torch's oldest format, a tar archive of pickles."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name in ("sys_info", "pickle", "storages", "tensors"):
            content = pickle.dumps(Payload())
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


def script(state: State) -> bytes:
    """Return a model of TorchScript."""
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), file)
    return file.getvalue()


def bomb(depth: int = 40) -> list[Any]:
    """Return a list that holds 10**depth references."""
    nested: list[Any] = ["x"]
    for _ in range(depth):
        nested = [nested] * 10
    return nested


def circle() -> list[Any]:
    """Return a list that holds itself."""
    found: list[Any] = []
    found.append(found)
    return found


def overwritten(state: State) -> bytes:
    """Return the checkpoint with 64 bytes overwritten in the midst."""
    data = saved(state)
    start = int(len(data) * 0.4)
    return data[:start] + bytes(byte ^ 0xA5 for byte in data[start : start + 64]) + data[start + 64 :]


def cut(share: float) -> Write:
    """Return what writes the first part of the checkpoint."""
    return raw(lambda state: saved(state)[: int(len(saved(state)) * share)])


def cfg_as_args(state: State) -> State:
    """Return the checkpoint in fairseq's older form, with all options in one Namespace."""
    options: dict[str, Any] = {}
    for part in state["cfg"].values():
        values = vars(part) if isinstance(part, Namespace) else part if isinstance(part, dict) else {}
        options.update({name: value for name, value in values.items() if not name.startswith("_")})
    return {**state, "args": Namespace(**options), "cfg": None}


def _deflated(name: str) -> zipfile.ZipInfo:
    record = zipfile.ZipInfo(name)
    record.compress_type = zipfile.ZIP_DEFLATED
    return record


def _nested(state: State, path: Path) -> None:
    """Write a checkpoint whose options hold a list of 100,000 levels, as bytes of a pickle."""
    levels = 100_000
    data = b"\x80\x02}X\x05\x00\x00\x00modelq\x00" + b"]" * levels + b"a" * (levels - 1) + b"s."
    with zipfile.ZipFile(io.BytesIO(saved(state))) as old, zipfile.ZipFile(path, "w") as new:
        for record in old.infolist():
            new.writestr(record.filename, data if record.filename.endswith("data.pkl") else old.read(record))


#: Files that every command refuses.
REFUSED: dict[str, Write] = {
    # Code.
    "pickle of protocol 0": raw(lambda state: pickle.dumps({"model": Evaluated()}, protocol=0)),
    "os.system in model": at("model.weight", Payload()),
    "os.system as a key": lambda state, path: torch.save({**state, "x": {(1, Payload()): 1}}, path),
    "a class in cfg": at("cfg.foreign", Foreign()),
    "functools.partial in cfg": at("cfg.model.activation_fn", functools.partial(print, "x")),
    "legacy format with os.system": raw(
        lambda state: saved({**state, "x": Payload()}, _use_new_zipfile_serialization=False)
    ),
    "legacy tar": raw(legacy_tar),
    "TorchScript": raw(script),
    # Damage.
    "empty file": raw(lambda state: b""),
    "text": raw(lambda state: b"not a checkpoint\n"),
    "a directory": lambda _, path: path.mkdir(),
    "a fifo": lambda _, path: os.mkfifo(path),
    "/dev/zero": lambda _, path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda _, path: path.symlink_to(path),
    **{f"cut at {share:.1%}": cut(share) for share in (0.001, 0.5, 0.999)},
    "overwritten": raw(overwritten),
    "deflated": repacked(lambda record, data: (_deflated(record.filename), data)),
    "encrypted": raw(encrypted),
    "a record twice": repacked(lambda record, data: (f"{record.filename.split('/')[0]}/data.pkl", data)),
    # Sizes.
    "strides of zero": weight(lambda value: torch.ones(1).expand(10**6, 10**6)),
    "a reference bomb in cfg": at("cfg.task.bomb", bomb()),
    "a circle": at("extra_state.circle", circle()),
    "a list of 100,000 levels": _nested,
    "10**9 layers": at("cfg.model.encoder_layers", 10**9),
    "10**12 positions": at("cfg.model.max_source_positions", 10**12),
    "width of 10**9": at("cfg.model.encoder_embed_dim", 10**9),
    # Contents.
    "NaN": weight(lambda value: value * float("nan")),
    "a weight of another shape": weight(lambda value: value[:-1].clone()),
    "a weight of text": weight(lambda value: "text"),
    "a sparse weight": weight(lambda value: value.to_sparse()),
    "a meta weight": weight(lambda value: value.to("meta")),
    "interpolation of a variable": at("cfg.model.data", "${oc.env:ATTACKED_SECRET}"),
    "no model": without("model"),
    "no options": without("cfg", "args"),
    "model a list": at("model", []),
    "cfg a number": at("cfg", 3),
    "a tensor": raw(lambda state: saved(torch.zeros(3))),
}

#: Files with mistakes in options that a command reads or does not: refused, or without effect.
BORDER: dict[str, Write] = {
    "an older form with os.system in a string": lambda state, path: torch.save(
        {**cfg_as_args(state), "extra_state": {"text": CODE}}, path
    ),
    "interpolation in a key": at("cfg.task", {"_name": "translation", "${oc.env:ATTACKED_SECRET}": 1}),
    "cfg.model a number": at("cfg.model", 3),
    "no cfg.task": without("cfg.task"),
    "no extra_state": without("extra_state"),
    "extra_state a list": at("extra_state", []),
    "an epoch of text": at("extra_state.train_iterator.epoch", "two"),
    "optimizer_history a number": at("optimizer_history", 3),
    "2**70 updates": at("optimizer_history.0.num_updates", 2**70),
    "last_optimizer_state a number": at("last_optimizer_state", 3),
    "an unknown architecture": at("cfg.model", Namespace(arch="no_such_arch", _name="no_such_arch")),
    "an unknown task": at("cfg.task", Namespace(_name="no_such_task", task="no_such_task")),
    "a criterion with code": at("cfg.criterion", {"_name": "ctc", "wer_args": CODE}),
    "an optimizer with code": at("cfg.optimizer", {"_name": "adam", "adam_betas": CODE}),
    "a user_dir": at("cfg.common.user_dir", "stranger"),
    "embeddings from a fifo": at("cfg.model.decoder_embed_path", "fifo"),
    "a path of NUL": at("cfg.task.data", "a\0b"),
    "layers of text": at("cfg.model.encoder_layers", "many"),
    "-1 layers": at("cfg.model.encoder_layers", -1),
    "dropout of NaN": at("cfg.model.dropout", float("nan")),
    "an unknown activation": at("cfg.model.activation_fn", "os.system"),
    "placement in a billion layers": at("cfg.model.csan_encoder_layers", "1-1000000000"),
    "a lone surrogate": at("cfg.task.target_lang", "y\udcffy"),
    "an option of 10 MB": at("cfg.task.long", "x" * 10_000_000),
    "a weight too many": at("model.stranger", torch.zeros(3)),
    "a key of a number": raw(lambda state: saved(dict([*state.items(), (3, 4)]))),
    "bpe of /dev/zero": at("cfg.bpe", {"_name": "subword_nmt", "bpe_codes": "/dev/zero"}),
}
