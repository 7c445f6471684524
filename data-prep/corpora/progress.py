"""Progress of long loops: a bar in a terminal, a line every half minute in a log."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm

SECONDS = 30.0  # between two lines in a log, and before the first one


class _Bar(tqdm):
    monitor_interval = 0  # no thread: the steps with several processes fork


_Bar.set_lock(threading.RLock())


class _Log:
    """Standard output for tqdm: each state of the bar is a line of its own."""

    def write(self, text: str) -> None:
        if text.strip():
            print(text.strip(), flush=True)

    def flush(self) -> None:
        pass


def progress(items: Iterable[Any] | None, title: str, unit: str = "lines", **options: Any) -> tqdm:
    """Return a tqdm bar over `items`; without items, one that the caller updates.

    options: further arguments of tqdm, such as total and initial. A loop shorter than SECONDS shows nothing in a log.
    """
    terminal = sys.stdout.isatty()
    if terminal:
        options |= {"file": sys.stdout, "delay": 2.0, "leave": False}
    else:
        options |= {"file": _Log(), "delay": SECONDS, "mininterval": SECONDS, "miniters": 1, "ncols": 100}
    return _Bar(items, title, unit=f" {unit}", unit_scale=True, dynamic_ncols=terminal, **options)
