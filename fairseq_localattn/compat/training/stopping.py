"""SIGTERM and SIGUSR1 end a training after its present update, which is saved: the same command continues from it.

Several processes agree: each adds the signals that it got to the sums that fairseq's processes exchange in every
update, so that all of them stop after the same one.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager

from ...errors import COMMAND_ERROR
from ..around import around

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
SAME = 1.0  # seconds within which a signal that comes again is the same request, by way of a launcher
# Names that the module of fairseq-train has: its own, that of `python -m`, and that in a process spawned by the latter.
MODULES = ("fairseq_cli.train", "__main__", "__mp_main__")
LAST = "checkpoint_last.pt"  # fairseq's default of --restore-file
RESETS = ("reset_optimizer", "reset_lr_scheduler", "reset_meters", "reset_dataloader")


class Stop:
    """The signals of one training."""

    def __init__(self) -> None:
        self.received: int | None = None
        self.saved_at = -1  # update
        self._at = 0.0
        self._counts: Sequence[Any] = ()  # processes that got each of SIGNALS, at the last exchange

    def receive(self, number: int, frame: object) -> None:
        """Note the first signal; end at once by a second one."""
        now = time.monotonic()
        if self.received is None:
            self.received, self._at = number, now
            # Loaders' processes that got the same signal die; torch would raise their death within the update.
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        elif now - self._at > SAME:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def exchanged(
        self, aggregate: Callable[..., Any], logging_outputs: Any, *stats: Any, ignore: bool = False
    ) -> tuple[Any, Any]:
        """Around the trainer's exchange ``aggregate(logging_outputs, *sums)``: sum the signals too."""
        own = [float(number == self.received) for number in SIGNALS]
        logging_outputs, sums = aggregate(logging_outputs, *stats, *own, ignore=ignore)
        self._counts = sums[len(stats) :]
        return logging_outputs, sums[: len(stats)]

    def asked(self, processes: int) -> int | None:
        """Return the signal by which the training ends now, the same in all processes; None if it goes on."""
        if processes == 1:
            return self.received
        return next((number for number, count in zip(SIGNALS, self._counts, strict=False) if count > 0), None)


_stops: WeakKeyDictionary[Any, Stop] = WeakKeyDictionary()  # trainer → its signals


def same_command(checkpoint: Any) -> str:
    """Return what continues from the last checkpoint: the same command, without flags by which it would begin anew."""
    names = [name for name in RESETS if getattr(checkpoint, name, False)]
    if getattr(checkpoint, "restore_file", LAST) != LAST:
        names = ["restore_file", *names]
    flags = ", ".join(f"--{name.replace('_', '-')}" for name in names)
    return f"the same command without {flags}" if flags else "the same command"


def _begin(load: Callable[..., Any], cfg: Any, trainer: Any, **kwargs: Any) -> Any:
    """Wrap fairseq's ``load_checkpoint(cfg, trainer)``, with which a training begins: signals are received from now."""
    begun = load(cfg, trainer, **kwargs)
    modules: list[Any] = [module for module in map(sys.modules.get, MODULES) if hasattr(module, "validate_and_save")]
    for module in modules:
        if not hasattr(module.validate_and_save, "stops"):
            module.validate_and_save = _stopping(module.validate_and_save)
    stop = Stop()
    if modules and receive(stop.receive):
        _stops[trainer] = stop
        around(trainer, "_aggregate_logging_outputs")(stop.exchanged)
    return begun


def receive(handler: Any, signals: Sequence[int] = SIGNALS) -> bool:
    """Let ``handler`` receive signals; return False where they cannot be received: not in the main thread."""
    try:
        for number in signals:
            signal.signal(number, handler)
    except ValueError:
        return False
    return True


def _noted(save: Callable[..., Any], cfg: Any, trainer: Any, *args: Any, **kwargs: Any) -> Any:
    """Wrap fairseq's ``save_checkpoint(cfg, trainer, …)`` so that it is known which update is saved."""
    saved = save(cfg, trainer, *args, **kwargs)
    if trainer in _stops:
        _stops[trainer].saved_at = trainer.get_num_updates()
    return saved


def _stopping(validate_and_save: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the function that fairseq-train calls after each update so that the training ends where it is asked to.

    What the update brings with it, such as a validation, is done first: the training that continues would not do it.
    """

    @functools.wraps(validate_and_save)
    def stopping(cfg: Any, trainer: Any, task: Any, epoch_itr: Any, *args: Any, **kwargs: Any) -> Any:
        done = validate_and_save(cfg, trainer, task, epoch_itr, *args, **kwargs)
        stop = _stops.get(trainer)
        number = stop.asked(trainer.data_parallel_world_size) if stop is not None else None
        if stop is None or number is None or done[1]:  # it goes on, or ends by itself
            return done
        updates, checkpoint = trainer.get_num_updates(), cfg.checkpoint
        if stop.saved_at != updates:
            checkpoint_utils.save_checkpoint(checkpoint, trainer, epoch_itr, None)
        if checkpoint.write_checkpoints_asynchronously:
            PathManager.async_close()
        receive(signal.SIG_IGN)  # those of a launcher that ends the others
        if torch.distributed.is_initialized():
            torch.distributed.barrier()  # the process that saves may be the last
            torch.distributed.destroy_process_group()
        if distributed_utils.is_master(cfg.distributed_training):
            last = Path(checkpoint.save_dir) / f"checkpoint_last{trainer.checkpoint_suffix}.pt"
            left = f"update {updates} is saved in {last}, and {same_command(checkpoint)} continues from it"
            if checkpoint.no_save or checkpoint.no_last_checkpoints:
                left = f"its update {updates} is not saved, as --no-save or --no-last-checkpoints asks"
            print(f"{COMMAND_ERROR}stopped by {signal.Signals(number).name}: {left}", file=sys.stderr, flush=True)
        raise SystemExit(128 + number)

    stopping.stops = True  # type: ignore[attr-defined]
    return stopping


def apply() -> None:
    """Install it in fairseq; to be called once."""
    around(checkpoint_utils, "load_checkpoint")(_begin)
    around(checkpoint_utils, "save_checkpoint")(_noted)
