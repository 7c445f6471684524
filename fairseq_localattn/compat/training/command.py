"""What surrounds a training of fairseq-train: its folder is held, and signals reach the processes that train."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from torch.multiprocessing.spawn import ProcessExitedException

from ..around import around
from . import locks, stopping


def _training(call: Callable[..., Any], cfg: Any, main: Callable[..., Any], **kwargs: Any) -> Any:
    """Wrap fairseq's ``call_main(cfg, main, …)``, which starts each of its commands; only trainings change."""
    if "validate_and_save" not in getattr(main, "__globals__", {}):
        return call(cfg, main, **kwargs)
    if cfg.distributed_training.distributed_init_method is None:
        distributed_utils.infer_init_method(cfg.distributed_training)
    with ExitStack() as stack:
        folder = cfg.checkpoint.save_dir
        first = cfg.distributed_training.distributed_rank == 0
        if first and not cfg.checkpoint.no_save and not PathManager.path_requires_pathmanager(folder):
            stack.enter_context(locks.held(Path(folder)))
        for number in stopping.SIGNALS:
            stack.callback(_restore, number, signal.getsignal(number))
        spawns = not cfg.distributed_training.distributed_no_spawn
        if cfg.distributed_training.distributed_init_method is not None and spawns:
            stopping.receive(_forward)
        try:
            return call(cfg, main, **kwargs)
        except ProcessExitedException as error:  # of a spawned process
            if error.exit_code - 128 in stopping.SIGNALS:
                raise SystemExit(error.exit_code) from None
            raise


def _restore(number: int, handler: Any) -> None:
    stopping.receive(handler, [number])


def _forward(number: int, frame: object) -> None:
    """Send a signal on to the processes that this one has spawned."""
    for child in multiprocessing.active_children():
        if child.pid is not None:
            os.kill(child.pid, number)


def apply() -> None:
    """Install it in fairseq; to be called once."""
    stopping.apply()
    around(distributed_utils, "call_main")(_training)
