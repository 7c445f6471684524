"""The commands of which a run consists."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One command of a run: `stamp` is the file that says it is finished, `subset` of the data what it measures."""

    name: str  # train, average, or a measure's
    stamp: str
    log: str
    doing: str
    subset: str = "test"


TRAIN = Step("train", "trained.json", "train.log", "trains")
AVERAGE = Step("average", "averaged.json", "average.log", "averages its checkpoints")
