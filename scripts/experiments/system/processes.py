"""Child processes with their logs, locks of folders, and stamps of finished steps."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from fairseq_localattn import files
from fairseq_localattn.errors import COMMAND_ERROR

_alive: list[Job] = []
TRACEBACK = "Traceback (most recent call last)"
# Seconds that a child has to end by SIGTERM: a training saves its last update.
SAVING = 60


class JobFailed(RuntimeError):  # noqa: N818
    """Raised where a child fails; the message ends with the last lines of its log and the log's path."""


class Busy(RuntimeError):  # noqa: N818
    """Raised where another process works in the folder."""


def described(error: Exception) -> str:
    """Return what an error says, for one of the operating system in one line: which file, why, what to do."""
    return files.described(error) if isinstance(error, OSError) else str(error)


def read_stamp(path: Path, *needed: str) -> dict[str, Any] | None:
    """Return the facts that a finished step has written; None where it is not finished, or its stamp is damaged.

    ``needed``: facts that are there at least. Raises OSError for a stamp that is there and cannot be read: its step may
    be finished.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.keys() >= set(needed) else None


def write_stamp(path: Path, facts: Mapping[str, Any]) -> None:
    """Mark a step as finished, with its facts. Raises ValueError for NaN and infinity, which are not JSON."""
    files.write_whole(path, json.dumps(facts, indent=2, sort_keys=True, allow_nan=False) + "\n")


def lock(folder: Path) -> IO[str]:
    """Take a folder for this process, and the children that inherit the file. Raises Busy where it is taken.

    Where the file system has no locks, nothing is held.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stream = open(folder / ".lock", "a+", encoding="utf-8")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stream.close()
        raise Busy(f"{folder}: another run is at work here; wait for it, stop it, or choose another --out") from None
    except OSError:
        pass
    files.remove_parts(folder)  # of writers that were killed
    return stream


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent dies, also by SIGKILL; on Linux only."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


class Job:
    """A child process in a process group of its own, with stdout and stderr appended to ``log``.

    ``errors``: folder in which torchrun and its processes record their errors; it is emptied before they start.
    """

    def __init__(
        self,
        argv: Sequence[str],
        log: Path,
        *,
        threads: int,
        held: IO[str] | None = None,
        environment: Mapping[str, str] | None = None,
        errors: Path | None = None,
    ) -> None:
        self.argv = list(argv)
        self.log = log
        self.errors = errors
        if errors:
            shutil.rmtree(errors, ignore_errors=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        # PYTHON: the interpreter that the scripts of data-prep take.
        settings = {
            "OMP_NUM_THREADS": str(threads),
            "MKL_NUM_THREADS": str(threads),
            "PYTHONUNBUFFERED": "1",
            "PYTHON": sys.executable,
        }
        env = {**os.environ, **settings, **(environment or {})}
        self.started = time.time()
        with open(log, "ab") as stream:
            self._log_size = stream.tell()
            self.process = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
                pass_fds=[held.fileno()] if held else [],
                preexec_fn=die_with_parent,
            )
        self._asked = False
        _alive.append(self)

    def finished(self) -> bool:
        """Return whether the child has ended. Raises JobFailed where it has failed."""
        status = self.process.poll()
        if status is None:
            return False
        _alive.remove(self)
        if status != 0:
            raise JobFailed(self._failure(status))
        return True

    def _failure(self, status: int) -> str:
        """Return why the child has failed: its own line where it has one, else the end of its log."""
        if status > 0 and (line := self._error_line()):
            return f"{line} (log: {self.log})"
        how = f"was killed by signal {-status}" if status < 0 else f"failed with exit status {status}"
        words = " ".join(self.argv[1:3]).split()  # in one line, also of python -c
        what = " ".join([Path(self.argv[0]).name, *words, how])
        try:
            files.check_folder(self.log.parent)  # on a full disk the log says nothing
        except OSError as error:
            return f"{what}: {described(error)}"
        return f"{what}\n{tail(self.log)}\nwhole log: {self.log}"

    def _error_line(self) -> str | None:
        """Return the line by which the child says what is wrong: the first error of its processes, else its last line.

        None without one, or after a traceback.
        """
        if self.errors and (line := first_error(self.errors)):
            return line
        text = self.log.read_bytes()[self._log_size :].decode("utf-8", errors="replace")
        lines = text.splitlines()
        own = [line for line in lines if line.startswith(COMMAND_ERROR)]  # also where torchrun adds its traceback
        said = [] if TRACEBACK in text else [line for line in lines if "error: " in line]
        return next(iter([*own[-1:], *said[-1:]]), None)

    def interrupt(self) -> None:
        """Ask the child, and all that it has started, to end; a training then saves its last update.

        It is asked once: a second signal would end it before it has saved.
        """
        if not self._asked:
            self._asked = True
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGTERM)

    def stop(self) -> None:
        """End the child and all that it has started."""
        if self in _alive:
            _alive.remove(self)
        self.interrupt()
        for seconds in (SAVING, 5):
            try:
                self.process.wait(timeout=seconds)
                return
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)


def first_error(folder: Path) -> str | None:
    """Return the line of the first error that processes under torchrun have recorded in its --log-dir; None without."""
    found = []
    for path in folder.glob("*/attempt_*/*/error.json"):
        message = (read_stamp(path) or {}).get("message")
        if isinstance(message, dict):
            line = next(iter(str(message["message"]).splitlines()), "")[:300]
            found.append((int(message["extraInfo"]["timestamp"]), line))
    line = min(found, default=(0, ""))[1]
    return line[line.find(COMMAND_ERROR) :] if COMMAND_ERROR in line else line or None


def stop_all() -> None:
    """End all children."""
    for job in _alive:  # all of them save at the same time
        job.interrupt()
    while _alive:
        _alive.pop().stop()


def stop_on_signals() -> None:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does; the caller then calls ``stop_all``."""

    def interrupt(number: int, frame: object) -> None:
        for job in _alive:
            job.interrupt()
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, interrupt)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup sets it
            signal.signal(signal.SIGHUP, interrupt)


def tail(path: Path) -> str:
    """Return the last twelve lines of a log, indented."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        text = []
    return "\n".join("    " + line[:300] for line in text[-12:])
