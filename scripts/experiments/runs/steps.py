"""Steps of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.system.processes import read_stamp


@dataclass(frozen=True)
class Step:
    """One command of a run: ``stamp`` is the file that says it is finished, ``subset`` its test set."""

    name: str  # train, average, or a measure's
    stamp: str
    log: str
    doing: str
    subset: str = "test"
    needs: tuple[str, ...] = ()  # facts without which a stamp is damaged, and the step is done again

    def facts(self, folder: Path) -> dict[str, Any] | None:
        """Return what the step's stamp in a run's folder says; None where the step is not done, or it is damaged."""
        return read_stamp(folder / self.stamp, *self.needs)


TRAIN = Step("train", "trained.json", "train.log", "trains", needs=("updates",))
AVERAGE = Step("average", "averaged.json", "average.log", "averages its checkpoints", needs=("average",))
