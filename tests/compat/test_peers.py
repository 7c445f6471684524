"""A training of several processes in which one is lost: the others end with one line."""

from __future__ import annotations

import re
from argparse import Namespace
from typing import Any

import pytest
import torch
from torch.multiprocessing.spawn import ProcessExitedException

from fairseq_localattn.compat import peers
from fairseq_localattn.errors import UsageError

LOST = "[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4242"
NCCL = "NCCL error in: a.cpp:1\nncclRemoteError: a remote process exited or there was a network error\nLast error: none"


def exited(how: str, code: int, signal: str | None = None) -> ProcessExitedException:
    """Return the error that torch raises for a spawned process that ended without an exception."""
    told = f"process 1 terminated with {how}"
    return ProcessExitedException(told, error_index=1, error_pid=7, exit_code=code, signal_name=signal)


def end_with(error: Exception, rank: int | None, size: int = 4) -> None:
    """Raise an error in a training of ``size`` processes."""

    def call_main(cfg: Any, main: Any) -> None:
        raise error

    checkpoint = Namespace(save_dir="runs/a")
    training = Namespace(distributed_rank=rank, distributed_world_size=size)
    cfg = Namespace(distributed_training=training, checkpoint=checkpoint)
    peers._explain_loss(call_main, cfg, call_main)


@pytest.mark.parametrize(
    ("error", "rank", "said"),
    [
        (RuntimeError(LOST), 3, "process 3 stops: another one has died .*here: .*closed by peer .127.0.0.1.:4242"),
        (torch.distributed.DistBackendError(NCCL), 0, "process 0 stops: another one has died .*here: ncclRemote"),
        (
            exited("signal SIGKILL", -9, "SIGKILL"),
            None,
            "a process of this training has died .process 1 terminated with signal SIGKILL, as .* memory runs out",
        ),
        (exited("exit code 3", 3), None, "this training has died .process 1 terminated with exit code 3.;"),
    ],
)
def test_the_line(error: Exception, rank: int | None, said: str) -> None:
    with pytest.raises(
        peers.PeerLostError, match=f"^fairseq_localattn: .*{said}.*continues from .* in runs/a"
    ) as found:
        end_with(error, rank)
    assert "\n" not in str(found.value)


def test_a_long_cause_is_cut() -> None:
    with pytest.raises(UsageError) as found:
        end_with(RuntimeError(LOST + " x" * 1000), 3)
    assert len(str(found.value)) < 500 and " …); start all" in str(found.value)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("[c10d] connect to [localhost]:1 failed: Connection refused", 4),  # of a wrong address
        ("CUDA out of memory", 4),
        ("Broken pipe", 1),  # of a loader of data, in a training of one process
    ],
)
def test_other_errors_stay(text: str, size: int) -> None:
    with pytest.raises(RuntimeError, match=re.escape(text)):
        end_with(RuntimeError(text), 0, size)
