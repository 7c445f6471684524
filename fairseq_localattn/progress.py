"""Progress of long work on stderr: a bar in a terminal, a line every 15 seconds in a log.

data-prep/corpora/progress.py does this for data preparation, whose commands start without importing torch and fairseq.
"""

from __future__ import annotations

import sys
import threading

from tqdm import tqdm

SECONDS = 15.0  # between two lines in a log, and before the first one


class ProgressBar(tqdm):
    """A tqdm bar without a thread, which processes that are forked later would inherit in an unknown state."""

    monitor_interval = 0

    def skip(self, items: int) -> None:
        """Count items that an earlier run has done: they say nothing of the time that the others take."""
        self.initial += items
        self.last_print_n += items
        self.n += items


ProgressBar.set_lock(threading.RLock())


class _Log:
    """Standard error for tqdm: each state of the bar is a line of its own, and the line that clears it is left out."""

    def write(self, text: str) -> None:
        if text.strip():
            print(text.strip(), file=sys.stderr, flush=True)

    def flush(self) -> None:
        pass


def progress_bar(total: int, unit: str) -> ProgressBar:
    """Return a bar that is cleared at the end; work shorter than :data:`SECONDS` leaves no line in a log."""
    shared = {"total": total, "unit": f" {unit}", "unit_scale": True, "leave": False, "miniters": 0}
    if sys.stderr.isatty():
        return ProgressBar(mininterval=0.5, delay=0.5, dynamic_ncols=True, **shared)
    return ProgressBar(file=_Log(), mininterval=SECONDS, delay=SECONDS, ncols=100, **shared)
