"""What the runners say of a child that has failed: one line, of the process that failed first."""

from __future__ import annotations

import sys
import textwrap
import time
from pathlib import Path

import pytest

from experiments.system.processes import Job, JobFailed, stop_all

PEERS = "fairseq_localattn: process 1 stops: another one has died (its own log says why); start all of them again"
SPAWNED = "fairseq_localattn: a process of this training has died (process 1 terminated with signal SIGKILL)"
OWN = "fairseq_localattn: train.en.bin: sentence 3: damaged"
CRASH = """\
    Traceback (most recent call last):
      File "train.py", line 3, in <module>
        main()
        ~~~~^^

      File "train.py", line 2, in main
    RuntimeError: CUDA error: an illegal memory access
    CUDA kernel errors might be reported later
"""
CHAINED = """\
    Traceback (most recent call last):
      File "train.py", line 3, in <module>
    KeyError: 'a'

    During handling of the above exception, another exception occurred:

    Traceback (most recent call last):
      File "train.py", line 5, in <module>
    TypeError: no a
"""
TORCHRUN = """\
    Traceback (most recent call last):
      File "torchrun", line 8, in <module>
        sys.exit(main())
    torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
    ============================================================
    train_worker.py FAILED
"""
CRASH, CHAINED, TORCHRUN = map(textwrap.dedent, (CRASH, CHAINED, TORCHRUN))
BY_RANK = "".join(f"[rank0]: {line}\n" for line in CRASH.splitlines())


def failure(log: Path, *said: str) -> str:
    """Return what is said of a child that prints this and fails."""
    code = f"import sys; print({chr(10).join(said)!r}); sys.exit(1)"
    job = Job([sys.executable, "-S", "-c", code], log, threads=1)
    job.process.wait()
    with pytest.raises(JobFailed) as failed:
        job.finished()
    return str(failed.value)


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ((CRASH, PEERS, TORCHRUN), "RuntimeError: CUDA error: an illegal memory access"),
        ((BY_RANK, PEERS, TORCHRUN), "RuntimeError: CUDA error: an illegal memory access"),
        ((CHAINED, PEERS, CRASH), "TypeError: no a"),
        ((OWN, PEERS, TORCHRUN), OWN),
        ((PEERS, OWN, PEERS, TORCHRUN), OWN),
        ((PEERS, TORCHRUN), PEERS),
        (("epoch 3", SPAWNED), SPAWNED),
        ((OWN, TORCHRUN), OWN),
        (("usage: train", "train: error: no data"), "train: error: no data"),
    ],
)
def test_the_line_of_a_failed_child(said: tuple[str, ...], line: str, tmp_path: Path) -> None:
    """The line of a process that ends because of another one is shown where nothing else is there."""
    assert failure(tmp_path / "log", *said) == f"{line} (log: {tmp_path / 'log'})"


def test_only_its_own_part_of_the_log_counts(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(CRASH)
    assert failure(tmp_path / "log", PEERS).startswith(PEERS)


def test_a_traceback_of_a_training_of_one_process_is_shown_with_its_end(tmp_path: Path) -> None:
    told = failure(tmp_path / "log", "train: error: before", CRASH)
    assert "failed with exit status 1\n" in told and "illegal memory access" in told


SAVES = """
import signal, sys, time
def save(*_):
    time.sleep(0.2)
    print("saved", flush=True)
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
time.sleep(100)
"""


def test_trainings_that_are_stopped_save_at_the_same_time_and_are_asked_once(tmp_path: Path) -> None:
    logs = [tmp_path / name for name in ("one", "two")]
    jobs = [Job([sys.executable, "-S", "-c", SAVES], log, threads=1) for log in logs]
    while not all("ready" in log.read_text() for log in logs):
        assert all(job.process.poll() is None for job in jobs)
        time.sleep(0.01)
    stop_all()
    assert [log.read_text().split() for log in logs] == [["ready", "saved"]] * 2
    assert [job.process.returncode for job in jobs] == [143, 143]


def test_a_training_that_was_stopped_says_where_it_continues(tmp_path: Path) -> None:
    line = "fairseq_localattn: stopped by SIGTERM: update 12 is saved in a/checkpoint_last.pt"
    assert failure(tmp_path / "log", "epoch 1", line, TORCHRUN) == f"{line} (log: {tmp_path / 'log'})"
