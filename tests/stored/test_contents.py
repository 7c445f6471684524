"""What is refused in a checkpoint before fairseq reads it."""

from __future__ import annotations

import io
import os
import pickle
import tarfile
import zipfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from omegaconf import OmegaConf

import fairseq_localattn  # noqa: F401  (repairs fairseq)
from fairseq_localattn.errors import UsageError
from fairseq_localattn.stored.contents import read
from fairseq_localattn.stored.reading import CheckpointError
from support.checkpoints import Payload


def state(options: dict[str, Any] | None = None, **weights: Any) -> dict[str, Any]:
    """Return a state in the form of fairseq's checkpoints, with further options and weights."""
    standard = dict(encoder_layers=2, decoder_embed_dim=8, max_source_positions=1024, dropout=0.1)
    two = {f"encoder.layers.{n}.weight": torch.ones(8, 8) for n in range(2)}
    cfg = {"model": Namespace(**{**standard, **(options or {})})}
    return {"args": None, "cfg": cfg, "model": {**two, **weights}, "extra_state": {}, "optimizer_history": [{}]}


def saved(value: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, **options)
    return file.getvalue()


def compressed(data: bytes) -> bytes:
    """Return a zip file with its records compressed: a small file could become gigabytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for record in source.infolist():
            target.writestr(record.filename, source.read(record))
    return packed.getvalue()


def encrypted(data: bytes) -> bytes:
    """Return a zip file whose entries say that they are encrypted."""
    parts = data.split(b"PK\x01\x02")
    return b"PK\x01\x02".join([parts[0], *(part[:4] + b"\x01" + part[5:] for part in parts[1:])])


def with_a_wrong_byte(data: bytes) -> bytes:
    at = data.index(torch.ones(8, 8).numpy().tobytes()) + 17
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def legacy_tar() -> bytes:
    """Return a file of torch's oldest format, a tar archive of pickles."""
    file, content = io.BytesIO(), pickle.dumps(Payload())
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name in ("sys_info", "pickle", "storages", "tensors"):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


def multiplied(depth: int = 40) -> list[Any]:
    """Return a list that holds 10**depth references."""
    nested: list[Any] = ["x"]
    for _ in range(depth):
        nested = [nested] * 10
    return nested


def circle() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


WHOLE = saved(state())
# What is wrong → the file or its state, and what the error says.
REFUSED: dict[str, tuple[Any, str]] = {
    # Damage
    "the last byte is missing": (WHOLE[:-1], "damaged, cut short or no checkpoint"),
    "a wrong byte": (with_a_wrong_byte(WHOLE), "/0 does not have the checksum"),
    "compressed": (compressed(WHOLE), "is compressed"),
    "encrypted": (encrypted(WHOLE), "is encrypted"),
    # Other contents
    "a tensor": (torch.zeros(3), "no checkpoint of fairseq's"),
    "weights alone": ({"weight": torch.zeros(2)}, "no checkpoint of fairseq's"),
    "no model": ({**state(), "model": []}, "it has no model of fairseq's"),
    "a number as a weight": (state(version=3), "it has no model of fairseq's"),
    "no options": ({**state(), "cfg": None}, "it has no options"),
    "no extra_state": ({name: state()[name] for name in ("cfg", "model")}, "it has no optimizer_history and no"),
    "options of another kind": ({**state(), "cfg": 3}, "its cfg is a int"),
    "an epoch of text": ({**state(), "extra_state": {"train_iterator": {"epoch": "two"}}}, "epoch is a str"),
    "2**70 updates": ({**state(), "optimizer_history": [{"num_updates": 2**70}]}, "num_updates is 1180591"),
    # Weights
    "NaN": (state(bad=torch.tensor([1.0, float("nan")])), "1 of 3 weights hold NaN or infinity, model.bad first"),
    "no strides": (state(wide=torch.ones(1).expand(10**6, 10**6)), "model.wide claims 1,000,000,000,000 numbers"),
    "sparse": (state(few=torch.ones(2, 2).to_sparse()), "the tensor model.few is sparse"),
    # Options
    "references that multiply": (state({"task": multiplied()}), "more than 5,000,000 objects"),
    "a circle": (state({"task": circle()}), "holds itself"),
    "many layers": (state({"encoder_layers": 10**9}), "encoder_layers is 1,000,000,000, and its weights allow 2 at"),
    "many layers, nested": (state({"encoder": {"layers": 10**9}}), "encoder.layers is 1,000,000,000, and its weights"),
    "wide": (state({"decoder_embed_dim": 10**6}), "decoder_embed_dim is 1,000,000, and its weights allow 128"),
    "many positions": (state({"max_source_positions": 10**12}), "max_source_positions is 1,000,000,000,000, and its"),
    "interpolation": (state({"data": "${oc.env:HOME}"}), "cfg.model.data is '${oc.env:HOME}', and interpolations are"),
    "a device": (state({"decoder_embed_path": "/dev/zero"}), "'/dev/zero', which is neither a file nor a folder"),
    # Code
    "code": (state({"x": Payload()}), "refused to load"),
    "code as a key": ({**state(), "x": {(1, Payload()): 1}}, "refused to load"),
    "code in a plain pickle": (pickle.dumps({"model": Payload()}, protocol=0), "posix.system"),
    "code in a later pickle": (pickle.dumps(Payload(), protocol=4), "refused to load"),
    "code in the oldest format": (legacy_tar(), "it is in a format that fairseq-train does not write"),
    "an array of objects": (state({"x": np.array([None], dtype=object)}), "numpy.dtypes.ObjectDType"),
    "a configuration": (state({"x": OmegaConf.create({"a": 1})}), "omegaconf"),  # allowed in the broadcast only
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line that names the file; code is named and not run, also where torch's variable allows it."""
    given, said = REFUSED[name]
    formats: list[Callable[[], bytes]] = [lambda: given]
    if not isinstance(given, bytes):
        formats = [lambda: saved(given)]
        if name.startswith(("code", "a ")) and name != "a device":
            formats.append(lambda: saved(given, _use_new_zipfile_serialization=False))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    for content in formats:
        Path("x.pt").write_bytes(content())
        with pytest.raises(CheckpointError) as error:
            checkpoint_utils.load_checkpoint_to_cpu("x.pt")
        assert isinstance(error.value, UsageError) and "\n" not in (line := str(error.value))
        assert "x.pt" in line and said in line and "weights_only" not in line
        assert not Path("canary").exists()
    assert "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD" not in os.environ


def test_a_state_as_fairseq_writes_it_passes(tmp_path: Path) -> None:
    for options in ({}, {"_use_new_zipfile_serialization": False}):
        found = state(half=torch.ones(3).half(), count=torch.tensor(3))
        (tmp_path / "x.pt").write_bytes(saved(found, **options))
        assert read(str(tmp_path / "x.pt"))["model"].keys() == found["model"].keys()


def test_the_newest_whole_checkpoint_is_named(tmp_path: Path) -> None:
    for name, content in (
        ("checkpoint1", WHOLE),
        ("checkpoint2", b"cut"),
        ("checkpoint_last", WHOLE[:-50]),
        ("crash", WHOLE),
    ):
        (tmp_path / f"{name}.pt").write_bytes(content)
    with pytest.raises(CheckpointError, match="newest whole checkpoint beside it is .*checkpoint1.pt"):
        checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "checkpoint_last.pt"))
