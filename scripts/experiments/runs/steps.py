"""Steps of a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One command of a run: ``stamp`` is the file that says it is finished, ``subset`` its test set."""

    name: str  # train, average, or a measure's
    stamp: str
    log: str
    doing: str
    subset: str = "test"


TRAIN = Step("train", "trained.json", "train.log", "trains")
AVERAGE = Step("average", "averaged.json", "average.log", "averages its checkpoints")
