"""Part ``start``: whole processes, from their start to the error of a data folder that is missing, or to an import."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import fairseq_localattn

from .report import Row, speed_columns
from .settings import Settings
from .timing import PartProgress, time_rounds

PACKAGE = Path(fairseq_localattn.__file__).parent
MISSING = "no-such-folder"
TRAIN = ("-m", "fairseq_cli.train", MISSING, "--max-tokens", "4096", "--arch")
# Arguments of Python, and the text that the process must end with. The first is the baseline, fairseq's own start.
STARTS: dict[str, tuple[Sequence[str], str]] = {
    "fairseq_train": ((*TRAIN, "transformer"), MISSING),
    "user_dir": ((*TRAIN, "transformer_mma", "--user-dir", str(PACKAGE)), MISSING),
    "path": (("-m", "fairseq_localattn", "--path"), str(PACKAGE)),
    "torch": (("-c", "import torch; print('done')"), "done"),
}


class Process:
    """A Python process, from its start to its end."""

    def __init__(self, name: str) -> None:
        self.name, (self.arguments, self.expected) = name, STARTS[name]
        self.written = ""

    def prepare(self, item: object) -> None:
        self.written = ""

    def run(self) -> None:
        # Let Python cache bytecode, as in an installation.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        done = subprocess.run(
            [sys.executable, *self.arguments],
            cwd=PACKAGE.parent,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.written = done.stdout

    def finish(self) -> None:
        """Raise RuntimeError if the process has not ended where it should."""
        last = self.written.rstrip().rpartition("\n")[2]
        if self.expected not in last:
            raise RuntimeError(f"start of {self.name}: the last line is {last!r}, without {self.expected}")


def run_start(settings: Settings, progress: PartProgress) -> list[Row]:
    """Return the rows of the part, the baseline first."""
    baseline, *others = STARTS
    names = [baseline, *settings.chosen(tuple(others))]
    items = range(settings.warm_up + settings.rounds)
    progress.expect(len(items) * len(names))
    processes = {name: Process(name) for name in names}
    seconds = time_rounds(processes, items, settings, progress)
    return [
        {"system": name, **speed_columns(seconds[baseline], own), "beyond_ms": beyond(seconds[baseline], own)}
        for name, own in seconds.items()
    ]


def beyond(baseline: Sequence[float], own: Sequence[float]) -> float:
    """Return the median over the rounds of the milliseconds that a process takes beyond the baseline."""
    return 1000 * statistics.median(mine - base for base, mine in zip(baseline, own, strict=True))
