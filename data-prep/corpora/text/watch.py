"""Shows how much has been written by what prints nothing for a long time."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

SECONDS = 30.0


def size(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder; 0 where it does not exist (yet)."""
    total = 0
    inside = (Path(folder, name) for folder, _, names in os.walk(path) for name in names)  # without folders that vanish
    for file in (path, *inside):
        with contextlib.suppress(FileNotFoundError):  # gone since it was listed
            total += file.stat().st_size if file.is_file() else 0
    return total


@contextlib.contextmanager
def watched(title: str, path: Path, seconds: float = SECONDS) -> Iterator[None]:
    """Print every half minute the number of megabytes under `path`."""
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(seconds):
            print(f"{title}: {size(path) / 1e6:,.0f} MB so far", flush=True)

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def run_logged(title: str, path: Path, log: Path, command: Sequence[str], seconds: float = SECONDS) -> int:
    """Run a command that writes to `path`, with its output in a file; return its exit status. Exceptions end it."""
    with watched(title, path, seconds), log.open("wb") as output:
        # It inherits the locks: they stay held if this process is killed and the program goes on.
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, close_fds=False
        )
    return done.returncode
