"""fairseq's commands as new processes, forked from one that has imported torch and fairseq but not the plugin.

A command behaves as if started by the shell: it imports the plugin by its ``--user-dir``, and has an exit status and
output of its own. The seconds of the imports are spent once.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

TIMEOUT = 120
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["torch", "fairseq", "fairseq.models", "fairseq.tasks", "fairseq.trainer"])


class Forked:
    """A running command; its output goes to files in ``folder``."""

    def __init__(self, command: str, words: list[str], cwd: Path, env: Mapping[str, str], folder: Path) -> None:
        self.words = [command, *words]
        self.outputs = folder / "stdout", folder / "stderr"
        options = {"cwd": str(cwd), "env": dict(env), "outputs": tuple(map(str, self.outputs))}
        self.process = _CONTEXT.Process(target=_main, args=(command, words), kwargs=options)
        self.process.start()

    def updates(self) -> int:
        """Return how many updates a training has logged so far."""
        return sum(path.read_text("utf-8").count('"wps"') for path in self.outputs if path.exists())

    def wait_for_update(self, number: int) -> None:
        """Wait until a training has logged so many updates. Raises AssertionError where it ends before."""
        deadline = time.monotonic() + TIMEOUT
        while self.updates() < number:
            texts = [path.read_text("utf-8") for path in self.outputs if path.exists()]
            assert self.process.is_alive() and time.monotonic() < deadline, texts
            time.sleep(0.005)

    def wait(self) -> subprocess.CompletedProcess[str]:
        """Return the outcome of the command. Raises TimeoutError after two minutes."""
        self.process.join(TIMEOUT)
        if self.process.exitcode is None:
            self.process.kill()
            raise TimeoutError(" ".join(self.words))
        out, err = (path.read_text("utf-8") for path in self.outputs)
        return subprocess.CompletedProcess(self.words, self.process.exitcode, out, err)


@contextmanager
def started(command: str, *arguments: object, cwd: Path, **env: str) -> Iterator[Forked]:
    """Start a console script such as ``fairseq-train``; it is killed at the end if it still runs."""
    with tempfile.TemporaryDirectory() as folder:
        forked = Forked(command, list(map(str, arguments)), cwd, env, Path(folder))
        try:
            yield forked
        finally:
            forked.process.kill()
            forked.process.join()


@contextmanager
def two_processes(*arguments: object, cwd: Path) -> Iterator[list[Forked]]:
    """Start the two processes of one fairseq-train on a CPU; they are killed at the end if they still run."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = f"--distributed-world-size 2 --distributed-init-method tcp://127.0.0.1:{port} --distributed-no-spawn"
    words = [*arguments, *flags.split(), "--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"]
    with ExitStack() as stack:
        ranks = [[*words, "--distributed-rank", rank] for rank in (0, 1)]
        yield [stack.enter_context(started("fairseq-train", *each, cwd=cwd)) for each in ranks]


def run(command: str, *arguments: object, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a console script such as ``fairseq-train``, with ``env`` added to the environment, and return its outcome."""
    with started(command, *arguments, cwd=cwd, **env) as forked:
        return forked.wait()


def _main(command: str, words: list[str], *, cwd: str, env: dict[str, str], outputs: tuple[str, str]) -> None:
    """Run the command in the forked process, which ends with its exit status."""
    for descriptor, path in zip((1, 2), outputs, strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    os.chdir(cwd)
    os.environ.update({"OMP_NUM_THREADS": "1", **env})
    import torch

    torch.set_num_threads(1)
    assert "fairseq_localattn" not in sys.modules, "the plugin must be imported by the command itself"
    sys.argv = [command, *words]
    importlib.import_module(f"fairseq_cli.{command.removeprefix('fairseq-').replace('-', '_')}").cli_main()
