"""Trainings on two machines: what the first one announces, and how the second takes part."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from experiments.engine import follow
from experiments.engine.plan import Plan, make_plan
from experiments.engine.rows import Choice
from experiments.engine.table import rows_of
from experiments.runs.launch import Launch
from experiments.runs.machines import Leader
from experiments.runs.processes import JobFailed, write_stamp
from experiments.runs.progress import Progress
from experiments.runs.run import Run
from support.tables.bench import Bench


def machine(rank: int, folder: Path, rendezvous: str = "a:1") -> Leader:
    return Leader(Launch(nodes=2, node_rank=rank, rendezvous=rendezvous), folder)


def test_what_machine_0_announces(tmp_path: Path) -> None:
    machine(0, tmp_path).announce(tmp_path / "run")
    assert machine(1, tmp_path).said()["train"] == "run"
    assert machine(1, tmp_path, "b:1").said() == {}  # another table's, at the same time
    machine(1, tmp_path).announce(tmp_path / "other")
    machine(1, tmp_path).begin()
    assert machine(1, tmp_path).said()["train"] == "run"  # only machine 0 says
    machine(0, tmp_path).end()
    assert "end" in machine(1, tmp_path).said()
    machine(0, tmp_path).begin()
    assert machine(1, tmp_path).said() == {}
    alone = Leader(Launch(), tmp_path / "alone")
    alone.announce(tmp_path)
    assert alone.said() == {} and not (tmp_path / "alone").exists()


def follower(bench: Bench) -> Plan:
    """Return the plan of machine 1 of two, for one row."""
    bench.fake()
    bench.data()
    launch = Launch(cpu=True, nodes=2, node_rank=1, rendezvous="a:1")
    rows = rows_of(bench.table("mma", "table1"), "full", "mma")
    plan = make_plan(rows, Choice(scale="full", launch=launch, out=bench.out, results=bench.results, seeds=(1,)))
    plan.make_runs()
    return plan


@pytest.mark.parametrize("said", ["finished", "gone"])
def test_what_was_said_before_a_stop_is_not_obeyed(
    said: str, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that begins first may read what machine 0 said before it was stopped. Neither may wait."""
    plan = follower(bench)
    run = plan.runs[0]
    leader = machine(0, bench.out)
    leader.announce(run.folder)
    started: list[str] = []
    if said == "finished":
        write_stamp(run.folder / "trained.json", {"updates": 4})
    else:
        sleeps = [sys.executable, "-c", "import time; time.sleep(60)"]

        def train(run: Run) -> list[str]:
            started.append(run.label)
            return sleeps

        monkeypatch.setattr(Run, "train_argv", train)
    before = leader.said()
    threading.Timer(0.5, leader.end).start()
    begin = time.monotonic()
    follow._take_part(plan, before, Progress())
    assert started == ([] if said == "finished" else ["mma (seed 1)"])
    assert time.monotonic() - begin < 30


def test_a_second_machine_follows_to_the_end(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It trains what is announced, and ends with machine 0; of a start before its own it takes no end."""
    plan = follower(bench)
    monkeypatch.setattr(follow, "POLL_SECONDS", 0.02)
    leader = machine(0, bench.out)
    leader.end()  # of an earlier start
    time.sleep(0.05)

    def lead() -> None:
        leader.announce(plan.runs[0].folder)
        deadline = time.monotonic() + 30
        while not bench.trainings() and time.monotonic() < deadline:
            time.sleep(0.02)
        leader.end()

    plan.runs[0].folder.mkdir()
    timer = threading.Timer(0.3, lead)
    timer.start()
    assert follow.follow(plan, Progress()) == 0
    timer.join()
    assert bench.trainings() == 1


def test_a_second_machine_ends_where_nothing_is_left(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where machine 0 has ended before this one has begun."""
    plan = follower(bench)

    def never(seconds: float) -> None:
        raise AssertionError("it waits")

    monkeypatch.setattr(follow.time, "sleep", never)
    leader = machine(0, bench.out)
    leader.end()
    os.utime(leader.path, (1, 1))
    with pytest.raises(AssertionError, match="it waits"):  # for a training
        follow.follow(plan, Progress())
    for run in plan.to_do():  # the row and its baseline
        write_stamp(run.folder / "trained.json", {"updates": 4})
    assert follow.follow(plan, Progress()) == 0


def test_machines_that_were_started_differently(bench: Bench) -> None:
    plan = follower(bench)
    leader = machine(0, bench.out)
    leader.announce(bench.out / "transformer_csan_tiny.00000000.seed1")
    with pytest.raises(JobFailed, match="machine 0 trains what this one does not know: start the same command on all"):
        follow._take_part(plan, leader.said(), Progress())


@pytest.mark.parametrize("finished", [True, False], ids=["finished by machine 0", "unfinished"])
def test_a_training_that_fails_here(finished: bool, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The status is that of the training: machine 0 may have finished what a process of this machine did not."""
    plan = follower(bench)
    run = plan.runs[0]
    fails = [sys.executable, "-c", "raise SystemExit(3)"]
    monkeypatch.setattr(Run, "train_argv", lambda run: fails)
    monkeypatch.setattr(follow, "POLL_SECONDS", 0.02)
    leader = machine(0, bench.out)
    said: list[str] = []

    class Heard(Progress):
        def say(self, message: str) -> None:
            said.append(message)
            if "failed with exit status 3" in message:
                if finished:
                    write_stamp(run.folder / "trained.json", {"updates": 4})
                leader.end()

    run.folder.mkdir()
    timer = threading.Timer(0.3, leader.announce, [run.folder])
    timer.start()
    assert follow.follow(plan, Heard()) == (0 if finished else 1)
    timer.join()
    assert any(message.startswith(f"{run.folder.name}: ") for message in said)
    assert said[-1] == "machine 0 is done"


@pytest.mark.slow
def test_two_machines(bench: Bench, toy_corpus: Path) -> None:
    """Two runners on one machine, each with one process, train together; the second ends with the first."""
    bench.data(toy_corpus)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    program = (
        "import functools, pathlib, sys\n"
        "from experiments.engine import table\n"
        f"configs = pathlib.Path({str(bench.root / 'configs')!r})\n"
        "table.find_table = functools.partial(table.find_table, configs=configs)\n"
        "sys.exit(table.main())"
    )
    same = ["mma", "table1", "--rows", "mma", "--cpu", "--out", bench.out, "--results", bench.results]
    same += ["--nodes", "2", "--rendezvous", f"localhost:{port}"]
    done: dict[int, subprocess.CompletedProcess[str]] = {}

    def start(rank: int) -> None:
        words = [sys.executable, "-c", program, *map(str, same), "--node-rank", str(rank)]
        done[rank] = subprocess.run(words, capture_output=True, text=True, timeout=400)

    threads = [threading.Thread(target=start, args=(rank,)) for rank in (1, 0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for log in sorted(bench.out.glob("*/train*.log")):
        print(log.name, log.read_text(), sep="\n")
    for rank in (0, 1):
        print(f"machine {rank}", done[rank].stdout, done[rank].stderr, sep="\n")
    assert [done[rank].returncode for rank in (0, 1)] == [0, 0]
    assert "machine 0 is done" in done[1].stdout
    assert "training on 2 devices" in (bench.folder("transformer_mma_tiny") / "train.log").read_text()
    assert {line["batch_tokens"] for line in bench.lines("table1")} == {"1200"}
