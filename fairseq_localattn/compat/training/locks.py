"""One training in a folder of checkpoints: a lock that ends with its process."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...files import remove_parts

try:
    import fcntl
except ImportError:  # not Unix: there is no lock
    fcntl: Any = None  # type: ignore[no-redef]

NAME = ".training.lock"


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Context manager: hold a folder for this process, and remove what killed trainings have left in it.

    Raises UsageError where another process holds it, with that process's number, machine and start time. It is a
    POSIX lock: NFS has it too, and children do not inherit it. Where there are no locks, nothing is held.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stream = open(folder / NAME, "ab+", buffering=0)
    except OSError:  # the training tries to write there too, and says why it cannot
        yield
        return
    with stream:
        if _locked(stream, folder):
            remove_halves(folder)
            holder = f"process {os.getpid()} on {socket.gethostname()} since {time.strftime('%Y-%m-%d %H:%M:%S')}"
            with suppress(OSError):  # the disk may be full
                stream.truncate(0)
                stream.write(holder.encode())
        yield


def remove_halves(folder: Path) -> None:
    """Remove the halves of checkpoints that a kill or a full disk has left; no other training may be at work there."""
    remove_parts(folder)
    with suppress(OSError):
        for part in folder.glob("*.pt.tmp"):  # fairseq's
            part.unlink()


def _locked(stream: Any, folder: Path) -> bool:
    """Lock an open file; return False where that cannot be done. Raises UsageError where another process holds it."""
    try:
        fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except AttributeError:
        return False
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):  # a file system without locks
            return False
        stream.seek(0)
        holder = stream.read().decode() or "one that begins"
        raise UsageError(
            f"fairseq_localattn: another training is at work in {folder}: {holder}; wait for it, stop it, or give "
            "another --save-dir"
        ) from None
    return True
