"""Checkpoints are replaced as a whole, and a full disk is an error of one line."""

from __future__ import annotations

import errno
from argparse import Namespace
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from fairseq_localattn.compat import saving
from fairseq_localattn.errors import UsageError
from support.attacks.faults import FailingDisk, left_over


def test_an_interrupted_copy_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "checkpoint1.pt", tmp_path / "checkpoint_last.pt"
    source.write_bytes(b"new" * 1000)
    target.write_bytes(b"old")
    disk = FailingDisk(tmp_path, monkeypatch)
    disk.begin(2)  # after the copy is opened
    with pytest.raises(OSError, match="No space left"):
        PathManager.copy(str(source), str(target), overwrite=True)
    assert target.read_bytes() == b"old" and not left_over(tmp_path)
    disk.begin()
    assert PathManager.copy(str(source), str(target), overwrite=True)
    assert target.read_bytes() == source.read_bytes() and not left_over(tmp_path)


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("PytorchStreamWriter failed writing file")]
)
def test_a_failure_to_save_names_the_newest_whole_checkpoint(error: Exception, tmp_path: Path) -> None:
    torch.save({"model": {}}, tmp_path / "checkpoint1.pt")
    (tmp_path / "checkpoint2.pt.tmp").write_bytes(b"part")
    with pytest.raises(UsageError, match=r"cannot save to .*checkpoint1.pt, from which --restore-file .*1.pt") as found:
        saving._explain_failure(Mock(side_effect=error), Namespace(save_dir=str(tmp_path)))
    assert "\n" not in str(found.value)
    assert not list(tmp_path.glob("*.tmp"))


def test_other_errors_of_saving_stay(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="CUDA"):
        saving._explain_failure(Mock(side_effect=RuntimeError("CUDA out of memory")), Namespace(save_dir=str(tmp_path)))


def test_fairseq_writes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FailingDisk(tmp_path, monkeypatch)
    disk.begin(2, lasting=True)
    with pytest.raises(OSError, match="No space"):
        checkpoint_utils.torch_persistent_save({}, str(tmp_path / "x.pt"))
    assert len(disk.writes) == 2
