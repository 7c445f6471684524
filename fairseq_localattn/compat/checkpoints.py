"""Safe reading of checkpoints: no code in a file is run, and a file that contains more than data is refused.

Two ways to run code are closed. ``torch.load`` unpickles only the classes listed here (``weights_only=True``, its
default since torch 2.6). fairseq calls ``eval`` on options of a checkpoint (``adaptive_softmax_cutoff``, the layers of
wav2vec, ``wer_args`` of a criterion): all modules of fairseq get an ``eval`` that accepts literals only.
"""

from __future__ import annotations

import argparse
import ast
import collections
import functools
import logging
import operator
import os
import pickle
import re
import sys
import tempfile
import typing
import zipfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.dictconfig import DictConfig
from omegaconf.listconfig import ListConfig
from omegaconf.nodes import AnyNode

from ..errors import UsageError
from . import contents, older

logger = logging.getLogger(__name__)

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

# Classes that rank 0 sends to the other processes when a training is resumed: cfg is an omegaconf object by then, and
# tensors are replaced by placeholders. They are allowed during the broadcast only, and refused in a file.
BROADCAST_CLASSES: list[Any] = [
    distributed_utils._TensorPlaceholder,
    DictConfig,
    ListConfig,
    AnyNode,
    # Metadata of omegaconf's nodes, and the types that their fields refer to.
    ContainerMetadata,
    Metadata,
    typing.Any,
    dict,
    list,
    int,
    collections.defaultdict,
]

# Parts of a checkpoint without which fairseq reads none, beside its model, which contents.py looks for.
NEEDED = ("optimizer_history", "extra_state")

OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class CheckpointError(UsageError):
    """A checkpoint that cannot or must not be loaded; the message is one line with file, reason and remedy."""


def literal_eval(expression: str) -> Any:
    """Return the value of a Python literal, or of literals joined by + - * / as in fconv's ``[(512, 3)] * 20``.

    Raises TypeError for a value that is not a string, as ``eval`` does, and CheckpointError for other expressions.
    """
    if not isinstance(expression, str):
        raise TypeError(f"eval() arg 1 must be a string, not {type(expression).__name__}")

    def value(node: ast.expr) -> Any:
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        return ast.literal_eval(node)

    try:
        return value(ast.parse(expression.strip(), mode="eval").body)
    except (ValueError, SyntaxError, TypeError, ArithmeticError, RecursionError, MemoryError) as error:
        raise CheckpointError(
            f"fairseq_localattn: refused to evaluate the option {expression[:200]!r}: it is not a number, a list or "
            "another literal. If it is from a checkpoint, fairseq-train did not write that file; else correct it"
        ) from error


def forbid_unsafe_loading() -> None:
    """Remove the environment variable that would turn off torch.load's safe default in all of fairseq."""
    if os.environ.pop("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", None) is not None:
        logger.warning("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD is ignored: checkpoints are data, and are read as data")


def forbid_code_in_options() -> None:
    """Replace ``eval`` by :func:`literal_eval` in all modules of fairseq.

    All modules that call ``eval`` (models, criterions, optimizers, data) are imported with fairseq, which the tests
    check, so none needs to be listed.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith("fairseq."):
            vars(module)["eval"] = literal_eval


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


def _explain(path: str, error: Exception, parts: Collection[str] = ()) -> CheckpointError:
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
    """Return the newest checkpoint of a folder that is a whole zip file, except the one named ``but``, or None."""
    whole = [path for path in folder.glob("*.pt") if path.name != but and zipfile.is_zipfile(path)]
    return max(whole, key=lambda path: path.stat().st_mtime, default=None)


def _guarded(load: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``load(path, ...)`` of fairseq so that it raises CheckpointError for an unusable file."""

    @functools.wraps(load)
    def guarded(path: str, *args: Any, **kwargs: Any) -> Any:
        forbid_unsafe_loading()
        parts: list[str] = []
        try:
            state = contents.read(path) if os.path.isfile(path) else {}
            parts = list(state)
            older.check_names(path, state)
            if not isinstance(state, older.Converted):
                return load(path, *args, **kwargs)
            logger.info(f"{path} is of an older fairseq; it is read as data, without its meters")
            with tempfile.TemporaryDirectory() as folder:
                todays = os.path.join(folder, os.path.basename(path))
                torch.save(dict(state), todays)
                return load(todays, *args, **kwargs)
        except (OSError, MemoryError, UsageError):
            raise  # already clear, and not caused by the contents of the file
        except Exception as error:
            raise _explain(path, error, parts) from error

    return guarded


def _allowing_broadcast(broadcast: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap fairseq's broadcast so that BROADCAST_CLASSES are allowed while it runs."""

    @functools.wraps(broadcast)
    def allowing(*args: Any, **kwargs: Any) -> Any:
        with torch.serialization.safe_globals(BROADCAST_CLASSES):
            return broadcast(*args, **kwargs)

    return allowing


def protect() -> None:
    """Install the protection in torch and fairseq; to be called once."""
    forbid_unsafe_loading()
    torch.serialization.add_safe_globals(FILE_CLASSES)
    checkpoint_utils.load_checkpoint_to_cpu = _guarded(checkpoint_utils.load_checkpoint_to_cpu)
    checkpoint_utils.load_ema_from_checkpoint = _guarded(checkpoint_utils.load_ema_from_checkpoint)
    distributed_utils._broadcast_object_slow = _allowing_broadcast(distributed_utils._broadcast_object_slow)
    forbid_code_in_options()
