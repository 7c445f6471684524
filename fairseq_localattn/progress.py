"""Progress of long work: a bar in a terminal, a line every 15 seconds in a log."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from typing import Any, TextIO

from tqdm import tqdm

SECONDS = 15.0  # between two lines in a log, and before the first one


class ProgressBar(tqdm):
    """A tqdm bar without a thread, which processes that are forked later would inherit in an unknown state."""

    monitor_interval = 0

    def skip(self, items: int) -> None:
        """Count items that an earlier run has done, and leave them out of the estimated time."""
        self.initial += items
        self.last_print_n += items
        self.n += items


ProgressBar.set_lock(threading.RLock())


class _Log:
    """A stream for tqdm: each state of the bar is a line of its own, and the line that clears it is left out."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> None:
        if text.strip():
            print(text.strip(), file=self.stream, flush=True)

    def flush(self) -> None:
        pass


def progress_bar(
    total: int | None, unit: str, items: Iterable[Any] | None = None, stream: TextIO | None = None, **options: Any
) -> ProgressBar:
    """Return a bar that is cleared at the end; work shorter than :data:`SECONDS` leaves no line in a log.

    Without ``items`` the caller updates it. The stream is by default stderr; ``options`` are tqdm's.
    """
    stream = stream or sys.stderr
    shared = {"total": total, "unit": f" {unit}", "unit_scale": True, "leave": False, "miniters": 0, **options}
    if stream.isatty():
        return ProgressBar(items, file=stream, mininterval=0.5, delay=0.5, dynamic_ncols=True, **shared)
    return ProgressBar(items, file=_Log(stream), mininterval=SECONDS, delay=SECONDS, ncols=100, **shared)
