"""Trainings that are killed at random moments go on as if nothing had happened, and no process waits for a dead one."""

from __future__ import annotations

import csv
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from experiments.runs.checkpoints import checkpoint_updates
from support import forked
from support.attacks.faults import left_over
from support.checkpoints import assert_same_training
from support.cli import USER_DIR, environment, make_data, train_flags
from support.tables import bench

ARCH = "transformer_mma_tiny"
UPDATES = 16
SAVED = {"save_interval_updates": 2, "keep_interval_updates": 3}
TWO: dict[str, object] = {
    "distributed_world_size": 2, "distributed_no_spawn": True, "distributed_backend": "gloo",
    "ddp_backend": "legacy_ddp",
}  # fmt: skip

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="processes are those of Linux")]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("reverse"))


def command(data: Path, folder: Path, updates: int = UPDATES, **more: object) -> list[object]:
    """Return the arguments of a training with the plugin."""
    return [*train_flags(data, ARCH, folder, updates, **SAVED, **more, log_interval=1), "--user-dir", USER_DIR]


@pytest.fixture(scope="module")
def undisturbed(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a training that nobody kills."""
    folder = tmp_path_factory.mktemp("undisturbed")
    done = forked.run("fairseq-train", *command(data, folder), cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def logged(training: forked.Forked) -> int:
    """Return how many updates a training has logged."""
    return sum(path.read_text().count('"wps"') for path in training.outputs if path.exists())


@pytest.mark.parametrize("seed", [22, *(pytest.param(seed, marks=pytest.mark.attack) for seed in range(1, 13))])
def test_killed_at_random_moments(seed: int, data: Path, undisturbed: Path, tmp_path: Path) -> None:
    """Plain fairseq-train with the plugin: killed three times, then left alone, it ends with the same bits."""
    moments = random.Random(seed)
    killed = 0
    for _ in range(3):
        with forked.started("fairseq-train", *command(data, tmp_path), cwd=tmp_path) as training:
            updates, seconds = moments.randint(0, 5), moments.uniform(0, 0.3)
            while logged(training) < updates and training.process.is_alive():
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


def both(stack: ExitStack, data: Path, folder: Path, updates: int) -> list[forked.Forked]:
    """Start the two processes of a training."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = []
    for rank in (0, 1):
        own = {"distributed_rank": rank, "distributed_init_method": f"tcp://127.0.0.1:{port}", **TWO}
        words = command(data, folder, updates, **own)
        started.append(stack.enter_context(forked.started("fairseq-train", *words, cwd=folder)))
    return started


@pytest.mark.parametrize("killed", [1, pytest.param(0, marks=pytest.mark.attack)])
def test_one_of_two_processes_is_killed(killed: int, data: Path, tmp_path: Path) -> None:
    """The other one ends within a minute, with one line; started again, both continue."""
    last = tmp_path / "checkpoint_last.pt"
    with ExitStack() as stack:
        processes = both(stack, data, tmp_path, 10_000)
        deadline = time.monotonic() + 100
        while not last.exists():
            assert time.monotonic() < deadline and all(one.process.is_alive() for one in processes), [
                path.read_text() for one in processes for path in one.outputs
            ]
            time.sleep(0.05)
        processes[killed].process.kill()
        other = processes[1 - killed]
        other.process.join(60)
        assert other.process.exitcode == 1, "still there, or ended as if all were well"
        said = other.outputs[1].read_text()
        lines = [line for line in said.splitlines() if line.startswith("fairseq_localattn: ")]
        assert len(lines) == 1 and "Traceback" not in said, said
        assert f"process {1 - killed} stops: another one has died" in lines[0] and str(tmp_path) in lines[0]
    begun = int(max(path.stem.rpartition("_")[2] for path in tmp_path.glob("checkpoint_*_*.pt")))
    with ExitStack() as stack:
        for one in both(stack, data, tmp_path, begun + 4):
            done = one.wait()
            assert done.returncode == 0, done.stdout + done.stderr
            assert "Loaded checkpoint" in done.stdout + done.stderr or one is not processes[0]


class Killable:
    """`table.py` on the rows of the bench's first table, in a process of its own, with trainings that are real."""

    def __init__(self, folder: Path) -> None:
        self.out, self.results = folder / "out", folder / "results"
        configs = folder / "configs"
        full = bench.FULL.replace("max_update: 4", "max_update: 40").replace("log_interval: 1", "log_interval: 2")
        for name, text in (("base/full", full), ("base/small", bench.SMALL), ("table1", bench.TABLE_1)):
            path = configs / "mma" / f"{name}.yaml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.program = (
            "import functools, pathlib, sys\n"
            "from experiments.engine import table\n"
            f"configs = pathlib.Path({str(configs)!r})\n"
            "table.find_table = functools.partial(table.find_table, configs=configs)\n"
            "sys.exit(table.main())"
        )
        self.words = ["mma", "table1", "--rows", "mma", "--cpu", "--out", str(self.out), "--results", str(self.results)]

    def start(self) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", self.program, *self.words]
        return subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish(self) -> float:
        """Run it to its end; return the seconds that it took."""
        begin = time.monotonic()
        process = self.start()
        text, _ = process.communicate(timeout=300)
        assert process.returncode == 0, text
        return time.monotonic() - begin

    def folder(self) -> Path:
        (found,) = self.out.glob("transformer_mma_tiny.*")
        return found

    def lines(self) -> Iterator[dict[str, str]]:
        """Yield the lines of the results, without what depends on the time or on changes of the code meanwhile."""
        timed = ("date", "commit", "words_per_second", "steps_per_second", "train_minutes")
        with open(self.results / "mma" / "table1.csv", newline="") as stream:
            for line in csv.DictReader(stream):
                yield {name: value for name, value in line.items() if name not in timed}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Killable, float]:
    """Return a table that nobody has killed, and the seconds that its training and measuring took."""
    table = Killable(tmp_path_factory.mktemp("whole"))
    table.finish()
    for made in (table.folder(), table.results):
        shutil.rmtree(made)
    return table, table.finish()


