"""Two trainings in one folder, and signals: the second one is refused, and a training that is stopped goes on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path
from unittest.mock import Mock

import pytest

from fairseq_localattn.compat.training import locks, stopping
from support import forked
from support.checkpoints import assert_same_training, checkpoint
from support.cli import USER_DIR, Done, environment, fairseq, make_data, train_flags

ARCH, UPDATES = "transformer_mma_tiny", 40
FLAGS: dict[str, object] = {"save_interval_updates": 100, "log_interval": 1}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals and locks are those of Linux")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("reverse"), train=200)


def command(data: Path, folder: Path, updates: int = UPDATES, **more: object) -> list[object]:
    return [*train_flags(data, ARCH, folder, updates, **FLAGS, **more), "--user-dir", USER_DIR]


@pytest.fixture(scope="module")
def undisturbed(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    fairseq("train", *train_flags(data, ARCH, folder, UPDATES, **FLAGS))
    return folder / "checkpoint_last.pt"


def send(training: forked.Forked, number: signal.Signals) -> None:
    assert training.process.pid is not None
    os.kill(training.process.pid, number)


def test_flags_by_which_a_training_begins_anew_are_named() -> None:
    at_first = Namespace(restore_file="checkpoint_last.pt", reset_optimizer=False)
    assert stopping.same_command(at_first) == "the same command"
    tuned = Namespace(restore_file="base.pt", reset_optimizer=True, reset_meters=True)
    said = "the same command without --restore-file, --reset-optimizer, --reset-meters"
    assert stopping.same_command(tuned) == said


def stopped(done: Done, number: signal.Signals, last: Path) -> int:
    """Assert that a training ended by a signal in one line, and return the update that it names and has saved."""
    assert done.returncode == 128 + number, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("fairseq_localattn: ")]
    updates = checkpoint(last)["optimizer_history"][-1]["num_updates"]
    assert line == (
        f"fairseq_localattn: stopped by {number.name}: update {updates} is saved in {last}, and the same command "
        "continues from it"
    )
    return int(updates)


@pytest.mark.slow
def test_stopped_and_continued(data: Path, undisturbed: Path, tmp_path: Path) -> None:
    """Stopped twice, by either signal and with processes that load data: at the end the same bits."""
    last, before = tmp_path / "checkpoint_last.pt", 0
    for number in stopping.SIGNALS:
        with forked.started("fairseq-train", *command(data, tmp_path, num_workers=1), cwd=tmp_path) as training:
            training.wait_for_update(3)
            send(training, number)
            updates = stopped(training.wait(), number, last)
        assert before + 3 <= updates < UPDATES
        before = updates
    fairseq("train", *train_flags(data, ARCH, tmp_path, UPDATES, **FLAGS))
    assert_same_training(last, undisturbed)


@pytest.mark.slow
def test_one_of_two_processes_gets_the_signal(data: Path, tmp_path: Path) -> None:
    """Both end after the same update, and continue."""
    last = tmp_path / "checkpoint_last.pt"
    with forked.two_processes(*command(data, tmp_path, 10_000), cwd=tmp_path) as both:
        both[0].wait_for_update(3)
        send(both[1], signal.SIGTERM)
        outcomes = [one.wait() for one in both]
    assert stopped(outcomes[0], signal.SIGTERM, last) >= 3
    assert outcomes[1].returncode == 128 + signal.SIGTERM, outcomes[1].stderr


def test_a_second_signal_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append(number))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    stop = stopping.Stop()
    for moment, expected in ((0.0, []), (0.5, []), (3.0, [signal.SIGTERM])):  # at 0.5 by way of torchrun
        now[0] = moment
        stop.receive(signal.SIGTERM, None)
        assert sent == expected and stop.received == signal.SIGTERM


HOLD = """
import sys
from pathlib import Path
from fairseq_localattn.compat.training import locks
with locks.held(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_two_trainings_in_one_folder(data: Path, tmp_path: Path) -> None:
    """The second one ends in one line that names the first; --no-save needs no folder of its own."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as first:
        assert first.stdout is not None and first.stdout.readline() == b"held\n"
        (half := tmp_path / ".checkpoint_last.pt.1.part").write_bytes(b"half")
        refused = fairseq("train", *train_flags(data, ARCH, tmp_path, 1), check=False)
        own = f"another training is at work in {tmp_path}: process {first.pid} on {socket.gethostname()} since 20"
        assert refused.returncode == 1 and own in refused.stderr and refused.stderr.count("\n") == 1, refused.stderr
        fairseq("train", *train_flags(data, ARCH, tmp_path, 1, no_save=True))
        assert half.exists(), "it may be the other training's"
        first.kill()
    fairseq("train", *train_flags(data, ARCH, tmp_path, 1))
    assert not half.exists()


def test_a_folder_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks.fcntl, "lockf", Mock(side_effect=OSError(37, "No locks available")))
    with locks.held(tmp_path), locks.held(tmp_path):
        pass
    with locks.held(Path("/dev/null/folder")):  # the training says why it cannot write there
        pass
