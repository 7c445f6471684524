"""Saving of checkpoints: a checkpoint is replaced as a whole, and a failure is an error of one line.

The folder is tested before the training begins.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from ..errors import UsageError
from ..files import OutputError, check_folder, reason_of, replaced
from ..stored.reading import newest_whole
from .around import around, wrapped
from .training.locks import remove_halves
from .training.stopping import same_command


def _copy_whole(copy: Callable[..., Any], src_path: str, dst_path: str, overwrite: bool = False) -> Any:
    """Wrap fairseq's ``copy(source, target)`` so that the target is replaced when the copy is complete."""
    if PathManager.path_requires_pathmanager(dst_path):  # not a local file
        return copy(src_path, dst_path, overwrite=overwrite)
    with replaced(Path(dst_path)) as part:
        return copy(src_path, str(part), overwrite=True)


def _explain_failure(save: Callable[..., Any], cfg: Any, *args: Any, **kwargs: Any) -> Any:
    """Wrap fairseq's ``save_checkpoint(cfg, …)``: where it cannot write, remove the part, and raise UsageError."""
    try:
        return save(cfg, *args, **kwargs)
    except (OSError, RuntimeError) as error:
        reason = reason_of(error)
        if reason is None:
            raise
        folder = Path(cfg.save_dir)
        remove_halves(folder)
        whole = newest_whole(folder)
        after = ""
        if whole is not None:
            how = same_command(cfg) if whole.name == "checkpoint_last.pt" else f"--restore-file {whole}"
            after = f"; the newest whole checkpoint is {whole}, from which {how} continues"
        raise UsageError(f"fairseq_localattn: cannot save to {cfg.save_dir}: {reason}{after}") from error


def _verify(verify: Callable[[str], None], save_dir: str) -> None:
    """Wrap fairseq's ``verify_checkpoint_directory``: raise UsageError for a folder that takes no files."""
    if PathManager.path_requires_pathmanager(save_dir):  # not a local folder
        return verify(save_dir)
    try:
        check_folder(Path(save_dir))
    except OutputError as error:
        raise UsageError(f"fairseq_localattn: --save-dir {error}") from error


def apply() -> None:
    """Install the safe ways to save in fairseq; to be called once."""
    PathManager.copy = staticmethod(wrapped(PathManager.copy, _copy_whole))
    # One attempt: fairseq would make two more, each appended to the half that the first one wrote.
    checkpoint_utils._torch_persistent_save = torch.save
    around(checkpoint_utils, "verify_checkpoint_directory")(_verify)
    around(checkpoint_utils, "save_checkpoint")(_explain_failure)
