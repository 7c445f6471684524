"""Safe reading of checkpoints: no code in a file is run, and a file that contains more than data is refused.

Two ways to run code are closed. ``torch.load`` unpickles only the classes listed here (``weights_only=True``, its
default since torch 2.6). fairseq calls ``eval`` on options of a checkpoint (``adaptive_softmax_cutoff``, the layers of
wav2vec, ``wer_args`` of a criterion): all modules of fairseq get an ``eval`` that accepts literals only.
"""

from __future__ import annotations

import ast
import collections
import logging
import operator
import os
import sys
import tempfile
import typing
from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.distributed import utils as distributed_utils
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.optim import OPTIMIZER_REGISTRY
from fairseq.optim.lr_scheduler import LR_SCHEDULER_REGISTRY
from fairseq.tasks import TASK_REGISTRY
from omegaconf.base import ContainerMetadata, Metadata
from omegaconf.dictconfig import DictConfig
from omegaconf.listconfig import ListConfig
from omegaconf.nodes import AnyNode

from ..errors import UsageError, nearest
from ..stored import contents, older
from ..stored.reading import FILE_CLASSES, CheckpointError, explain
from .around import around

logger = logging.getLogger(__name__)

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

OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


REGISTRIES: tuple[tuple[str, str, tuple[Mapping[str, Any], ...]], ...] = (
    ("arch", "architecture", (ARCH_MODEL_REGISTRY, MODEL_REGISTRY)),
    ("task", "task", (TASK_REGISTRY,)),
    ("criterion", "criterion", (CRITERION_REGISTRY,)),
    ("optimizer", "optimizer", (OPTIMIZER_REGISTRY,)),
    ("lr_scheduler", "lr-scheduler", (LR_SCHEDULER_REGISTRY,)),
)


def check_names(path: str, state: Mapping[str, Any]) -> None:
    """Raise UsageError where the options of a checkpoint name an architecture, task or other part that is not there.

    fairseq looks them up to convert the options of versions before 0.10, and ends in a KeyError.
    """
    args = state.get("args")
    for option, what, registries in REGISTRIES if isinstance(args, Namespace) else ():
        name = getattr(args, option, None)
        known = {each for registry in registries for each in registry}
        if isinstance(name, str) and name not in known:
            near = f" (did you mean {meant}?)" if (meant := nearest(name, known)) else ""
            raise UsageError(
                f"fairseq_localattn: cannot load {path}: it was trained with the {what} {name}, and there is no such "
                f"{what} here{near}; give the --user-dir that it comes from"
            )


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


def _guarded(load: Callable[..., Any], path: str, *args: Any, **kwargs: Any) -> Any:
    """Wrap ``load(path, ...)`` of fairseq so that it raises CheckpointError for an unusable file."""
    forbid_unsafe_loading()
    parts: list[str] = []
    try:
        state = contents.read(path) if os.path.isfile(path) else {}
        parts = list(state)
        check_names(path, state)
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
        raise explain(path, error, parts) from error


def _allowing_broadcast(broadcast: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Wrap fairseq's broadcast so that BROADCAST_CLASSES are allowed while it runs."""
    with torch.serialization.safe_globals(BROADCAST_CLASSES):
        return broadcast(*args, **kwargs)


def protect() -> None:
    """Install the protection in torch and fairseq; to be called once."""
    forbid_unsafe_loading()
    torch.serialization.add_safe_globals(FILE_CLASSES)
    around(checkpoint_utils, "load_checkpoint_to_cpu")(_guarded)
    around(checkpoint_utils, "load_ema_from_checkpoint")(_guarded)
    around(distributed_utils, "_broadcast_object_slow")(_allowing_broadcast)
    forbid_code_in_options()
