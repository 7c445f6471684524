"""A training of several processes in which one is lost: the others end with one line."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import pytest
import torch
from torch.multiprocessing.spawn import ProcessExitedException

from fairseq_localattn.compat import peers
from fairseq_localattn.errors import UsageError

LOST = "[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4242"
NCCL = "NCCL error: remote process exited or there was a network error"
KILLED = ProcessExitedException("signal SIGKILL", error_index=1, error_pid=7, exit_code=-9, signal_name="SIGKILL")


def end_with(error: Exception, rank: int | None, size: int = 4) -> None:
    """Raise an error in a training of ``size`` processes."""

    def call_main(cfg: Any, main: Any) -> None:
        raise error

    checkpoint = Namespace(save_dir="runs/a")
    training = Namespace(distributed_rank=rank, distributed_world_size=size)
    cfg = Namespace(distributed_training=training, checkpoint=checkpoint)
    peers._explain_loss(call_main)(cfg, None)


@pytest.mark.parametrize(
    ("error", "rank", "said"),
    [
        (RuntimeError(LOST), 3, "process 3 stops: another one has died"),
        (torch.distributed.DistBackendError(NCCL), 0, "process 0 stops: another one has died"),
        (KILLED, None, "a process of this training has died"),
    ],
)
def test_the_line(error: Exception, rank: int | None, said: str) -> None:
    with pytest.raises(UsageError, match=f"^fairseq_localattn: {said}.*continues from .* in runs/a") as found:
        end_with(error, rank)
    assert "\n" not in str(found.value)


def test_other_errors_stay() -> None:
    with pytest.raises(RuntimeError, match="CUDA out of memory"):
        end_with(RuntimeError("CUDA out of memory"), 0)
    with pytest.raises(RuntimeError, match="Broken pipe"):  # of a loader of data, in a training of one process
        end_with(RuntimeError("Broken pipe"), 0, size=1)
