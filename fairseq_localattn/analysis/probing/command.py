"""Probing: which labels of five tasks a classifier finds in an encoder's states (Table 5 of Hao et al., EMNLP 2019).

    python -m fairseq_localattn.analysis.probing DATA --encoder CHECKPOINT --encoder-data BIN --out results.csv
    python -m fairseq_localattn.analysis.probing DATA --arch transformer_mgsa_small [model flags] --out results.csv

DATA is what data-prep/prepare_probing.sh writes. With --encoder the encoder of a trained translation model is frozen,
and a classifier with one hidden layer learns from its states. With --arch a new encoder, of three layers unless
--encoder-layers says otherwise, and the classifier are trained together, one model a task. The epoch that is best on
the validation set is scored on the test set. One row a task goes into the CSV file; rows that are there are not made
again, and a run that was killed is continued by the same command. The paper samples its sentences like Conneau et al.
(2018), whose classes are balanced: --balance.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...errors import UsageError
from ..accuracy import wilson_interval
from ..command import check_output, show_progress_alone
from .data import SPLITS, Labelled, ProbingData, number_labels
from .labels import BALANCED, TASKS, balanced, classes_of
from .models import (
    Classifier,
    Probed,
    Vectors,
    architecture_options,
    needs_phrases,
    new_encoder,
    trained_encoder,
    vectors_of,
)
from .report import Progress, Row, add_row, read_rows
from .train import Outcome, Part, SentencePart, Settings, Trainer, VectorPart


def positive(text: str) -> int:
    """A whole number from 1; argparse tells the user of the ValueError."""
    if (number := int(text)) < 1:
        raise ValueError(text)
    return number


def rate(text: str) -> float:
    if not 0 < (number := float(text)) < 1:
        raise ValueError(text)
    return number


# Of a classifier on a trained encoder's states (a batch is of that many states), and of a new encoder with it (tokens).
FROZEN = Settings(epochs=20, lr=1e-3, warmup=100, max_tokens=128, hidden=256)
SCRATCH = Settings(epochs=4, lr=1e-3, warmup=200, max_tokens=2000, hidden=256)
TUNED: list[tuple[str, Callable[[str], Any], str]] = [
    ("epochs", positive, "passes over the training sentences"),
    ("lr", rate, "highest learning rate"),
    ("warmup", positive, "updates until it is reached"),
    ("max_tokens", positive, "tokens of a batch, with --encoder its sentences or words"),
    ("hidden", positive, "hidden units of the classifier"),
]
STATES_TOKENS = 4000  # of a batch, when states are computed


@dataclass(frozen=True)
class Labels:
    """The classes of a task, and its labels by split."""

    classes: list[str]
    splits: dict[str, Labelled]


class Probe:
    """An encoder, trained or new, with the data and the settings by which it is probed."""

    def __init__(self, args: argparse.Namespace, flags: Sequence[str], settings: Settings) -> None:
        self.args, self.settings = args, settings
        self.data = ProbingData(args.data)
        self.device = torch.device("cuda" if torch.cuda.is_available() and not args.cpu else "cpu")
        self.pretrained = args.encoder is not None
        self.options = None if self.pretrained else architecture_options(args.arch, flags)
        self.what = {
            "data": self.data.digest(),
            "encoder": hashlib.sha256(args.encoder.read_bytes()).hexdigest() if args.encoder else [args.arch, *flags],
            "settings": asdict(settings),
            "seed": args.seed,
            "balance": args.balance,
        }

    def digest(self, task: str) -> str:
        """A checksum of all that decides a task's result."""
        return hashlib.sha256(json.dumps({**self.what, "task": task}, sort_keys=True).encode()).hexdigest()[:12]

    def load(self) -> None:
        """Load the encoder, or see that it can be built, and read the sentences. Raises UsageError."""
        args = self.args
        if self.pretrained:
            self.encoder, self.architecture = trained_encoder(args.encoder, args.encoder_data, self.data, args.cpu)
        else:
            self.encoder, self.architecture = self._new_encoder(), args.arch
        longest = int(self.encoder.max_positions())  # type: ignore[operator]
        phrases = needs_phrases(self.encoder)
        self.sentences = {split: self.data.sentences(split, longest, phrases) for split in SPLITS}
        self._vectors: dict[str, Vectors] = {}

    def _new_encoder(self) -> nn.Module:
        assert self.options is not None
        torch.manual_seed(self.args.seed)
        return new_encoder(self.options, self.data)

    def labels(self, task: str) -> Labels:
        """The labels of a task. Raises UsageError where a split has none."""
        read: dict[str, Sequence[Sequence[str]]] = {
            split: self.data.labels(split, task, self.sentences[split]) for split in SPLITS
        }
        if self.args.balance and task in BALANCED:
            read = {split: balanced(labels) for split, labels in read.items()}
        classes = classes_of(task, (label for labels in read["train"] for label in labels))
        found = Labels(classes, {split: number_labels(labels, classes) for split, labels in read.items()})
        for split, labelled in found.splits.items():
            if not labelled.numbers:
                raise UsageError(f"{self.data.folder / f'{split}.{task}.labels'}: no sentence has a label")
        return found

    def cost(self, labels: Labels) -> int:
        """Items that training on a task goes through, which are what its progress is told in."""
        train = labels.splits["train"]
        if self.pretrained:
            return self.settings.epochs * len(train.flat)
        return self.settings.epochs * int(self.sentences["train"].tokens.sizes[train.numbers].sum())

    def model(self, task: str, labels: Labels) -> nn.Module:
        """What is trained on a task: the classifier, with a new encoder where none is trained. Weights by the seed."""
        encoder: Any = self.encoder if self.pretrained else self._new_encoder()
        torch.manual_seed(self.args.seed)
        settings = self.settings
        classifier = Classifier(encoder.cfg.encoder.embed_dim, settings.hidden, len(labels.classes), settings.dropout)
        model = classifier if self.pretrained else Probed(encoder, classifier, task, self.data.dictionary.pad())
        return model.to(self.device)

    def part(self, split: str, task: str, labels: Labels, progress: Progress) -> Part:
        """A split for a Trainer; the states of a trained encoder are computed once, for all tasks."""
        labelled, words, size = labels.splits[split], self.data.dictionary, self.settings.max_tokens
        if not self.pretrained:
            return SentencePart(self.sentences[split], labelled, words, size, self.device)
        if split not in self._vectors:
            self._vectors[split] = vectors_of(
                self.encoder, self.sentences[split], words, STATES_TOKENS, self.device, progress.update
            )
        return VectorPart(self._vectors[split], labelled, task, size, self.device)

    def row(self, task: str, labels: Labels, outcome: Outcome, model: nn.Module) -> Row:
        splits, args = labels.splits, self.args
        low, high = wilson_interval(outcome.correct, outcome.total)
        majority = int(splits["train"].flat.bincount().argmax())
        modules = [model, self.encoder] if self.pretrained else [model]
        return Row(
            name=args.name or self.architecture,
            training="pre-trained" if self.pretrained else "scratch",
            architecture=self.architecture,
            task=task,
            balanced=args.balance and task in BALANCED,
            seed=args.seed,
            accuracy=100 * outcome.correct / outcome.total,
            low=100 * low,
            high=100 * high,
            correct=outcome.correct,
            total=outcome.total,
            majority=100 * float((splits["test"].flat == majority).double().mean()),
            classes=len(labels.classes),
            valid_accuracy=100 * outcome.valid_accuracy,
            best_epoch=outcome.epoch,
            epochs=self.settings.epochs,
            train_sentences=len(splits["train"].numbers),
            left_out=sum(part.left_out for part in splits.values()),
            parameters=sum(weights.numel() for module in modules for weights in module.parameters()),
            seconds=round(outcome.seconds),
            settings=self.digest(task),
        )


