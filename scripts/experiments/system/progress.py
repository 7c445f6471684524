"""Progress of long jobs with the time left: on a terminal one line, elsewhere a line now and then."""

from __future__ import annotations

import heapq
import shutil
import sys
import time
from collections.abc import Sequence
from typing import TextIO

EVERY = 15.0


def clock(seconds: float) -> str:
    """Return seconds as m:ss or h:mm:ss."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, secs = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{secs:02}" if hours else f"{minutes}:{secs:02}"


def time_left(running: Sequence[float], waiting: Sequence[float], lanes: int) -> float:
    """Return the seconds until all jobs are done, of which ``lanes`` run at a time; ``waiting`` ones start in order."""
    lanes = max(1, lanes, len(running))
    ends = [*running, *([0.0] * (lanes - len(running)))]
    heapq.heapify(ends)
    for seconds in waiting:
        heapq.heapreplace(ends, ends[0] + seconds)
    return max(ends)


class Progress:
    """A line ``[elapsed, about X left] message``, on a terminal in place, elsewhere at most every ``EVERY`` seconds.

    ``started`` is the ``time.time()`` from which the elapsed time counts.
    """

    def __init__(self, started: float | None = None, stream: TextIO | None = None) -> None:
        self.started = time.time() if started is None else started
        self.stream = sys.stdout if stream is None else stream
        self._tty = self.stream.isatty()
        self._last = 0.0
        self._open_line = False

    def elapsed(self) -> float:
        """Return the seconds since the job began."""
        return time.time() - self.started

    def update(self, message: str, left: float) -> None:
        """Show where the job stands; ``left`` is the estimate of the seconds to its end."""
        if not self._tty and time.time() - self._last < EVERY:
            return
        self._last = time.time()
        line = f"[{clock(self.elapsed())}, about {clock(left)} left] {message}"
        if self._tty:
            width = shutil.get_terminal_size().columns - 1
            self.stream.write("\r\033[K" + line[:width])
            self._open_line = True
        else:
            self.stream.write(line + "\n")
        self.stream.flush()

    def say(self, message: str) -> None:
        """Write a line that stays."""
        self.close()
        self.stream.write(f"[{clock(self.elapsed())}] {message}\n")
        self.stream.flush()

    def close(self) -> None:
        """Clear the line that is rewritten."""
        if self._open_line:
            self.stream.write("\r\033[K")
            self._open_line = False
