"""Trainings that are killed at random moments go on as if nothing had happened, and no process waits for a dead one."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import pytest

from support import forked
from support.checkpoints import assert_same_training
from support.cli import USER_DIR, train_flags

ARCH = "transformer_mma_tiny"
UPDATES = 16
SAVED = {"save_interval_updates": 2, "keep_interval_updates": 3}
pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="processes are those of Linux")]


def command(data: Path, folder: Path, updates: int = UPDATES, **more: object) -> list[object]:
    return [*train_flags(data, ARCH, folder, updates, **SAVED, **more, log_interval=1), "--user-dir", USER_DIR]


@pytest.fixture(scope="module")
def undisturbed(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    done = forked.run("fairseq-train", *command(data, folder), cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("seed", [22, *(pytest.param(seed, marks=pytest.mark.attack) for seed in range(1, 5))])
def test_killed_at_random_moments(seed: int, data: Path, undisturbed: Path, tmp_path: Path) -> None:
    """Plain fairseq-train with the plugin: killed three times, then left alone, it ends with the same bits."""
    moments = random.Random(seed)
    killed = 0
    for _ in range(3):
        with forked.started("fairseq-train", *command(data, tmp_path), cwd=tmp_path) as training:
            updates, seconds = moments.randint(0, 5), moments.uniform(0, 0.3)
            while training.updates() < updates and training.process.is_alive():
                time.sleep(0.005)
            time.sleep(seconds)
            killed += training.process.is_alive()
            training.process.kill()
    assert killed, "killed too late: the test needs more updates"
    done = forked.run("fairseq-train", *command(data, tmp_path), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # A training that is started again after its last update makes one more.
    name = f"checkpoint_2_{UPDATES}.pt"
    assert_same_training(tmp_path / name, undisturbed / name)


@pytest.mark.parametrize("killed", [1, pytest.param(0, marks=pytest.mark.attack)])
def test_one_of_two_processes_is_killed(killed: int, data: Path, tmp_path: Path) -> None:
    """The other one ends within a minute, with one line; started again, both continue."""
    last = tmp_path / "checkpoint_last.pt"
    with forked.two_processes(*command(data, tmp_path, 10_000), cwd=tmp_path) as processes:
        processes[0].wait_for_update(6)
        assert last.exists()
        processes[killed].process.kill()
        other = processes[1 - killed]
        other.process.join(60)
        assert other.process.exitcode == 1, "still there, or ended as if all were well"
        said = other.outputs[1].read_text()
        lines = [line for line in said.splitlines() if line.startswith("fairseq_localattn: ")]
        assert len(lines) == 1 and "Traceback" not in said, said
        assert f"process {1 - killed} stops: another one has died" in lines[0] and str(tmp_path) in lines[0]
    begun = int(max(path.stem.rpartition("_")[2] for path in tmp_path.glob("checkpoint_*_*.pt")))
    with forked.two_processes(*command(data, tmp_path, begun + 4), cwd=tmp_path) as processes:
        both = [one.wait() for one in processes]
    assert [one.returncode for one in both] == [0, 0], both[0].stderr + both[1].stderr
    assert "Loaded checkpoint" in both[0].stdout + both[0].stderr