def describe(row: Row) -> str:
    return (
        f"{row.name}, {row.task}, seed {row.seed}: accuracy {row.accuracy:.2f} (95 % interval {row.low:.2f} to "
        f"{row.high:.2f}), {row.correct:,} of {row.total:,}; majority {row.majority:.2f}, {row.classes} classes; "
        f"epoch {row.best_epoch} of {row.epochs}, valid {row.valid_accuracy:.2f}; {row.seconds} s"
    )


def probe_task(probe: Probe, task: str, labels: Labels, file: Path, progress: Progress) -> Row:
    """Train and score one task; ``file`` keeps its state."""
    model = probe.model(task, labels)
    parts = [probe.part(split, task, labels, progress) for split in SPLITS]
    trainer = Trainer(model, parts, probe.settings, probe.args.seed, file)
    progress.skip(trainer.epoch * trainer.train.items)
    outcome = trainer.run(lambda items, text: progress.update(items, f"{task}, {text}"))
    return probe.row(task, labels, outcome, model)


def run(probe: Probe, tasks: Sequence[str], out: Path) -> None:
    """Make the rows that the file lacks."""
    there = {row["settings"] for row in read_rows(out)}
    missing = [task for task in tasks if probe.digest(task) not in there]
    for task in tasks:
        if task not in missing:
            print(f"{task}: {out} has its row", flush=True)
    if not missing:
        return
    probe.load()
    labels = {task: probe.labels(task) for task in missing}
    progress = Progress(sum(map(probe.cost, labels.values())))
    folder = out.with_name(f"{out.name}.parts")
    folder.mkdir(exist_ok=True)
    for task in missing:
        file = folder / f"{probe.digest(task)}.pt"
        row = probe_task(probe, task, labels[task], file, progress)
        add_row(out, row)
        file.unlink()
        progress.close()
        print(describe(row), flush=True)
    if not any(folder.iterdir()):
        folder.rmdir()


def parse_tasks(text: str) -> list[str]:
    """``all`` or names with commas, each once. Raises UsageError for a task that there is not."""
    names = list(TASKS) if text == "all" else list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in TASKS:
            raise UsageError(f"--tasks: {name!r} is none of {', '.join(TASKS)}")
    return names


def make_parser() -> argparse.ArgumentParser:
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
    for name, kind_of, what in TUNED:
        frozen, scratch = getattr(FROZEN, name), getattr(SCRATCH, name)
        defaults = f"default: {scratch}" + (f", with --encoder {frozen}" if frozen != scratch else "")
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind_of, metavar="N", help=f"{what} ({defaults})")
    parser.add_argument("--cpu", action="store_true", help="do not use the GPU")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Print a line for each task, and add its row to the file."""
    parser = make_parser()
    args, flags = parser.parse_known_args(argv)
    if args.encoder and flags:
        parser.error(f"unknown: {' '.join(flags)}; a trained encoder has its options already")
    if (args.encoder is None) != (args.encoder_data is None):
        parser.error("--encoder and --encoder-data belong together: a checkpoint, and the data of its training")
    tasks = parse_tasks(args.tasks)
    show_progress_alone()
    if args.encoder and not args.encoder.is_file():
        raise UsageError(f"--encoder {args.encoder}: no such file")
    check_output(args.out, "--out")
    given = {name: getattr(args, name) for name, _, _ in TUNED if getattr(args, name) is not None}
    settings = replace(FROZEN if args.encoder else SCRATCH, **given)
    run(Probe(args, flags, settings), tasks, args.out)
