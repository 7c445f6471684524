"""What the runners say of a child that has failed: one line, of the process that failed first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.system.processes import Job, JobFailed, first_error, stop_all
from support.engine.runs import torchrun
from support.paths import SCRIPTS

OWN = "fairseq_localattn: train.en.bin: sentence 3: damaged"
CRASH = "Traceback (most recent call last):\nRuntimeError: CUDA error: an illegal memory access\nor reported later"
TORCHRUN = "Traceback (most recent call last):\nChildFailedError:\ntrain_worker.py FAILED"


@pytest.mark.parametrize(
    ("said", "end", "told"),
    [
        (f"{OWN}\n{TORCHRUN}", "sys.exit(1)", f"^{OWN} \\(log: "),
        ("usage: train\ntrain: error: no data", "sys.exit(1)", r"^train: error: no data \(log: "),
        (f"train: error: before\n{CRASH}", "sys.exit(1)", r"failed with exit status 1\n(.*\n)+.*illegal memory access"),
        ("", "os.kill(os.getpid(), 9)", "was killed by signal 9"),
    ],
)
def test_what_is_said_of_a_failed_child(said: str, end: str, told: str, tmp_path: Path) -> None:
    """Its own line; after a traceback the end of the log."""
    (tmp_path / "log").write_text(CRASH)  # of an earlier start
    code = f"import os, sys; print({said!r}); {end}"
    job = Job([sys.executable, "-S", "-c", code], tmp_path / "log", threads=1)
    job.process.wait()
    with pytest.raises(JobFailed, match=told):
        job.finished()


def test_the_first_error_that_processes_have_recorded(tmp_path: Path) -> None:
    for rank, (at, line) in enumerate(((9, "TypeError: no a"), (7, f"UsageError: {OWN}"), (8, "KeyError: 1\nmore"))):
        path = tmp_path / "none_x" / "attempt_0" / str(rank) / "error.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"message": {"message": line, "extraInfo": {"timestamp": str(at)}}}))
    assert first_error(tmp_path) == OWN
    path.with_name("error.json").write_text("{")  # cut off
    (tmp_path / "none_x" / "attempt_0" / "1" / "error.json").unlink()
    assert first_error(tmp_path) == "TypeError: no a"
    assert first_error(tmp_path / "none") is None


PROGRAM = """
import os, sys, time
def cli_main():
    if os.environ["RANK"] == "1":
        raise RuntimeError("CUDA error: an illegal memory access\\nmore of it")
    from fairseq_localattn.compat.peers import PeerLostError
    time.sleep(0.5)
    raise PeerLostError("process 0 stops")
"""


@pytest.mark.slow
def test_the_process_that_failed_first_is_told_by_torchruns_file(tmp_path: Path) -> None:
    """Not the one that ends because of it, whose exception may be seen at the same second."""
    words, environment = torchrun(tmp_path, PROGRAM)
    job = Job(words, tmp_path / "log", threads=1, environment=environment, errors=tmp_path / "errors")
    job.process.wait()
    with pytest.raises(JobFailed, match="^RuntimeError: CUDA error: an illegal memory access \\(log: "):
        job.finished()


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


def test_nohup_protects_a_run() -> None:
    code = "import signal\nfrom experiments.system.processes import stop_on_signals\nstop_on_signals()\n"
    code += "print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN, callable(signal.getsignal(signal.SIGTERM)))"
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
    words = ["nohup", sys.executable, "-c", code]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "True True\n"


def test_trainings_that_are_stopped_save_at_the_same_time_and_are_asked_once(tmp_path: Path) -> None:
    logs = [tmp_path / name for name in ("one", "two")]
    jobs = [Job([sys.executable, "-S", "-c", SAVES], log, threads=1) for log in logs]
    while not all("ready\n" in log.read_text() for log in logs):
        assert all(job.process.poll() is None for job in jobs)
        time.sleep(0.01)
    stop_all()
    assert [log.read_text().split() for log in logs] == [["ready", "saved"]] * 2
    assert [job.process.returncode for job in jobs] == [143, 143]
