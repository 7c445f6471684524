"""Average the parameters of checkpoints of one training, into a checkpoint that fairseq-generate reads.

    python scripts/average.py FOLDER --last 5 --output averaged.pt           the last by updates: checkpoint_E_U.pt
    python scripts/average.py FOLDER --last-epochs 5 --output averaged.pt    the last by epochs: checkpointE.pt
    python scripts/average.py FOLDER --best 5 --output averaged.pt           those of --keep-best-checkpoints
    python scripts/average.py ONE.pt OTHER.pt ... --output averaged.pt
    python scripts/average.py ONE.pt --output model.pt                       export one: without the optimizer's state

The mean is taken in double precision and written in the precision of the parameters. All else is that of the last
checkpoint (with --best: of the very best one), without the optimizer's state. Checkpoints are read as data: one that
holds code is refused. The file is written whole or not at all.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.runs.checkpoints import BEST_BY, BY_EPOCHS, BY_UPDATES, LAST, whole
from fairseq_localattn.errors import COMMAND_ERROR, UsageError
from fairseq_localattn.files import check_file, described, replaced

if TYPE_CHECKING:
    import torch

KEPT_BY = {
    BY_UPDATES: ("by updates (checkpoint_EPOCH_UPDATES.pt)", "--keep-interval-updates says how many are kept"),
    BY_EPOCHS: ("by epochs (checkpointEPOCH.pt)", "--keep-last-epochs says how many are kept"),
    BEST_BY: (
        "that were the best (checkpoint.best_METRIC_VALUE.pt)",
        "--keep-best-checkpoints keeps at most so many: fairseq keeps one only where it is as good as the worst kept "
        "before, so one alone where the first was the best. Take fewer, or --last or --last-epochs",
    ),
}


def select(
    folder: Path, *, last: int | None = None, last_epochs: int | None = None, best: int | None = None
) -> list[Path]:
    """Return the checkpoints of a folder that are to be averaged, the newest or the very best one last.

    Give one of ``last`` (by updates), ``last_epochs`` and ``best``: how many. By updates, checkpoint_last.pt counts
    where it is the newest, as fairseq writes no other at the end of an epoch.
    Raises UsageError where there are fewer.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder")
    if best is not None:
        return _best(folder, best)
    if last_epochs is not None:
        epochs = sorted((int(match[1]), match.string) for match in _matches(folder, BY_EPOCHS))
        return _enough(folder, [name for _, name in epochs], BY_EPOCHS, last_epochs)
    updates = sorted((int(match[2]), match.string) for match in _matches(folder, BY_UPDATES))
    newest = folder / LAST.name
    if newest.exists() and _updates(newest) > max((number for number, _ in updates), default=0):
        updates.append((0, LAST.name))
    return _enough(folder, [name for _, name in updates], BY_UPDATES, last or 0)


def _updates(path: Path) -> int:
    try:
        return int(_load(path)["optimizer_history"][-1]["num_updates"])
    except (KeyError, IndexError, TypeError):
        raise UsageError(f"{path}: does not say after how many updates it was written") from None


def _best(folder: Path, count: int) -> list[Path]:
    found = [(match[1], float(match[2]), match.string) for match in _matches(folder, BEST_BY)]
    metrics = sorted({metric for metric, _, _ in found})
    if len(metrics) > 1:
        raise UsageError(f"{folder}: best checkpoints by {' and by '.join(metrics)}; name the files themselves")
    if not found:
        return _enough(folder, [], BEST_BY, count)
    cfg = _load(folder / found[0][2]).get("cfg") or {}
    more_is_better = bool(cfg.get("checkpoint", {}).get("maximize_best_checkpoint_metric", False))
    ranked = sorted(found, key=lambda entry: entry[1], reverse=not more_is_better)
    return _enough(folder, [name for _, _, name in ranked], BEST_BY, count)


def _matches(folder: Path, pattern: re.Pattern[str]) -> list[re.Match[str]]:
    return [match for path in sorted(folder.iterdir()) if (match := pattern.fullmatch(path.name))]


def _enough(folder: Path, found: list[str], kind: re.Pattern[str], count: int) -> list[Path]:
    if count < 1:
        raise UsageError(f"{count} checkpoints cannot be averaged: at least 1")
    if len(found) < count:
        what, keep = KEPT_BY[kind]
        raise UsageError(
            f"{folder}: {len(found)} checkpoint{'s' * (len(found) != 1)} {what}, {count} are needed; {keep}"
        )
    return [folder / name for name in found[-count:]]


def average(paths: Sequence[Path], target: Path, say: Callable[[str], None] = lambda line: None) -> None:
    """Write the mean of checkpoints to ``target``; report progress, and what was not averaged, to ``say``.

    One checkpoint at a time is in memory. Integers and booleans are taken from the last checkpoint. Raises UsageError
    for files that are missing, cut off, not fairseq's, or of different models, and OSError.
    """
    import torch

    _check_files(paths, target)
    mean = _Mean()
    for number, path in enumerate(paths, start=1):
        state = _load(path)
        mean.add(path, state["model"])
        say(f"{path.name} ({number} of {len(paths)})")
    if mean.changed:
        say(f"not the same in all, taken from {paths[-1].name}: {', '.join(sorted(mean.changed))}")
    mean.put_into(state["model"])
    state.pop("last_optimizer_state", None)
    state["extra_state"] = {**(state.get("extra_state") or {}), "averaged": [path.name for path in paths]}
    with replaced(target) as part:
        torch.save(state, part)


