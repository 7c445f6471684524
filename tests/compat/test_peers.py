"""A training of several processes in which one is lost: the others end with one line."""

from __future__ import annotations

import re
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.multiprocessing.spawn import ProcessExitedException

from fairseq_localattn.compat import loading, peers
from fairseq_localattn.errors import UsageError

LOST = "[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4242"
NCCL = "NCCL error in: a.cpp:1\nncclRemoteError: a remote process exited or there was a network error\nLast error: none"


def exited(how: str, code: int, signal: str | None = None) -> ProcessExitedException:
    """Return the error that torch raises for a spawned process that ended without an exception."""
    told = f"process 1 terminated with {how}"
    return ProcessExitedException(told, error_index=1, error_pid=7, exit_code=code, signal_name=signal)


def end_with(error: Exception, rank: int | None, size: int = 4, folder: object = "runs/a") -> None:
    """Raise an error in a training of ``size`` processes, which fine-tunes another model."""

    def call_main(cfg: Any, main: Any) -> None:
        raise error

    checkpoint = Namespace(save_dir=str(folder), restore_file="base.pt")
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
def test_the_line(error: Exception, rank: int | None, said: str, tmp_path: Path) -> None:
    """Before the first checkpoint the command is repeated as it is."""
    for how in ("the same command, which has no checkpoint yet in", "without --restore-file continues from .* in"):
        with pytest.raises(peers.PeerLostError, match=f"^fairseq_localattn: .*{said}.*{how} {tmp_path}$") as found:
            end_with(error, rank, folder=tmp_path)
        assert "\n" not in str(found.value)
        (tmp_path / "checkpoint_last.pt").touch()


def test_a_lost_process_does_not_blame_the_checkpoint() -> None:
    def read() -> None:
        raise RuntimeError(LOST)

    with pytest.raises(RuntimeError, match=f"^{re.escape(LOST)}$"):
        loading.explained(read, "cannot continue")()


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