@pytest.mark.attack
@pytest.mark.parametrize("seed", range(1, 5))
def test_a_table_killed_at_random_moments(seed: int, whole: tuple[Killable, float], tmp_path: Path) -> None:
    """The runner is killed with its children; at the end checkpoints, averages and results are the same."""
    moments = random.Random(seed)
    expected, seconds = whole
    table = Killable(tmp_path)
    shutil.copytree(expected.out / "data", table.out / "data")
    for _ in range(4):
        process = table.start()
        time.sleep(moments.uniform(0.3, 1) * seconds)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    table.finish()
    assert list(table.lines()) == list(expected.lines())
    last = Path("checkpoints") / "checkpoint_last.pt"
    assert_same_training(table.folder() / last, expected.folder() / last)
    assert (table.folder() / "generate-test.txt").read_text() == (expected.folder() / "generate-test.txt").read_text()
    assert not left_over(table.folder())


@pytest.mark.attack
def test_a_worker_of_a_table_is_killed(whole: tuple[Killable, float], tmp_path: Path) -> None:
    """Two processes under torchrun: the runner ends within a minute, says which row has failed, and continues."""
    table = Killable(tmp_path)
    table.words += ["--gpus", "2"]
    shutil.copytree(whole[0].out / "data", table.out / "data")
    process = table.start()
    deadline = time.monotonic() + 200
    while not list(table.out.glob("*/checkpoints/checkpoint_last.pt")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    workers = [path for path in Path("/proc").glob("[0-9]*") if is_worker(path, table.out)]
    assert len(workers) == 2
    os.kill(int(workers[1].name), signal.SIGKILL)
    text, _ = process.communicate(timeout=60)
    failures = [line for line in text.splitlines() if line.startswith("table: ")]
    assert process.returncode == 1 and len(failures) == 1, text
    assert failures[0].startswith("table: failed: mma (seed 1): fairseq_localattn: process 0 stops: another one"), text
    assert "Traceback" not in text
    begun = checkpoint_updates(table.folder())
    assert begun > 0
    table.finish()
    assert f"@ {begun} updates" in (table.folder() / "train.log").read_text()


def is_worker(process: Path, folder: Path) -> bool:
    """Return whether a process of /proc is a worker that trains below a folder."""
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(word.endswith(b"train_worker.py") for word in words[:3]) and str(folder).encode() in b" ".join(words)
