"""Reading a checkpoint as data: the classes that may be in one, and an error of one line for a file of no use."""

from __future__ import annotations

import argparse
import os
import pickle
import re
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import UsageError
from . import contents

_reconstruct = np.zeros(0).__reduce__()[0]  # at numpy.core.multiarray in numpy 1, at numpy._core.multiarray in numpy 2

# Classes that fairseq-train writes to a file, beyond torch's own list (tensors, OrderedDict, numbers, strings).
FILE_CLASSES: list[Any] = [
    # cfg.model of a model configured by flags, such as the Transformer.
    argparse.Namespace,
    # The n-gram counts in the meters of --eval-bleu: arrays ...
    np.ndarray,
    (_reconstruct, "numpy.core.multiarray._reconstruct"),
    (_reconstruct, "numpy._core.multiarray._reconstruct"),
    np.dtype,
    # ... of integers, or of floats once they have been summed over processes.
    np.dtypes.Int64DType,
    np.dtypes.Float64DType,
]

# Parts of a checkpoint without which fairseq reads none, beside its model, which contents.py looks for.
NEEDED = ("optimizer_history", "extra_state")


class CheckpointError(UsageError):
    """A checkpoint that cannot or must not be loaded; the message is one line with file, reason and remedy."""


def read(path: str) -> dict[str, Any]:
    """Return the state in a checkpoint, without fairseq. Raises CheckpointError for a file that is none."""
    os.environ.pop("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", None)  # a checkpoint is data
    try:
        torch.serialization.add_safe_globals(FILE_CLASSES)  # safe_globals would take away what was allowed before
        return contents.read(path)
    except (OSError, MemoryError, UsageError):
        raise  # already clear, and not caused by the contents of the file
    except Exception as error:
        raise explain(path, error) from error


def foreign_classes(path: str, error: Exception) -> list[str]:
    """Return the names of the classes and functions in the checkpoint at ``path`` that are not allowed.

    ``error`` is the one that torch.load raised: it names only the first, but also in torch's older file format.
    """
    try:
        names = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    except Exception:  # not a zip file, or damaged
        names = []
    named = re.findall(r"(?:GLOBAL |got <class ')([\w.]+)", str(error))[:1]
    return sorted(names) or named or contents.pickled_names(path)


def explain(path: str, error: Exception, parts: Collection[str] = ()) -> CheckpointError:
    """Return the error in one line for a file that could not be loaded; ``parts`` are those that it has, if known."""
    foreign = foreign_classes(path, error) if isinstance(error, pickle.UnpicklingError) else []
    if foreign:
        return CheckpointError(
            f"fairseq_localattn: refused to load {path}: it holds {', '.join(foreign)}, which fairseq's checkpoints do "
            "not; nothing of it was run. Use a checkpoint that fairseq-train wrote"
        )
    detail = " ".join(str(error).split())[:160] or "no more is known"
    if "weights_only" in detail:  # torch's advice to run what is in the file
        detail = "it is in a format that fairseq-train does not write"
    missing = [part for part in NEEDED if parts and part not in parts]
    if missing:
        detail = f"it is no checkpoint of fairseq's: it has no {' and no '.join(missing)}"
    elif parts:  # its contents are all right
        detail = f"the file is whole, and fairseq cannot use its options ({type(error).__name__}: {detail})"
    elif not isinstance(error, contents.ContentsError):
        detail = f"the file is damaged, cut short or no checkpoint of fairseq's ({type(error).__name__}: {detail})"
    whole = newest_whole(Path(path).absolute().parent, but=Path(path).name)
    remedy = "Use another checkpoint of the same run, or train again"
    if whole is not None:
        remedy = f"The newest whole checkpoint beside it is {whole}, which can be given in its place"
    return CheckpointError(f"fairseq_localattn: cannot load {path}: {detail}. {remedy}")


def newest_whole(folder: Path, but: str = "") -> Path | None:
    """Return the newest checkpoint of a folder that is a whole zip file, except the one named ``but``, or None.

    fairseq's ``crash.pt`` is none: it lacks the place in the data.
    """
    found = (path for path in folder.glob("*.pt") if path.name not in (but, "crash.pt"))
    whole = [path for path in found if zipfile.is_zipfile(path)]
    return max(whole, key=lambda path: path.stat().st_mtime, default=None)
