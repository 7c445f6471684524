"""Runs a command that prints nothing for a long time, and shows how much it has written.

    python -m corpora.text.watch TITLE PATH LOG COMMAND…

Prints every half minute the number of megabytes under PATH. The command's own output goes to the file LOG, its exit
status is returned, and a signal that ends this program ends the command too.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

SECONDS = 30.0


def size(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder; 0 where it does not exist (yet)."""
    total = 0
    for file in [path, *path.rglob("*")]:
        try:
            total += file.stat().st_size if file.is_file() else 0
        except FileNotFoundError:  # gone since it was listed
            pass
    return total


def watch(title: str, path: Path, log: Path, command: list[str], seconds: float = SECONDS) -> int:
    """Run the command; return its exit status."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        while True:
            try:
                return process.wait(seconds)
            except subprocess.TimeoutExpired:
                print(f"{title}: {size(path) / 1e6:,.0f} MB so far", flush=True)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def _stop(*_: object) -> None:
    sys.exit(143)


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit((__doc__ or "").splitlines()[2].strip())
    signal.signal(signal.SIGTERM, _stop)
    try:
        sys.exit(watch(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:]))
    except KeyboardInterrupt:
        sys.exit(130)
