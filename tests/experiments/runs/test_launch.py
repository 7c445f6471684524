"""How trainings are started: the paper's batch on any number of GPUs, torchrun's processes, the precision of a GPU."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import fairseq_cli.train
import pytest
import torch

from experiments.recipes import recipe
from experiments.runs import launch, worker
from experiments.system import environment
from support.engine.runs import torchrun
from support.recipes import BASE, load

PAPER = BASE.replace("  max_tokens: 600\n", "  max_tokens: 4096\n  update_freq: [3]\n") + "gpus: 8\n"


@pytest.fixture
def paper(tmp_path: Path) -> recipe.Recipe:
    return load(tmp_path, PAPER)


@pytest.mark.parametrize(
    ("gpus", "nodes", "most", "size", "update_freq"),
    [
        (8, 3, None, 4096, 1),
        (8, 6, None, 2048, 1),  # more than the paper's tokens are for: each has fewer
        (5, 1, None, 3932, 5),  # 98,304 tokens do not divide by 5
        (8, 1, 2048, 2048, 6),  # smaller GPUs
        (1, 1, 10**6, 98304, 1),
    ],
)
def test_the_batch_is_that_of_the_paper(
    paper: recipe.Recipe, gpus: int, nodes: int, most: int | None, size: int, update_freq: int
) -> None:
    found = launch.batch_of(paper, launch.Launch(gpus=gpus, nodes=nodes, max_tokens=most))
    assert launch.paper_batch(paper) == 98304 and found == (size, update_freq)
    world = gpus * nodes
    assert 98304 - world * update_freq < world * size * update_freq <= 98304  # short by less than a token each


def test_gpus_that_a_batch_fills(paper: recipe.Recipe, tmp_path: Path) -> None:
    """By default a training takes no more GPUs than have 4,096 tokens, or 32 sentences, at a time."""

    def gpus(of: recipe.Recipe, **options: Any) -> int:
        return launch.Launch(gpus=64, fit=True, **options).fitted(of).gpus

    assert gpus(paper) == 24  # 98,304 tokens
    assert (gpus(paper, nodes=3), gpus(paper, nodes=48)) == (8, 1)
    assert (gpus(paper, max_tokens=2048), gpus(paper, max_tokens=32768)) == (48, 24)
    small = load(tmp_path, BASE.replace("max_tokens: 600", "max_tokens: 512") + "gpus: 8\n")
    assert gpus(small) == 1
    sentences = load(tmp_path, BASE.replace("max_tokens: 600", "batch_size: 96"))
    assert gpus(sentences) == 3 and launch.batch_of(sentences, launch.Launch(gpus=2)) == (48, 1)
    with pytest.raises(recipe.RecipeError, match="128 processes, but a batch has 96 sentences"):
        launch.batch_of(sentences, launch.Launch(gpus=128))
    with pytest.raises(recipe.RecipeError, match="train needs max_tokens .or batch_size."):
        gpus(load(tmp_path, BASE.replace("max_tokens: 600", "seed: 1")))
    assert launch.Launch(gpus=64).fitted(small).gpus == 64  # asked for
    found = launch.Launch(gpus=2, devices=("4", "5"), fit=True).fitted(small)
    assert (found.gpus, found.devices) == (1, ("4",))


def test_flags_of_the_machine(paper: recipe.Recipe) -> None:
    adapted = launch.Launch(gpus=2, precision="bf16").adapt(paper)
    flags = {key: entry.value for key, entry in adapted.train.items()}
    assert (flags["bf16"], flags["max_tokens"], flags["update_freq"]) == (True, 4096, [12])
    assert "distributed_world_size" not in flags  # torchrun says it
    one = launch.Launch(cpu=True, threads=2).adapt(paper)
    assert (paper.threads, adapted.threads, one.threads) == (1, 1, 2)
    assert one.flag("train", "distributed_world_size") == 1 and one.flag("train", "cpu") is True
    assert one.flag("generate", "cpu") is True and adapted.flag("generate", "cpu") is None
    assert not {"fp16", "bf16"} & set(one.train)
    # fairseq rounds sentences down to a multiple of 8, of which a smaller batch has few.
    rounded = [launch.Launch(gpus=n).adapt(paper).flag("train", "required_batch_size_multiple") for n in (8, 48, 5)]
    assert rounded == [None, 1, 1]
    assert [each.flag("train", "optimizer") for each in (paper, adapted, one)] == ["adam", "localattn_adam", "adam"]
    # Graphs would change the batches of a model of ours.
    row = replace(paper, architecture="transformer_mma")
    asked = row.with_flags("train", {"localattn_graphs": 4}, "here")
    graphs = [launch.Launch().adapt(each).flag("train", "localattn_graphs") for each in (row, asked)]
    assert graphs == [0, 4]
    plain = replace(paper, architecture="transformer")
    for without in (launch.Launch(cpu=True).adapt(row), launch.Launch().adapt(plain)):
        assert "localattn_graphs" not in without.train


def test_without_devices_the_gpus_are_those_of_the_environment() -> None:
    assert launch.Launch().environment() == launch.Launch().environment(train=False) == {}


def test_precision_by_hardware() -> None:
    found = {"bf16": [(9, 0)], "fp16": [(8, 0), (7, 0)], "fp32": []}
    assert all(launch.best_precision(capabilities) == name for name, capabilities in found.items())


def test_a_cpu_is_named_with_its_vector_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    monkeypatch.setattr(environment, "_cpu_model", lambda: "AMD EPYC")
    monkeypatch.setattr(environment, "cores", lambda: 2)
    assert environment.hardware("cpu", 1) == "AMD EPYC (AVX2), 2 cores, 1 thread a run"


def test_worker_takes_its_place_from_torchrun() -> None:
    variables = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}
    argv = worker.worker_argv(["data", "--log-file", "train.log", "--lr", "1"], variables)
    assert argv == [
        "data", "--lr", "1", "--distributed-init-method", "env://", "--distributed-world-size", "4",
        "--distributed-rank", "3", "--device-id", "1", "--distributed-no-spawn",
    ]  # fmt: skip
    first = worker.worker_argv(["data", "--log-file", "train.log", "--cpu"], {**variables, "RANK": "0"})
    assert "--log-file" in first
    assert first[first.index("--distributed-backend") + 1] == "gloo" and "legacy_ddp" in first


def test_worker_ends_the_exchange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cli_main() -> None:
        torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)

    monkeypatch.setattr(fairseq_cli.train, "cli_main", cli_main)
    worker.train()
    assert not torch.distributed.is_initialized()


WRITES = """
import os, time
def cli_main():
    open("worker" + os.environ["RANK"], "w").write(str(os.getpid()))
    time.sleep(120)
"""


def alive(files: list[Path]) -> list[str]:
    """Return the states of the processes whose numbers stand in these files, but for zombies."""
    listed = ["ps", "-o", "stat=", "-p", ",".join(path.read_text() for path in files)]
    return [state for state in subprocess.run(listed, capture_output=True, text=True).stdout.split() if state[0] != "Z"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has died")
@pytest.mark.slow
def test_killed_torchrun_leaves_no_worker(tmp_path: Path) -> None:
    """A second start would meet workers that still train into the same folder."""
    words, environment = torchrun(tmp_path, WRITES)
    begun = subprocess.Popen(words, env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    files = [tmp_path / f"worker{rank}" for rank in (0, 1)]
    deadline = time.monotonic() + 120
    while not all(path.exists() and path.read_text() for path in files) and time.monotonic() < deadline:
        time.sleep(0.2)
    begun.kill()
    begun.wait()
    while (left := alive(files)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left