def _check_files(paths: Sequence[Path], target: Path) -> None:
    for path in paths:
        if not path.is_file():
            raise UsageError(f"{path}: no such file")
    real = [path.resolve() for path in paths]
    if not real:
        raise UsageError("no checkpoints to average")
    if twice := [path for path, name in zip(paths, real, strict=True) if real.count(name) > 1]:
        raise UsageError(f"{twice[0]}: is named twice")
    if target.resolve() in real:
        raise UsageError(f"{target}: is one of the checkpoints; write the mean to another file")
    if not target.parent.is_dir():
        raise UsageError(f"{target.parent}: no such folder to write to")
    check_file(target)


class _Mean:
    """Running sum of models by parameter, in double precision."""

    def __init__(self) -> None:
        self.count = 0
        self.sums: dict[str, torch.Tensor] = {}  # floating-point parameters
        self.others: dict[str, torch.Tensor] = {}  # other parameters, of the last model
        self.changed: set[str] = set()  # names of other parameters that differ between models
        self.first: tuple[Path, dict[str, Any]] | None = None  # path, and shape and dtype of each parameter

    def add(self, path: Path, model: dict[str, torch.Tensor]) -> None:
        """Add a model. Raises UsageError for parameters that differ in shape or dtype."""
        import torch

        self._compare(path, {name: (tuple(value.shape), value.dtype) for name, value in model.items()})
        self.count += 1
        for name, value in model.items():
            if not value.is_floating_point():
                if name in self.others and not torch.equal(value, self.others[name]):
                    self.changed.add(name)
                self.others[name] = value.clone()
            elif name in self.sums:
                self.sums[name] += value
            else:
                self.sums[name] = value.double() if value.dtype != torch.double else value.clone()

    def _compare(self, path: Path, parameters: dict[str, Any]) -> None:
        if self.first is None:
            self.first = path, parameters
        other, expected = self.first
        for name in sorted(expected.keys() | parameters.keys()):
            here, there = parameters.get(name, "not there"), expected.get(name, "not there")
            if here != there:
                raise UsageError(f"{path}: {name} is {here}, but {there} in {other}: another model")

    def put_into(self, model: dict[str, torch.Tensor]) -> None:
        """Put the means in place of the parameters, in their precision; shared tensors stay shared."""
        import torch

        one: dict[tuple[object, ...], torch.Tensor] = {}
        for name, sum_ in self.sums.items():
            old, new = model[name], (sum_ / self.count).to(model[name].dtype)
            place = (old.untyped_storage().data_ptr(), old.storage_offset(), old.shape, old.stride(), old.dtype)
            same = one.setdefault(place, new)
            model[name] = same if torch.equal(same, new) else new


def _load(path: Path) -> dict[str, Any]:
    """Return a checkpoint, mapped into memory and read as data. Raises UsageError."""
    from fairseq_localattn.stored.reading import read  # here, as the import takes seconds

    with open(path, "rb") as file:
        archive = file.read(2) != b"\x80\x02"  # as torch has written since 1.6; before that, pickles
    if archive and not whole(path):
        raise UsageError(f"{path}: half a file, or no checkpoint of fairseq's")
    return dict(read(str(path)))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="average", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    told = "a folder, or the files; one file is exported without the optimizer's state"
    parser.add_argument("inputs", nargs="+", type=Path, metavar="FOLDER|FILE", help=told)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--last", type=int, metavar="N", help="the last of the folder, by updates")
    group.add_argument("--last-epochs", type=int, metavar="N", help="the last of the folder, by epochs")
    group.add_argument("--best", type=int, metavar="N", help="the best of the folder, of --keep-best-checkpoints")
    parser.add_argument("--output", required=True, type=Path, help="the file to write")
    args = parser.parse_args(argv)
    logging.disable(logging.INFO)  # of fairseq
    how = {name: getattr(args, name) for name in ("last", "last_epochs", "best") if getattr(args, name) is not None}
    try:
        if how and len(args.inputs) > 1:
            raise UsageError("--last, --last-epochs and --best take one folder")
        if not how and args.inputs[0].is_dir():
            raise UsageError(f"{args.inputs[0]}: is a folder: give --last, --last-epochs or --best")
        paths = select(args.inputs[0], **how) if how else args.inputs
        average(paths, args.output, lambda line: print(f"average: {line}", flush=True))
    except (UsageError, OSError) as error:
        said = described(error) if isinstance(error, OSError) else str(error).removeprefix(COMMAND_ERROR)
        print(f"average: error: {said}", file=sys.stderr)
        return 2
    print(f"average: written to {args.output}")
    return 0
