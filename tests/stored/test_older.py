"""Checkpoints of older fairseq are read as data, and hold nothing that could run."""

from __future__ import annotations

import sys
import types
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils
from omegaconf import OmegaConf

from experiments.runs import averaging
from fairseq_localattn.errors import UsageError
from fairseq_localattn.stored import older
from fairseq_localattn.stored.reading import CheckpointError
from support.checkpoints import Payload, assert_same
from support.cli import call, fairseq, make_data, train_flags

ARCH = "transformer_mma_tiny"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    data = make_data(tmp_path_factory.mktemp("reverse"), train=40)
    folder = tmp_path_factory.mktemp("run")
    fairseq("train", *train_flags(data, ARCH, folder, 1))
    return data, folder / "checkpoint_last.pt"


class AverageMeter:
    """As fairseq up to 0.8 stored it: an object."""

    def __init__(self) -> None:
        self.sum, self.count = 2.5, 1


def with_meters(state: dict[str, Any], path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a checkpoint as of 0.8: flat options, and meters as objects, in torch's format of that time."""
    as_of_2018(state, path, monkeypatch)
    state = torch.load(path, weights_only=True)
    state["args"].device_id = 0
    state["extra_state"]["train_meters"] = {"loss": AverageMeter()}
    monkeypatch.setattr(AverageMeter, "__module__", "fairseq.meters")
    monkeypatch.setitem(sys.modules, "fairseq.meters", types.SimpleNamespace(AverageMeter=AverageMeter))
    torch.save(state, path, _use_new_zipfile_serialization=False)


def with_a_configuration(state: dict[str, Any], path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a checkpoint as of 1.0.0a0: its configuration is omegaconf's object."""
    torch.save({**state, "cfg": OmegaConf.create(state["cfg"], flags={"allow_objects": True})}, path)


def as_of_2018(state: dict[str, Any], path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a checkpoint with flat options, whose device is a list."""
    args = Namespace()
    for part in state["cfg"].values():
        values = vars(part) if isinstance(part, Namespace) else part
        vars(args).update({key: value for key, value in (values or {}).items() if not key.startswith("_")})
    vars(args).update(vars(state["cfg"]["model"]), device_id=[0], data=[args.data])
    for name, part in state["cfg"].items():
        if name in ("task", "criterion", "optimizer", "lr_scheduler"):
            setattr(args, name, part["_name"])
    torch.save({**state, "cfg": None, "args": args}, path)


@pytest.mark.parametrize("write", [with_meters, with_a_configuration, as_of_2018])
def test_what_an_older_fairseq_wrote(
    write: Any, trained: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It generates, goes on and is exported, and its weights are those that were stored."""
    data, checkpoint = trained
    state, old = torch.load(checkpoint, weights_only=True), tmp_path / "checkpoint_last.pt"
    with monkeypatch.context() as patch:
        write(state, old, patch)
    read = checkpoint_utils.load_checkpoint_to_cpu(str(old))
    assert_same(dict(read["model"]), dict(state["model"]))
    assert read["cfg"].model.arch == ARCH and not older._holds_objects(read["extra_state"])
    fairseq("generate", data, "--path", old, "--cpu", "-s", "xx", "-t", "yy", "--max-len-b", 8)
    exported = tmp_path / "exported.pt"
    call(averaging.main, old, "--output", exported)
    assert_same(torch.load(exported, weights_only=True)["model"], dict(state["model"]))
    refused = fairseq("train", *train_flags(data, ARCH, tmp_path, 2, mma_window=2), check=False)
    assert refused.returncode == 1 and f"{old} is of --arch {ARCH}" in refused.stderr
    fairseq("train", *train_flags(data, ARCH, tmp_path, 2))


def nested(depth: int) -> Any:
    """Return a configuration of omegaconf in itself, this many times."""
    found = OmegaConf.create({"a": 1})
    for _ in range(depth):
        found = OmegaConf.create({"a": found})
    return found


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cfg": OmegaConf.create({"a": Payload()}, flags={"allow_objects": True})}, "refused to load .*system"),
        ({"last_optimizer_state": OmegaConf.create({"a": 1})}, "refused to load .*omegaconf.dictconfig.DictConfig"),
        ({"cfg": nested(older.MOST_NESTED + 1)}, "refused to load .*omegaconf.dictconfig.DictConfig"),
        ({"cfg": OmegaConf.create([1])}, "its cfg is a list, as in no checkpoint of fairseq's"),
    ],
)
def test_other_objects_are_refused(
    change: dict[str, Any], said: str, trained: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "x.pt"
    torch.save({**torch.load(trained[1], weights_only=True), **change}, path)
    with pytest.raises(CheckpointError, match=said):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    ("option", "name", "said"),
    [
        ("arch", "transformer_mna_tiny", r"architecture here \(did you mean transformer_mma_tiny\?\); give the --user"),
        ("task", "of_my_own", "the task of_my_own, and there is no such task here; give the --user-dir"),
    ],
)
def test_what_is_not_registered_is_no_damage(
    option: str, name: str, said: str, trained: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown name is said; nothing is advised that would overwrite the file."""
    path = tmp_path / "x.pt"
    as_of_2018(torch.load(trained[1], weights_only=True), path, monkeypatch)
    state = torch.load(path, weights_only=True)
    setattr(state["args"], option, name)
    torch.save(state, path)
    torch.save(state, tmp_path / "checkpoint1.pt")
    with pytest.raises(UsageError, match=said) as found:
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    assert "copy" not in str(found.value) and "damaged" not in str(found.value)
