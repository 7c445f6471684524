"""What fairseq needs to run on today's torch and numpy, to keep every sentence, and to say in one line what is missing.
``apply()`` is called first thing when the plugin is imported, which is before fairseq parses its arguments or reads a
checkpoint, and also in the processes that it spawns.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from fairseq import checkpoint_utils, options, tasks
from fairseq.data import data_utils
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.tasks.language_modeling import LanguageModelingTask
from fairseq.tasks.translation import TranslationTask

from ..errors import UsageError
from . import checkpoints

_applied = False


def apply() -> None:
    """Apply everything in this module once; further calls do nothing. Raises ImportError if torch is older than 2.6."""
    global _applied
    if _applied:
        return
    _applied = True
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 6):
        raise ImportError(
            f"fairseq_localattn needs torch >= 2.6, not {torch.__version__}: earlier ones run code from checkpoints"
        )
    checkpoints.protect()
    provide_numpy_long()
    undo_tpu_of_bf16()
    keep_last_batch()
    keep_batches_on_resume()
    name_missing_files()


def provide_numpy_long() -> None:
    """numpy 2 dropped np.compat; fairseq uses np.compat.long for language-model blocks cut by sentence."""
    if not hasattr(np, "compat"):
        np.compat = types.SimpleNamespace(long=int)  # type: ignore[attr-defined]


def undo_tpu_of_bf16() -> None:
    """Let --bf16 train on CPU and GPU: fairseq's parse_args_and_arch sets tpu wherever bf16 is set, with no option
    against it, and training then looks for torch_xla. Only a --tpu that the user typed remains.
    """
    parse = options.parse_args_and_arch

    @functools.wraps(parse)
    def parse_args_and_arch(parser: Any, input_args: list[str] | None = None, *rest: Any, **kwargs: Any) -> Any:
        result = parse(parser, input_args, *rest, **kwargs)
        args = result[0] if isinstance(result, tuple) else result
        if getattr(args, "tpu", False):
            args.tpu = "--tpu" in (sys.argv[1:] if input_args is None else input_args)
        return result

    options.parse_args_and_arch = parse_args_and_arch


def keep_last_batch() -> None:
    """Keep every sentence: this fairseq drops the last batch when its size is no multiple of
    ``--required-batch-size-multiple`` (8), so that 4 of 500 test sentences would be neither translated nor scored, and
    a data set of fewer than 8 would be empty (fairseq issue #5036).
    """
    cut = data_utils.batch_by_size
    signature = inspect.signature(cut)

    @functools.wraps(cut)
    def batch_by_size(indices: Any, *args: Any, **kwargs: Any) -> Any:
        if signature.bind(indices, *args, **kwargs).arguments.get("fixed_shapes") is not None:
            return cut(indices, *args, **kwargs)  # another rule, which drops nothing; not surely in stretches
        batches = list(cut(indices, *args, **kwargs)) if len(indices) else []
        kept = sum(map(len, batches))  # batches are consecutive stretches of the indices: what is missing is the end
        return batches if kept == len(indices) else [*batches, indices[kept:]]

    data_utils.batch_by_size = batch_by_size


def keep_batches_on_resume() -> None:
    """Let a run that is resumed in a later epoch train on the batches of the run that it continues.

    fairseq makes the batches once, in the first epoch, with random ties from ``seed + epoch``. A resumed run makes its
    own in the epoch in which it begins, so other ones: it would see some sentences twice in that epoch and miss others.
    """
    make = FairseqTask.get_batch_iterator
    signature = inspect.signature(make)

    @functools.wraps(make)
    def get_batch_iterator(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = signature.bind(self, *args, **kwargs)
        call.apply_defaults()
        asked = call.arguments
        seed = asked["seed"]
        anew = asked["update_epoch_batch_itr"] or getattr(self.cfg, "rebuild_batches", False)
        once = self.can_reuse_epoch_itr(asked["dataset"]) and not anew
        if not once:  # batches made anew in each epoch depend on nothing that went before
            return make(*call.args, **call.kwargs)
        asked["seed"] = seed + 1 - asked["epoch"]  # so that seed + epoch is that of the first epoch
        iterator = make(*call.args, **call.kwargs)
        iterator.seed = seed  # which orders the batches of every epoch
        return iterator

    FairseqTask.get_batch_iterator = get_batch_iterator


DATA_HINT = "Give the folder that fairseq-preprocess wrote (its --destdir), and a split that is in it"
CHECKPOINT_HINT = "Give --path a checkpoint that fairseq-train wrote (in its --save-dir)"


def _telling(function: Callable[..., Any], hint: str) -> Callable[..., Any]:
    """``function``, raising UsageError in one line with ``hint`` where it cannot open a file."""

    @functools.wraps(function)
    def telling(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except OSError as error:
            what = f"{error.strerror}: {error.filename}" if error.filename else " ".join(str(error).split())
            raise UsageError(f"fairseq_localattn: {what}. {hint}") from error

    return telling


def name_missing_files() -> None:
    """One line instead of a traceback where a data folder, its dictionary or a split, or a checkpoint is missing."""
    infer = data_utils.infer_language_pair

    @functools.wraps(infer)
    def infer_language_pair(path: str) -> Any:
        pair = infer(path)
        if None in pair:
            raise FileNotFoundError(f"No data of a language pair in {path}")
        return pair

    data_utils.infer_language_pair = infer_language_pair
    tasks.setup_task = _telling(tasks.setup_task, DATA_HINT)
    for task in (TranslationTask, LanguageModelingTask):
        task.load_dataset = _telling(task.load_dataset, DATA_HINT)
    checkpoint_utils.load_model_ensemble_and_task = _telling(
        checkpoint_utils.load_model_ensemble_and_task, CHECKPOINT_HINT
    )
