"""Steps of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any

from experiments.system.processes import Types, read_stamp

# What a stamp says at least, by its step; where it says less, or something else, the step is done again.
TRAINED: dict[str, Types] = {
    "updates": (int,),
    "parameters": (int, NoneType),
    "attention": (str, NoneType),
    "seed": (int, NoneType),
    "machine": (dict, NoneType),
    **dict.fromkeys(("words_per_second", "steps_per_second", "train_minutes"), (int, float, NoneType)),
}
FACTS: dict[str, dict[str, Types]] = {"train": TRAINED, "average": {"average": (dict,)}}
MEASURED: dict[str, Types] = {"output": (str,)}


@dataclass(frozen=True)
class Step:
    """One command of a run: ``stamp`` is the file that says it is finished, ``subset`` its test set."""

    name: str  # train, average, or a measure's
    stamp: str
    log: str
    doing: str
    subset: str = "test"

    def facts(self, folder: Path) -> dict[str, Any] | None:
        """Return what the step's stamp in a run's folder says; None where the step is not done, or it is damaged."""
        return read_stamp(folder / self.stamp, FACTS.get(self.name, MEASURED))


TRAIN = Step("train", "trained.json", "train.log", "trains")
AVERAGE = Step("average", "averaged.json", "average.log", "averages its checkpoints")
