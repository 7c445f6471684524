"""Checkpoints are replaced as a whole, and a full disk is an error of one line."""

from __future__ import annotations

import errno
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from fairseq_localattn.compat import saving
from fairseq_localattn.errors import UsageError


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_an_interrupted_copy_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "checkpoint1.pt", tmp_path / "checkpoint_last.pt"
    source.write_bytes(b"new" * 1000)
    target.write_bytes(b"old")

    def cut(source: str, part: str, **_: Any) -> None:
        Path(part).write_bytes(b"new")
        full()

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfile", cut)
        with pytest.raises(OSError, match="No space left"):
            PathManager.copy(str(source), str(target), overwrite=True)
    assert target.read_bytes() == b"old" and not list(tmp_path.glob("*.tmp"))
    assert PathManager.copy(str(source), str(target), overwrite=True)
    assert target.read_bytes() == source.read_bytes() and not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("PytorchStreamWriter failed writing file")]
)
def test_a_failure_to_save_names_the_newest_whole_checkpoint(error: Exception, tmp_path: Path) -> None:
    torch.save({"model": {}}, tmp_path / "checkpoint1.pt")
    (tmp_path / "checkpoint2.pt.tmp").write_bytes(b"part")

    def save(cfg: Any) -> None:
        raise error

    with pytest.raises(UsageError, match=r"cannot save to .*checkpoint1.pt, from which --restore-file .*1.pt") as found:
        saving._explain_failure(save, Namespace(save_dir=str(tmp_path)))
    assert "\n" not in str(found.value)
    assert not list(tmp_path.glob("*.tmp"))


def test_other_errors_of_saving_stay(tmp_path: Path) -> None:
    def save(cfg: Any) -> None:
        raise RuntimeError("CUDA out of memory")

    with pytest.raises(RuntimeError, match="CUDA"):
        saving._explain_failure(save, Namespace(save_dir=str(tmp_path)))


def test_fairseq_writes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(torch, "save", lambda *_: calls.append(1) or full())  # type: ignore[func-returns-value]
    with pytest.raises(OSError, match="No space"):
        checkpoint_utils.torch_persistent_save({}, str(tmp_path / "x.pt"))
    assert calls == [1]
