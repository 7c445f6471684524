"""Saving of checkpoints: a checkpoint is replaced as a whole, and a failure is an error of one line."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from ..errors import UsageError
from .checkpoints import newest_whole


def _copy_whole(copy: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap fairseq's ``copy(source, target)`` so that the target is replaced when the copy is complete."""

    @functools.wraps(copy)
    def copy_whole(src_path: str, dst_path: str, overwrite: bool = False) -> Any:
        if PathManager.path_requires_pathmanager(dst_path):  # not a local file
            return copy(src_path, dst_path, overwrite=overwrite)
        part = f"{dst_path}.tmp"
        try:
            done = copy(src_path, part, overwrite=True)
            os.replace(part, dst_path)
        except BaseException:
            if os.path.exists(part):
                os.remove(part)
            raise
        return done

    return copy_whole


def _write_once(obj: Any, file: Any) -> None:
    """Write a checkpoint to an open file, or raise; fairseq would try twice more, behind what it wrote before."""
    torch.save(obj, file)


def _explain_failure(save: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap fairseq's ``save_checkpoint(cfg, …)``: where it cannot write, remove the part, and raise UsageError."""

    @functools.wraps(save)
    def explained(cfg: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return save(cfg, *args, **kwargs)
        except (OSError, RuntimeError) as error:
            system = isinstance(error, OSError)
            if not system and "PytorchStreamWriter" not in str(error) and "unexpected pos" not in str(error):
                raise
            folder = Path(cfg.save_dir)
            for part in folder.glob("*.pt.tmp"):
                part.unlink()
            reason = error.strerror if isinstance(error, OSError) else "the disk is full, or the file cannot be written"
            whole = newest_whole(folder)
            after = f"; the newest whole checkpoint is {whole}, from which the same command continues" if whole else ""
            raise UsageError(f"fairseq_localattn: cannot save to {cfg.save_dir}: {reason}{after}") from error

    return explained


def apply() -> None:
    """Install the safe ways to save in fairseq; to be called once."""
    PathManager.copy = staticmethod(_copy_whole(PathManager.copy))
    checkpoint_utils._torch_persistent_save = _write_once
    checkpoint_utils.save_checkpoint = _explain_failure(checkpoint_utils.save_checkpoint)
