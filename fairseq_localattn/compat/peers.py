"""Trainings of several processes: where one of them is lost, the others end with an error of one line."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairseq.distributed import utils as distributed_utils
from torch.multiprocessing.spawn import ProcessExitedException

from ..errors import UsageError
from .around import around
from .training.stopping import same_command

# What gloo, NCCL and their store say of a process that is not there any more. "Connection refused" is not among them:
# it is what a wrong address says, before there is anything to continue from.
LOST = ("closed by peer", "reset by peer", "Broken pipe", "remote process exited")
LONGEST_CAUSE = 200  # characters


class PeerLostError(UsageError):
    """The end of a process because another one of its training has died."""


def lost_lines(error: Exception) -> list[str]:
    """Return the lines of an error that tell of a lost process."""
    return [line for line in str(error).splitlines() if any(sign in line for sign in LOST)]


def _cause(error: Exception) -> str:
    """Return in one line why a process is lost, as far as this one knows."""
    if not isinstance(error, ProcessExitedException):
        said = " ".join(lost_lines(error)[0].split())
        return f"its own log says why; here: {textwrap.shorten(said, LONGEST_CAUSE, placeholder=' …')}"
    said = " ".join(str(error).split())
    memory = ", as the system does where memory runs out" if error.signal_name == "SIGKILL" else ""
    return textwrap.shorten(said, LONGEST_CAUSE, placeholder=" …") + memory


def _explain_loss(call_main: Callable[..., Any], cfg: Any, main: Callable[..., Any], **kwargs: Any) -> Any:
    """Wrap fairseq's ``call_main(cfg, main, …)``: raise PeerLostError where another process of the training is lost."""
    try:
        return call_main(cfg, main, **kwargs)
    except (RuntimeError, ProcessExitedException) as error:
        of_several = cfg.distributed_training.distributed_world_size > 1
        exited = isinstance(error, ProcessExitedException)
        if not of_several or not exited and not lost_lines(error):
            raise
        rank = cfg.distributed_training.distributed_rank
        which = "a process of this training" if rank is None or exited else f"process {rank} stops: another one"
        folder, how = cfg.checkpoint.save_dir, "the same command, which has no checkpoint yet in"
        if any(Path(folder).glob("checkpoint_last*.pt")):
            how = f"{same_command(cfg.checkpoint)} continues from the last checkpoint in"
        raise PeerLostError(
            f"fairseq_localattn: {which} has died ({_cause(error)}); start all of them again: {how} {folder}"
        ) from error


def apply() -> None:
    """Install the explanation in fairseq; to be called once."""
    around(distributed_utils, "call_main")(_explain_loss)
