"""The command ``python -m fairseq_localattn.analysis.probing`` (Table 5 of Hao et al., EMNLP 2019).

    python -m fairseq_localattn.analysis.probing DATA --encoder CHECKPOINT --encoder-data BIN --out results.csv
    python -m fairseq_localattn.analysis.probing DATA --arch transformer_mgsa_small [model flags] --out results.csv

DATA is a folder that data-prep/prepare_probing.sh wrote. With --encoder, the encoder of a trained translation model is
frozen, and a classifier with one hidden layer is trained on its states. With --arch, a new encoder (of three layers
unless --encoder-layers is given) and the classifier are trained together, one model a task. The epoch with the best
accuracy on the validation set is scored on the test set.

Each task adds a row to the CSV file. Existing rows are kept, and a run that was killed is continued by the same
command. The paper samples its sentences like Conneau et al. (2018), whose classes are balanced: --balance.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import UsageError
from ...progress import progress_bar
from ..command import add_user_dir, check_checkpoint, check_output, show_progress_alone
from .labels import BALANCED, TASKS
from .probe import Probe
from .report import add_row, describe, read_rows
from .train import Settings


def positive(text: str) -> int:
    """Return a whole number from 1. Raises ValueError, which argparse reports, for other texts."""
    if (number := int(text)) < 1:
        raise ValueError(text)
    return number


def rate(text: str) -> float:
    """Return a number between 0 and 1, both excluded. Raises ValueError for other texts."""
    if not 0 < (number := float(text)) < 1:
        raise ValueError(text)
    return number


# Defaults for a classifier on a trained encoder (max_tokens counts states), and for a new encoder with its classifier.
FROZEN = Settings(epochs=20, lr=1e-3, warmup=100, max_tokens=128, hidden=256)
SCRATCH = Settings(epochs=4, lr=1e-3, warmup=200, max_tokens=2000, hidden=256)
# Name, type and help of each option for the settings.
SETTING_OPTIONS: list[tuple[str, Callable[[str], Any], str]] = [
    ("epochs", positive, "passes over the training sentences"),
    ("lr", rate, "highest learning rate"),
    ("warmup", positive, "updates until it is reached"),
    ("max_tokens", positive, "tokens of a batch, with --encoder its sentences or words"),
    ("hidden", positive, "hidden units of the classifier"),
]


def run(probe: Probe, tasks: Sequence[str], out: Path) -> None:
    """Compute the rows that the file ``out`` lacks, and add them to it."""
    existing = {row["settings"] for row in read_rows(out)}
    missing = [task for task in tasks if probe.digest(task) not in existing]
    for task in tasks:
        if task not in missing:
            print(f"{task}: {out} has its row", flush=True)
    if not missing:
        return
    probe.load(missing)
    labels = {task: probe.labels(task) for task in missing}
    folder = out.with_name(f"{out.name}.parts")
    check_output(folder / "task.pt", "--out")
    with progress_bar(sum(map(probe.cost, labels.values())), "items") as bar:

        def on_progress(items: int, message: str) -> None:
            bar.set_description(message, refresh=False)
            bar.update(items)

        for task in missing:
            file = folder / f"{probe.digest(task)}.pt"
            row = probe.run(task, labels[task], file, on_progress, skip=bar.skip)
            add_row(out, row)
            file.unlink()
            bar.clear()
            print(describe(row), flush=True)
    if not any(folder.iterdir()):
        folder.rmdir()


def parse_tasks(text: str) -> list[str]:
    """Return the tasks of ``all`` or of names with commas, each once. Raises UsageError for an unknown task."""
    names = list(TASKS) if text == "all" else list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in TASKS:
            raise UsageError(f"--tasks: {name!r} is none of {', '.join(TASKS)}")
    return names


def make_parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_localattn.analysis.probing",
        description="Train a classifier of syntactic labels on an encoder's states, and print its accuracy (Table 5 of "
        "Hao et al. 2019).",
        epilog="With --arch all other flags are the model's, as of fairseq-train: --mgsa-partition ngram …",
        allow_abbrev=False,
    )
    parser.add_argument("data", type=Path, metavar="DATA", help="folder bin of data-prep/prepare_probing.sh")
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--encoder", type=Path, metavar="CHECKPOINT", help="a translation model: probe its encoder")
    kind.add_argument("--arch", help="a translation architecture: train its encoder, with three layers, from scratch")
    parser.add_argument("--encoder-data", type=Path, metavar="BIN", help="with --encoder: the data of its training")
    parser.add_argument("--tasks", default="all", metavar="T,T", help=f"{','.join(TASKS)} (default: all)")
    parser.add_argument(
        "--balance",
        action="store_true",
        help=f"of {' and '.join(BALANCED)}, use as many sentences of each class as there are of the rarest",
    )
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--out", type=Path, required=True, metavar="CSV", help="file that the rows are added to")
    parser.add_argument("--name", help="what to call the encoder in the rows (default: its architecture)")
    for name, kind_of, what in SETTING_OPTIONS:
        frozen, scratch = getattr(FROZEN, name), getattr(SCRATCH, name)
        defaults = f"default: {scratch}" + (f", with --encoder {frozen}" if frozen != scratch else "")
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind_of, metavar="N", help=f"{what} ({defaults})")
    parser.add_argument("--cpu", action="store_true", help="do not use the GPU")
    add_user_dir(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Print a line for each task, and add its row to the file. Raises UsageError for invalid arguments and data."""
    parser = make_parser()
    args, flags = parser.parse_known_args(argv)
    if args.encoder and flags:
        parser.error(f"unknown: {' '.join(flags)}; a trained encoder has its options already")
    if (args.encoder is None) != (args.encoder_data is None):
        parser.error("--encoder and --encoder-data belong together: a checkpoint, and the data of its training")
    tasks = parse_tasks(args.tasks)
    show_progress_alone()
    if args.encoder:
        check_checkpoint(args.encoder, "--encoder")
    check_output(args.out, "--out")
    given = {name: getattr(args, name) for name, _, _ in SETTING_OPTIONS if getattr(args, name) is not None}
    settings = replace(FROZEN if args.encoder else SCRATCH, **given)
    run(Probe(args, flags, settings), tasks, args.out)
