"""Trainings on several machines: the first one leads, the others take part in each training that it announces.

The machines share a file system. Machine 0 does all that a single one would do; when it begins to train a run it writes
down which, and the others start the same command, which meets the first at the rendezvous.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.runs.launch import Launch
from experiments.runs.processes import read_stamp, write_stamp


class Leader:
    """What machine 0 of one rendezvous says, in a file under `folder` that the others read."""

    def __init__(self, launch: Launch, folder: Path) -> None:
        self.launch = launch
        self.path = folder / f".training.{re.sub(r'[^A-Za-z0-9.]', '_', launch.rendezvous)}.json"

    def begin(self) -> None:
        """Takes back what was said before this start."""
        if self._speaks():
            self.path.unlink(missing_ok=True)

    def announce(self, folder: Path) -> None:
        """Tells the other machines that the run of this folder is trained now."""
        if self._speaks():
            write_stamp(self.path, {"train": folder.name, "at": time.time_ns()})

    def end(self) -> None:
        """Tells the other machines that there is nothing more to do."""
        if self._speaks():
            write_stamp(self.path, {"end": True, "at": time.time_ns()})

    def _speaks(self) -> bool:
        return self.launch.nodes > 1 and self.launch.node_rank == 0

    def said(self) -> Mapping[str, Any]:
        """What was said last: `train` (a folder's name) or `end`, and `at`; empty where nothing was."""
        return read_stamp(self.path) or {}

    def written(self) -> float:
        """When, by the clock of the file system."""
        return self.path.stat().st_mtime if self.path.exists() else 0.0
