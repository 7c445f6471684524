"""Helpers of the tests of data preparation: running a preparation, and reading its result by fairseq's tasks."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import io
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from unittest import mock

from corpora.errors import as_status
from corpora.preparations import main as preparations
from support.paths import DATA_PREP

SPLITS = ("train", "valid", "test")


def clean_environment(**more: str) -> dict[str, str]:
    """Return the environment without the caller's corpora, such as $SST_DIR."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith(("_DIR", "_URL", "_TREES"))}
    return kept | {"PYTHON": sys.executable, "OMP_NUM_THREADS": "1", "LOCALATTN_DOWNLOADS": "", **more}


def call(*command: object, **environment: str) -> subprocess.CompletedProcess[str]:
    words = [str(part) for part in command]
    return subprocess.run(words, env=clean_environment(**environment), capture_output=True, text=True, timeout=300)


def attempt(work: Callable[..., Any], *arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Call a function of `corpora` in this process, as a preparation does; return what it says, and its status."""
    return _captured(as_status(functools.partial(work, *arguments, **options)))


def run(main: Callable[[], int | None], *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the main() of a module of `corpora` in this process."""
    with mock.patch.object(sys, "argv", [main.__module__, *map(str, arguments)]):
        return _captured(main)


def _captured(main: Callable[[], int | None]) -> subprocess.CompletedProcess[str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main()
        except SystemExit as stop:
            status = int(stop.code or 0)
    return subprocess.CompletedProcess([], status or 0, out.getvalue(), err.getvalue())


def script(corpus: str) -> str:
    return corpus if corpus == "parse_text" else f"prepare_{corpus}"


def command(corpus: str, out: Path, *options: object) -> list[str]:
    """Return the command of a preparation, with one worker unless `options` say otherwise."""
    return [str(part) for part in ("bash", DATA_PREP / f"{script(corpus)}.sh", out, "--workers", "1", *options)]


@functools.cache
def warm_python() -> str:
    """Return a program that is this interpreter with fairseq imported; it ends with this process (see warm.py)."""
    folder, pipe = tempfile.mkdtemp(prefix="warm"), subprocess.PIPE
    command = [sys.executable, "-P", str(Path(__file__).parents[1] / "warm.py"), folder]
    server = subprocess.Popen(command, env=clean_environment(), stdin=pipe, stdout=pipe, text=True)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(server.kill)
    assert server.stdout is not None and server.stdout.readline() == "ready\n"
    return f"{folder}/python"


def prepare(corpus: str, out: Path, *options: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a preparation in this process; :func:`command` is that of its script."""
    return prepare_by(corpus, out, "--workers", "1", *options, **environment)


def prepare_by(corpus: str, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a preparation in this process by the words of its command line alone."""
    with mock.patch.dict(os.environ, clean_environment(**{"PYTHON": warm_python(), **environment}), clear=True):
        return _captured(lambda: preparations.main(script(corpus), words))


def prepare_until(last: str, corpus: str, out: Path, *options: object, **environment: str) -> str:
    """Do the steps of a preparation up to `last` in this process; return what it says."""
    printed, given = io.StringIO(), clean_environment(**{"PYTHON": warm_python(), **environment})
    with mock.patch.dict(os.environ, given, clear=True), contextlib.redirect_stdout(printed):
        plan = preparations.planned(script(corpus), [out, "--workers", "1", *options])
        names = [step.name for step in plan.steps]
        dataclasses.replace(plan, steps=plan.steps[: names.index(last) + 1]).run()
    return printed.getvalue()


def kill_when(words: list[str], there: Callable[[], bool], **environment: str) -> str:
    """Start a command, and kill it with its children as soon as there() is true; return what it printed."""
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(words, env=clean_environment(**environment), start_new_session=True, stdout=printed)
        deadline = time.monotonic() + 240
        while not there():
            assert process.poll() is None, "the command ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        printed.seek(0)
        return printed.read()


def wait_for_processes(count: int, *words: object, seconds: float = 60) -> None:
    """Wait until so many processes have all these words in their command."""
    deadline, found = time.monotonic() + seconds, -1
    while found != count:
        assert time.monotonic() < deadline, found
        lines = call("ps", "-ww", "-eo", "args").stdout.splitlines()
        found = sum(all(str(word) in line for word in words) for line in lines)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the content of every file but fairseq's log, which has times in it."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "preprocess.log")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def assert_refused(done: subprocess.CompletedProcess, *parts: str) -> None:
    """Assert that a command failed with one line on stderr, which has all the parts."""
    assert done.returncode != 0, done.stdout
    assert done.stderr.count("\n") == 1, done.stderr
    for part in parts:
        assert part in done.stderr


def lines_of(path: Path) -> list[str]:
    return path.read_text("utf-8").split("\n")[:-1]


def change_line(path: Path, number: int, to: str | bytes | None | Callable[[str], str]) -> None:
    """Put other text in place of a line (from 1) of a file, or remove it."""
    lines = path.read_bytes().split(b"\n")
    new = to(lines[number - 1].decode()) if callable(to) else to
    lines[number - 1 : number] = [] if new is None else [new.encode() if isinstance(new, str) else new]
    path.write_bytes(b"\n".join(lines))


def files_of(folder: Path) -> dict[Path, int]:
    """Return when each file was written, except for the lock, which every run touches."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


def encoded(codes: Path, lines: list[str]) -> list[str]:
    """Return the lines in subwords."""
    from subword_nmt.apply_bpe import BPE

    with codes.open(encoding="utf-8") as stream:
        bpe = BPE(stream)
    return [bpe.process_line(line) for line in lines]


def assert_binarised(prefix: Path, dictionary: Path, lines: list[str]) -> list[str]:
    """Assert that fairseq reads these lines, with <unk> for words without an entry; return the dictionary's words."""
    from fairseq.data import Dictionary, data_utils

    words = Dictionary.load(str(dictionary))
    data = data_utils.load_indexed_dataset(str(prefix), words)
    found = [words.string(data[number]) for number in range(len(data))]
    assert found == [" ".join(word if word in words else "<unk>" for word in line.split()) for line in lines], prefix
    return words.symbols[words.nspecial :]


def assert_in_subwords(out: Path, source: str, target: str, splits: Iterable[str] = SPLITS) -> None:
    """Assert that OUT/bin is the text of OUT/bpe, and this, where there are codes, that of OUT/tok in subwords."""
    for split, lang in itertools.product(splits, (source, target)):
        lines = lines_of(out / f"bpe/{split}.{lang}")
        assert_binarised(out / f"bin/{split}.{source}-{target}.{lang}", out / f"bin/dict.{lang}.txt", lines)
        if (out / "bpe/codes").exists():
            assert lines == encoded(out / "bpe/codes", lines_of(out / f"tok/{split}.{lang}")), (split, lang)
