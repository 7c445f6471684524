"""Commands under attack: each runs in a fork of this process, which bounds its time and memory and keeps its output."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from support.cli import Done

SECRET = "kept-secret-7351"  # the value of an environment variable that no output may have
MEMORY = 1 << 30  # bytes that a command may take beyond what this process has
SECONDS = 20


class Outcome(NamedTuple):
    """Exit status and output of a command; ``grown`` is the growth of its memory in bytes."""

    status: int
    out: str
    err: str
    grown: int


def attacked(run: Callable[[], Done], folder: Path) -> Outcome:
    """Run a command in a fork of this process, in ``folder``, and return its outcome.

    A command that takes longer than :data:`SECONDS` is killed; its status is then -9. Memory is bounded as well.
    """
    before, start = _bytes(1), time.monotonic()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _in_the_fork(run, folder, writer)
    os.close(writer)
    answer = b""
    try:
        while (left := start + SECONDS - time.monotonic()) > 0 and select.select([reader], [], [], left)[0]:
            part = os.read(reader, 1 << 16)
            if not part:
                break
            answer += part
        else:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(reader)
        _, status, used = os.wait4(child, 0)
    code, out, err = json.loads(answer) if answer else (os.waitstatus_to_exitcode(status) or -1, "", "")
    return Outcome(code, out, err, used.ru_maxrss * 1024 - before)


def _in_the_fork(run: Callable[[], Done], folder: Path, writer: int) -> None:
    try:
        limit = _bytes(0) + 4 * MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        os.chdir(folder)
        os.environ["ATTACKED_SECRET"] = SECRET
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        done = run()
        answer = json.dumps([done.returncode, done.stdout, done.stderr]).encode()
        while answer:
            answer = answer[os.write(writer, answer) :]
    finally:
        os._exit(0)


def _bytes(place: int) -> int:
    """Return the virtual (0) or resident (1) memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[place]) * resource.getpagesize()


def assert_bounded(outcome: Outcome) -> None:
    """Fail unless the command ended within its bounds, with success or with a line that says what is wrong."""
    text = outcome.out + outcome.err
    assert outcome.status >= 0, f"killed: {text[-2000:]}"
    assert "Traceback" not in text, text[-3000:]
    assert "weights_only" not in text and SECRET not in text, text[-3000:]
    assert outcome.grown < MEMORY, f"{outcome.grown / 2**20:.0f} MiB: {text[-500:]}"
    if outcome.status != 0:
        lines = [line for line in outcome.err.splitlines() if line.strip()]
        assert len(lines) == 1 and len(lines[0]) < 1500, text[-3000:]
