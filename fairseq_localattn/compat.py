"""What fairseq needs to run on today's torch and numpy. ``apply()`` is called first thing when the plugin is imported,
which is before fairseq parses its arguments or reads a checkpoint, and also in the processes that it spawns.
"""

from __future__ import annotations

import functools
import sys
import types
from typing import Any

import numpy as np
import torch
from fairseq import options
from fairseq.data import data_utils

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

    @functools.wraps(cut)
    def batch_by_size(indices: Any, *args: Any, **kwargs: Any) -> list[Any]:
        batches = list(cut(indices, *args, **kwargs)) if len(indices) else []
        kept = sum(map(len, batches))  # batches are consecutive stretches of the indices: what is missing is the end
        return batches if kept == len(indices) else [*batches, indices[kept:]]

    data_utils.batch_by_size = batch_by_size
