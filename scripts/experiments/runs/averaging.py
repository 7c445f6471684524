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
from experiments.system.options import OneLineParser
from experiments.system.processes import described
from fairseq_localattn.errors import COMMAND_ERROR, UsageError
from fairseq_localattn.files import check_file, replaced

if TYPE_CHECKING:
    import torch

# Option → fairseq's names, what these are, and how to have more of them.
KINDS = {
    "last": (BY_UPDATES, "by updates (checkpoint_EPOCH_UPDATES.pt)", "--keep-interval-updates says how many are kept"),
    "last_epochs": (BY_EPOCHS, "by epochs (checkpointEPOCH.pt)", "--keep-last-epochs says how many are kept"),
    "best": (
        BEST_BY,
        "that were the best (checkpoint.best_METRIC_VALUE.pt)",
        "--keep-best-checkpoints keeps at most so many: fairseq keeps one only where it is as good as the worst kept "
        "before, so one alone where the first was the best. Take fewer, or --last or --last-epochs",
    ),
}


def select(folder: Path, kind: str, count: int) -> list[Path]:
    """Return ``count`` checkpoints of a folder that are to be averaged, the newest or the very best one last.

    ``kind`` is one of KINDS. By updates, checkpoint_last.pt counts where it is the newest, as fairseq writes no other
    at the end of an epoch. Raises UsageError where there are fewer.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder")
    if count < 1:
        raise UsageError(f"{count} checkpoints cannot be averaged: at least 1")
    pattern, what, keep = KINDS[kind]
    found = [match for path in sorted(folder.iterdir()) if (match := pattern.fullmatch(path.name))]
    ranked = sorted((float(match[pattern.groups]), match.string) for match in found)
    if kind == "best" and found and not _more_is_better(folder, found):
        ranked.reverse()
    newest = folder / LAST.name
    if kind == "last" and newest.exists() and _updates(newest) > max((number for number, _ in ranked), default=0):
        ranked.append((0, LAST.name))
    if len(ranked) < count:
        raise UsageError(
            f"{folder}: {len(ranked)} checkpoint{'s' * (len(ranked) != 1)} {what}, {count} are needed; {keep}"
        )
    return [folder / name for _, name in ranked[-count:]]


def _updates(path: Path) -> int:
    try:
        return int(_load(path)["optimizer_history"][-1]["num_updates"])
    except (KeyError, IndexError, TypeError):
        raise UsageError(f"{path}: does not say after how many updates it was written") from None


def _more_is_better(folder: Path, found: list[re.Match[str]]) -> bool:
    """Return whether most of the metric is best. Raises UsageError for best checkpoints by several metrics."""
    metrics = sorted({match[1] for match in found})
    if len(metrics) > 1:
        raise UsageError(f"{folder}: best checkpoints by {' and by '.join(metrics)}; name the files themselves")
    cfg = _load(folder / found[0].string).get("cfg") or {}
    return bool(cfg.get("checkpoint", {}).get("maximize_best_checkpoint_metric", False))


def average(paths: Sequence[Path], target: Path, say: Callable[[str], None] = lambda line: None) -> None:
    """Write the mean of checkpoints to ``target``; report progress, and what was not averaged, to ``say``.

    One checkpoint at a time is in memory. Integers and booleans are taken from the last checkpoint. Raises UsageError
    for files that are cut off, not fairseq's, or of different models, and OSError.
    """
    import torch

    real = [path.resolve() for path in paths]
    if twice := [path for path, name in zip(paths, real, strict=True) if real.count(name) > 1]:
        raise UsageError(f"{twice[0]}: is named twice")
    if target.resolve() in real:
        raise UsageError(f"{target}: is one of the checkpoints; write the mean to another file")
    for path in paths:
        path.stat()  # one that is missing is found before the work, and before the target's folder is made
    check_file(target)
    first: dict[str, Any] = {}  # shape and dtype of each parameter
    sums: dict[str, torch.Tensor] = {}  # of floating-point parameters, in double precision
    others: dict[str, torch.Tensor] = {}  # parameters of other types, of the last model
    changed = set()  # names of these that differ between models
    for number, path in enumerate(paths, start=1):
        state = _load(path)
        model: dict[str, torch.Tensor] = state["model"]
        form = {name: (tuple(value.shape), value.dtype) for name, value in model.items()}
        first = first or form
        for name in sorted(first.keys() | form.keys()):
            here, there = form.get(name, "not there"), first.get(name, "not there")
            if here != there:
                raise UsageError(f"{path}: {name} is {here}, but {there} in {paths[0]}: another model")
        for name, value in model.items():
            if value.is_floating_point():
                sums[name] = sums[name].add_(value) if name in sums else value.to(torch.double, copy=True)
            else:
                changed |= {name} if name in others and not torch.equal(value, others[name]) else set()
                others[name] = value.clone()
        say(f"{path.name} ({number} of {len(paths)})")
    if changed:
        say(f"not the same in all, taken from {paths[-1].name}: {', '.join(sorted(changed))}")
    _put_means(model, {name: sum_.div_(len(paths)) for name, sum_ in sums.items()})
    state.pop("last_optimizer_state", None)
    state["extra_state"] = {**(state.get("extra_state") or {}), "averaged": [path.name for path in paths]}
    with replaced(target) as part:
        torch.save(state, part)


def _put_means(model: dict[str, torch.Tensor], means: dict[str, torch.Tensor]) -> None:
    """Put means in place of the parameters, in their precision; shared tensors stay shared."""
    import torch

    one: dict[tuple[object, ...], torch.Tensor] = {}
    for name, mean in means.items():
        old, new = model[name], mean.to(model[name].dtype)
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
    parser = OneLineParser(prog="average", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    told = "a folder, or the files; one file is exported without the optimizer's state"
    parser.add_argument("inputs", nargs="+", type=Path, metavar="FOLDER|FILE", help=told)
    group = parser.add_mutually_exclusive_group()
    for kind, (_, what, _) in KINDS.items():
        group.add_argument(f"--{kind.replace('_', '-')}", type=int, metavar="N", help=f"average N checkpoints {what}")
    parser.add_argument("--output", required=True, type=Path, help="the file to write")
    args = parser.parse_args(argv)
    logging.disable(logging.INFO)  # of fairseq
    chosen = [(kind, getattr(args, kind)) for kind in KINDS if getattr(args, kind) is not None]
    try:
        if chosen and len(args.inputs) > 1:
            raise UsageError("--last, --last-epochs and --best take one folder")
        if not chosen and args.inputs[0].is_dir():
            raise UsageError(f"{args.inputs[0]}: is a folder: give --last, --last-epochs or --best")
        paths = select(args.inputs[0], *chosen[0]) if chosen else args.inputs
        average(paths, args.output, lambda line: print(f"average: {line}", flush=True))
    except (UsageError, OSError) as error:
        print(f"average: error: {described(error).removeprefix(COMMAND_ERROR)}", file=sys.stderr)
        return 2
    print(f"average: written to {args.output}")
    return 0
