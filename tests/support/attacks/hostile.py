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
    """Return what writes the checkpoint with another value at ``place``; a function is called with the former value."""

    def write(state: State, path: Path) -> None:
        put(state, place, value)
        torch.save(state, path)

    return write


def without(*places: str) -> Write:
    """Return what writes the checkpoint without the values at these places."""

    def write(state: State, path: Path) -> None:
        for place in places:
            *way, last = place.split(".")
            part: Any = state
            for name in way:
                part = vars(part)[name] if isinstance(part, Namespace) else part[name]
            (vars(part) if isinstance(part, Namespace) else part).pop(last)
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


def flags(state: State, bit: int = 0, method: int = 0) -> bytes:
    """Return the checkpoint whose zip file says that its records are encrypted, or compressed by another method."""
    data = bytearray(saved(state))
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = data.find(mark)
        while start >= 0:
            data[start + at] |= bit
            data[start + at + 2] = method
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


def deep(levels: int) -> list[Any]:
    """Return a list in a list in a list."""
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


def special(make: Callable[[Path], object]) -> Write:
    """Return what makes something that is no regular file."""

    def write(state: State, path: Path) -> None:
        make(path)

    return write


def overwritten(share: float) -> Write:
    """Return what writes the checkpoint with 64 bytes overwritten at a share of its length."""

    def change(state: State) -> bytes:
        data = saved(state)
        start = int(len(data) * share)
        return data[:start] + bytes(byte ^ 0xA5 for byte in data[start : start + 64]) + data[start + 64 :]

    return raw(change)


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
    "pickle of os.system": raw(lambda state: pickle.dumps(Payload())),
    "pickle of a class": raw(lambda state: pickle.dumps(Foreign())),
    "pickle of protocol 0": raw(lambda state: pickle.dumps({"model": Evaluated()}, protocol=0)),
    "os.system alone": raw(lambda state: saved(Payload())),
    "os.system in model": at("model.weight", Payload()),
    "os.system in args": at("args", Payload()),
    "os.system in cfg": at("cfg.model.arch", Payload()),
    "os.system in extra_state": at("extra_state.payload", Payload()),
    "os.system in last_optimizer_state": at("last_optimizer_state.payload", Payload()),
    "os.system in optimizer_history": at("optimizer_history.0.payload", Payload()),
    "os.system as a key": lambda state, path: torch.save({**state, "x": {(1, Payload()): 1}}, path),
    "eval in task_state": at("task_state", {"dictionary": Evaluated()}),
    "a class in cfg": at("cfg.foreign", Foreign()),
    "functools.partial in cfg": at("cfg.model.activation_fn", functools.partial(print, "x")),
    "a path object in cfg": at("cfg.model.data", Path("x")),
    "legacy format with os.system": raw(
        lambda state: saved({**state, "x": Payload()}, _use_new_zipfile_serialization=False)
    ),
    "legacy tar": raw(legacy_tar),
    "TorchScript": raw(script),
    # Damage.
    "empty file": raw(lambda state: b""),
    "text": raw(lambda state: b"not a checkpoint\n"),
    "all bytes": raw(lambda state: bytes(range(256)) * 64),
    "a directory": special(Path.mkdir),
    "a fifo": special(os.mkfifo),
    "/dev/zero": special(lambda path: path.symlink_to("/dev/zero")),
    "a link to itself": special(lambda path: path.symlink_to(path)),
    **{f"cut at {share:.1%}": cut(share) for share in (0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999)},
    **{f"overwritten at {share:.0%}": overwritten(share) for share in (0.02, 0.2, 0.4, 0.6, 0.8)},
    "deflated": repacked(
        lambda record, data: (
            (zipfile.ZipInfo(record.filename), data)
            if record.filename.endswith("version")
            else (_deflated(record.filename), data)
        )
    ),
    "encrypted": raw(lambda state: flags(state, bit=1)),
    "unknown compression": raw(lambda state: flags(state, method=99)),
    "a record twice": repacked(lambda record, data: (f"{record.filename.split('/')[0]}/data.pkl", data)),
    # Sizes.
    "strides of zero": weight(lambda value: torch.ones(1).expand(10**6, 10**6)),
    "a reference bomb in cfg": at("cfg.task.bomb", bomb()),
    "a reference bomb in extra_state": at("extra_state.bomb", bomb()),
    "a circle": at("extra_state.circle", circle()),
    "a list of 100,000 levels": _nested,
    "10**9 layers": at("cfg.model.encoder_layers", 10**9),
    "2**70 layers": at("cfg.model.encoder_layers", 2**70),
    "10**12 positions": at("cfg.model.max_source_positions", 10**12),
    "10**12 target positions": at("cfg.model.max_target_positions", 10**12),
    "width of 10**9": at("cfg.model.encoder_embed_dim", 10**9),
    "inner width of 10**12": at("cfg.model.decoder_ffn_embed_dim", 10**12),
    "10**9 heads": at("cfg.model.encoder_attention_heads", 10**9),
    # Contents.
    "NaN": weight(lambda value: value * float("nan")),
    "an infinite weight": weight(lambda value: torch.full_like(value, float("inf"))),
    "a weight of another shape": weight(lambda value: value[:-1].clone()),
    "a weight of text": weight(lambda value: "text"),
    "a sparse weight": weight(lambda value: value.to_sparse()),
    "a quantized weight": weight(lambda value: torch.quantize_per_tensor(value.float(), 0.1, 0, torch.qint8)),
    "a meta weight": weight(lambda value: value.to("meta")),
    "a complex weight": weight(lambda value: value.to(torch.complex64)),
    "interpolation of a variable": at("cfg.model.data", "${oc.env:ATTACKED_SECRET}"),
    "interpolation in task": at("cfg.task.data", "${oc.env:ATTACKED_SECRET}"),
    "interpolation by eval": at("cfg.task.source_lang", "${eval:'1+1'}"),
    "no model": without("model"),
    "no options": without("cfg", "args"),
    "model a list": at("model", []),
    "model empty": at("model", {}),
    "args a number": at("args", 3),
    "cfg a number": at("cfg", 3),
    "cfg a list": at("cfg", [1, 2]),
    "a tensor": raw(lambda state: saved(torch.zeros(3))),
    "a number": raw(lambda state: saved(3)),
}

