"""What the runners say of a child that has failed: one line, of the process that failed first."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from experiments.runs.launch import Launch
from experiments.system.processes import Job, JobFailed, first_error, stop_all
from support.paths import ROOT

OWN = "fairseq_localattn: train.en.bin: sentence 3: damaged"
CRASH = "Traceback (most recent call last):\nRuntimeError: CUDA error: an illegal memory access\nor reported later"
TORCHRUN = "Traceback (most recent call last):\nChildFailedError:\ntrain_worker.py FAILED"


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
        ((OWN, TORCHRUN), OWN),
        (("usage: train", "train: error: no data"), "train: error: no data"),
    ],
)
def test_the_line_of_a_failed_child(said: tuple[str, ...], line: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(CRASH)  # of an earlier start
    assert failure(tmp_path / "log", *said) == f"{line} (log: {tmp_path / 'log'})"


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
    (tmp_path / "fairseq_cli").mkdir()
    (tmp_path / "fairseq_cli" / "__init__.py").touch()
    (tmp_path / "fairseq_cli" / "train.py").write_text(PROGRAM)
    errors, words = tmp_path / "errors", Launch(gpus=2).command(tmp_path / "errors")
    environment = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT / 'scripts'}{os.pathsep}{ROOT}"}
    job = Job(words, tmp_path / "log", threads=1, environment=environment, errors=errors)
    job.process.wait()
    with pytest.raises(JobFailed, match="^RuntimeError: CUDA error: an illegal memory access \\(log: "):
        job.finished()


def test_a_child_that_was_killed(tmp_path: Path) -> None:
    job = Job([sys.executable, "-S", "-c", "import time; time.sleep(60)"], tmp_path / "log", threads=1)
    job.process.kill()
    job.process.wait()
    with pytest.raises(JobFailed, match="was killed by signal 9"):
        job.finished()


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
