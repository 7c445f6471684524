"""The probe of one encoder: its data, the training and scoring of its tasks, and their rows of results."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...errors import UsageError
from ..accuracy import wilson_interval
from .data import SPLITS, Labelled, ProbingData, number_labels
from .labels import BALANCED, WORD_TASKS, balanced, classes_of
from .models import (
    Classifier,
    OnProgress,
    Probed,
    Vectors,
    architecture_options,
    needs_phrases,
    new_encoder,
    trained_encoder,
    vectors_of,
)
from .report import Row
from .train import Outcome, Part, SentencePart, Settings, Trainer, VectorPart

STATES_TOKENS = 4000  # tokens of a batch when the states of a trained encoder are computed


@dataclass(frozen=True)
class Labels:
    """The classes of a task, and its labels by split."""

    classes: list[str]
    splits: dict[str, Labelled]


class Probe:
    """An encoder, trained or new, with the data and the settings of its probing tasks.

    Args:
        args: the arguments of the command.
        flags: the flags of the model, for a new encoder.
        settings: of the training.

    Raises UsageError for a folder without data, and for an unknown architecture or invalid flags.
    """

    def __init__(self, args: argparse.Namespace, flags: Sequence[str], settings: Settings) -> None:
        self.args, self.settings = args, settings
        self.data = ProbingData(args.data)
        self.device = torch.device("cuda" if torch.cuda.is_available() and not args.cpu else "cpu")
        self.pretrained = args.encoder is not None
        self.options = None if self.pretrained else architecture_options(args.arch, flags)
        self.identity = {
            "data": self.data.digest(),
            "encoder": hashlib.sha256(args.encoder.read_bytes()).hexdigest() if args.encoder else [args.arch, *flags],
            "settings": asdict(settings),
            "seed": args.seed,
            "balance": args.balance,
        }

    def digest(self, task: str) -> str:
        """Return a checksum of everything that determines a task's result."""
        return hashlib.sha256(json.dumps({**self.identity, "task": task}, sort_keys=True).encode()).hexdigest()[:12]

    def load(self, tasks: Sequence[str]) -> None:
        """Load the encoder, or check that it can be built, and the sentences for these tasks. Raises UsageError."""
        args = self.args
        self._words = any(task in WORD_TASKS for task in tasks)
        if self.pretrained:
            self.encoder, self.architecture = trained_encoder(args.encoder, args.encoder_data, self.data, args.cpu)
        else:
            self.encoder, self.architecture = self._new_encoder(), args.arch
        longest = int(self.encoder.max_positions())  # type: ignore[operator]
        phrases = needs_phrases(self.encoder)
        self.sentences = {split: self.data.sentences(split, longest, phrases) for split in SPLITS}
        self._vectors: dict[str, Vectors] = {}

    def _new_encoder(self) -> nn.Module:
        """Return a new encoder whose weights follow from the seed."""
        assert self.options is not None
        torch.manual_seed(self.args.seed)
        return new_encoder(self.options, self.data)

    def labels(self, task: str) -> Labels:
        """Return the labels of a task. Raises UsageError for a split without labels."""
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
        """Return the number of items in the training of a task: labels for a trained encoder, tokens for a new one."""
        train = labels.splits["train"]
        if self.pretrained:
            return self.settings.epochs * len(train.flat)
        return self.settings.epochs * int(self.sentences["train"].tokens.sizes[train.numbers].sum())

    def run(
        self, task: str, labels: Labels, file: Path, on_progress: OnProgress, *, skip: Callable[[int], None]
    ) -> Row:
        """Train and score one task.

        ``file`` keeps the state of its training; ``skip`` is called with the number of items that it holds already.
        """
        model = self._model(task, labels)
        parts = [self._part(split, task, labels, on_progress) for split in SPLITS]
        trainer = Trainer(model, parts, self.settings, seed=self.args.seed, file=file)
        skip(trainer.epoch * trainer.train.items)
        outcome = trainer.run(lambda items, message: on_progress(items, f"{task}, {message}"))
        return self._row(task, labels, outcome, model)

    def _model(self, task: str, labels: Labels) -> nn.Module:
        """Return the model to train, with weights by the seed: the classifier, alone or with a new encoder."""
        encoder: Any = self.encoder if self.pretrained else self._new_encoder()
        torch.manual_seed(self.args.seed)
        settings = self.settings
        classifier = Classifier(encoder.cfg.encoder.embed_dim, settings.hidden, len(labels.classes), settings.dropout)
        model = classifier if self.pretrained else Probed(encoder, classifier, task, self.data.dictionary.pad())
        return model.to(self.device)

    def _part(self, split: str, task: str, labels: Labels, on_progress: OnProgress) -> Part:
        """Return a split for a :class:`Trainer`; the states of a trained encoder are computed once for all tasks."""
        labelled, words, size = labels.splits[split], self.data.dictionary, self.settings.max_tokens
        if not self.pretrained:
            return SentencePart(self.sentences[split], labelled, words, max_tokens=size, device=self.device)
        if split not in self._vectors:
            self._vectors[split] = vectors_of(
                self.encoder,
                self.sentences[split],
                words,
                STATES_TOKENS,
                words=self._words,
                device=self.device,
                on_progress=on_progress,
            )
        return VectorPart(self._vectors[split], labelled, task, size=size, device=self.device)

    def _row(self, task: str, labels: Labels, outcome: Outcome, model: nn.Module) -> Row:
        """Return the row of a task's result."""
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