#: Files with mistakes in options that a command reads or does not: refused, or without effect.
BORDER: dict[str, Write] = {
    "an older form with os.system in a string": lambda state, path: torch.save(
        {**cfg_as_args(state), "extra_state": {"text": CODE}}, path
    ),
    "interpolation in a key": at("cfg.task", {"_name": "translation", "${oc.env:ATTACKED_SECRET}": 1}),
    "cfg.model a number": at("cfg.model", 3),
    "cfg.model empty": at("cfg.model", {}),
    "cfg.task a list": at("cfg.task", []),
    "no cfg.task": without("cfg.task"),
    "no cfg.model": without("cfg.model"),
    "no cfg.criterion": without("cfg.criterion"),
    "no extra_state": without("extra_state"),
    "no optimizer_history": without("optimizer_history"),
    "no last_optimizer_state": without("last_optimizer_state"),
    "extra_state a list": at("extra_state", []),
    "extra_state empty": at("extra_state", {}),
    "train_iterator a number": at("extra_state.train_iterator", 3),
    "an epoch of 10**18": at("extra_state.train_iterator.epoch", 10**18),
    "an epoch of text": at("extra_state.train_iterator.epoch", "two"),
    "metrics a number": at("extra_state.metrics", 3),
    "a best score of text": at("extra_state.best", "high"),
    "optimizer_history empty": at("optimizer_history", []),
    "optimizer_history a number": at("optimizer_history", 3),
    "2**70 updates": at("optimizer_history.0.num_updates", 2**70),
    "updates of text": at("optimizer_history.0.num_updates", "many"),
    "last_optimizer_state a number": at("last_optimizer_state", 3),
    "last_optimizer_state without groups": at("last_optimizer_state", {"state": {}, "param_groups": []}),
    "task_state a number": at("task_state", 3),
    "an unknown architecture": at("cfg.model", Namespace(arch="no_such_arch", _name="no_such_arch")),
    "an unknown task": at("cfg.task", Namespace(_name="no_such_task", task="no_such_task")),
    "an unknown criterion": at("cfg.criterion", {"_name": "no_such_criterion"}),
    "a criterion with code": at("cfg.criterion", {"_name": "ctc", "wer_args": CODE}),
    "an optimizer with code": at("cfg.optimizer", {"_name": "adam", "adam_betas": CODE}),
    "a model with code": at("cfg.model.adaptive_softmax_cutoff", CODE),
    "a user_dir": at("cfg.common.user_dir", "stranger"),
    "a user_dir of the task": at("cfg.task.user_dir", "stranger"),
    "embeddings from /dev/zero": at("cfg.model.encoder_embed_path", "/dev/zero"),
    "embeddings from a device": at("cfg.model.encoder_embed_path", "/dev/random"),
    "embeddings from a file of the user": at("cfg.model.encoder_embed_path", "/etc/passwd"),
    "embeddings from a fifo": at("cfg.model.decoder_embed_path", "fifo"),
    "data from elsewhere": at("cfg.task.data", "/proc/self"),
    "a path of NUL": at("cfg.task.data", "a\0b"),
    "languages of a path": at("cfg.task.source_lang", "../../../etc/passwd"),
    "layers of text": at("cfg.model.encoder_layers", "many"),
    "layers of none": at("cfg.model.encoder_layers", None),
    "no layers": at("cfg.model.encoder_layers", 0),
    "-1 layers": at("cfg.model.encoder_layers", -1),
    "width of 0": at("cfg.model.encoder_embed_dim", 0),
    "0 heads": at("cfg.model.decoder_attention_heads", 0),
    "dropout of NaN": at("cfg.model.dropout", float("nan")),
    "an infinite dropout": at("cfg.model.dropout", float("inf")),
    "an unknown activation": at("cfg.model.activation_fn", "os.system"),
    "placement in a billion layers": at("cfg.model.mma_encoder_layers", "1-1000000000"),
    "a window of 2**70": at("cfg.model.mma_window", 2**70),
    "heads of a list": at("cfg.model.mma_heads", ["global"]),
    "names that are no ASCII": at("cfg.task.ünïcode", "ein Wörtchen \u202e \ud83d\ude00"),
    "a lone surrogate": at("cfg.task.target_lang", "y\udcffy"),
    "an option of 10 MB": at("cfg.task.long", "x" * 10_000_000),
    "a weight too many": at("model.stranger", torch.zeros(3)),
    "a key of a number": raw(lambda state: saved(dict([*state.items(), (3, 4)]))),
    "a list of 100 levels": at("cfg.task.deep", deep(100)),
    "numbers as text": at("cfg.task.left_pad_source", "yes"),
    "tokenizer with code": at("cfg.tokenizer", {"_name": "moses", "source_lang": CODE}),
    "bpe of /dev/zero": at("cfg.bpe", {"_name": "subword_nmt", "bpe_codes": "/dev/zero"}),
    "bpe of an unknown kind": at("cfg.bpe", {"_name": "no_such_bpe"}),
}
