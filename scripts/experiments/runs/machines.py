"""Trainings on several machines with a common file system.

Machine 0 does what a single machine would do. When it begins a training it announces the run in a file, and the other
machines start the same training, which meets that of machine 0 at the rendezvous.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import Any

from experiments.runs.launch import Launch
from experiments.runs.processes import read_stamp, write_stamp


class Leader:
    """Announcements of machine 0 to the other machines of its rendezvous, in a file under ``folder``."""

    def __init__(self, launch: Launch, folder: Path) -> None:
        self.launch = launch
        self.path = folder / f".training.{re.sub(r'[^A-Za-z0-9.]', '_', launch.rendezvous)}.json"

    def begin(self) -> None:
        """Remove the announcement of an earlier start."""
        if self._speaks():
            self.path.unlink(missing_ok=True)

    def announce(self, folder: Path) -> None:
        """Tell the other machines that the run of this folder is trained now."""
        if self._speaks():
            write_stamp(self.path, {"train": folder.name, "at": time.time_ns()})

    def end(self) -> None:
        """Tell the other machines that all is done."""
        if self._speaks():
            write_stamp(self.path, {"end": True, "at": time.time_ns()})

    def _speaks(self) -> bool:
        return self.launch.nodes > 1 and self.launch.node_rank == 0

    def said(self) -> Mapping[str, Any]:
        """Return the last announcement: ``train`` (a folder's name) or ``end``, and ``at``; empty without one."""
        found = read_stamp(self.path, {"at": (int,), "train": (str, NoneType)}) or {}
        return found if "train" in found or "end" in found else {}

    def written(self) -> float:
        """Return the time of the last announcement by the clock of the file system; 0 without one."""
        return self.path.stat().st_mtime if self.path.exists() else 0.0
