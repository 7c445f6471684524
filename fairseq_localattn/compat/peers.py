"""Trainings of several processes: where one of them is lost, the others end with an error of one line."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fairseq.distributed import utils as distributed_utils
from torch.multiprocessing.spawn import ProcessExitedException

from ..errors import UsageError

# What gloo, NCCL and their store say of a process that is not there any more.
LOST = ("closed by peer", "reset by peer", "Broken pipe", "Connection refused", "remote process exited")


def _explain_loss(call_main: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap fairseq's ``call_main(cfg, main, …)``: raise UsageError where another process of the training is lost."""

    @functools.wraps(call_main)
    def explained(cfg: Any, main: Callable[..., Any], **kwargs: Any) -> Any:
        try:
            return call_main(cfg, main, **kwargs)
        except (RuntimeError, ProcessExitedException) as error:
            of_several = cfg.distributed_training.distributed_world_size > 1
            exited = isinstance(error, ProcessExitedException)
            if not of_several or not exited and not any(sign in str(error) for sign in LOST):
                raise
            rank = cfg.distributed_training.distributed_rank
            which = "a process of this training" if rank is None or exited else f"process {rank} stops: another one"
            raise UsageError(
                f"fairseq_localattn: {which} has died (its own log says why); start all of them again: the same "
                f"command continues from the last checkpoint in {cfg.checkpoint.save_dir}"
            ) from error

    return explained


def apply() -> None:
    """Install the explanation in fairseq; to be called once."""
    distributed_utils.call_main = _explain_loss(distributed_utils.call_main)
