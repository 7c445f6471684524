"""Training and scoring of one probing task: Adam, and the epoch with the best accuracy on the validation set.

The state is saved after each epoch. A training that was killed continues from there with the same result, because the
batches and the dropout of an epoch depend only on the seed and the epoch's number.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from fairseq.data import Dictionary
from torch import Tensor, nn

from ...errors import UsageError
from ..command import written
from .data import Labelled, Sentences, batches
from .labels import WORD_TASKS
from .models import OnProgress, Vectors


@dataclass(frozen=True)
class Settings:
    """Settings of a training.

    Args:
        epochs: passes over the training set.
        lr: learning rate, reached after ``warmup`` updates; then it falls with the inverse square root of the update.
        max_tokens: tokens of a batch, or vectors of a frozen encoder.
        hidden: hidden units of the classifier. dropout: of the classifier.
        clip: largest norm of the gradient.
    """

    epochs: int
    lr: float
    warmup: int
    max_tokens: int
    hidden: int
    dropout: float = 0.1
    clip: float = 1.0


class Part(Protocol):
    """A split for one task; ``items`` is the number of labels or tokens of an epoch."""

    items: int

    def batches(self, generator: torch.Generator | None) -> Iterator[tuple[Any, Tensor, int]]:
        """Yield (inputs, targets, items) of each batch, in random order if a generator is given."""
        ...


class VectorPart:
    """Vectors of a frozen encoder, N×C, and their labels, in batches of ``size``."""

    def __init__(self, vectors: Vectors, labelled: Labelled, task: str, *, size: int, device: torch.device) -> None:
        of_words = task in WORD_TASKS
        self.rows = vectors.words_of(labelled.numbers) if of_words else torch.as_tensor(labelled.numbers)
        inputs = vectors.words if of_words else vectors.sentences
        self.inputs, self.targets = inputs.to(device), labelled.flat.to(device)
        self.size, self.items = size, len(self.rows)

    def batches(self, generator: torch.Generator | None) -> Iterator[tuple[Any, Tensor, int]]:
        """Yield (vectors, targets, their number) of each batch."""
        order = torch.randperm(self.items, generator=generator) if generator else torch.arange(self.items)
        for chosen in order.split(self.size):
            rows = self.rows[chosen].to(self.inputs.device)
            yield self.inputs[rows], self.targets[chosen.to(self.inputs.device)], len(chosen)


class SentencePart:
    """Sentences for an encoder that is trained, and their labels, in batches of at most ``max_tokens``."""

    def __init__(
        self, sentences: Sentences, labelled: Labelled, words: Dictionary, *, max_tokens: int, device: torch.device
    ) -> None:
        self.sentences, self.labelled, self.words = sentences, labelled, words
        self.max_tokens, self.device = max_tokens, device
        self.items = int(sentences.tokens.sizes[labelled.numbers].sum())

    def batches(self, generator: torch.Generator | None) -> Iterator[tuple[Any, Tensor, int]]:
        """Yield (batch, targets, number of tokens) of each batch."""
        for batch in batches(self.sentences, self.labelled.numbers, self.words, self.max_tokens, generator=generator):
            targets = torch.cat([self.labelled.targets[row] for row in batch.rows])
            yield batch.to(self.device), targets.to(self.device), int(batch.lengths.sum())


@dataclass(frozen=True)
class Outcome:
    """Result of a training.

    Args:
        correct, total: right answers, and all answers, on the test set.
        valid_accuracy: on the validation set, from 0 to 1, after the best epoch.
        epoch: number of the best epoch, from 1.
        seconds: duration of the training.
    """

    correct: int
    total: int
    valid_accuracy: float
    epoch: int
    seconds: float


@torch.inference_mode()
def count_correct(model: nn.Module, part: Part) -> tuple[int, int]:
    """Return the number of right answers, and of all answers, of the model on a split."""
    model.eval()
    correct = total = 0
    for inputs, targets, _ in part.batches(None):
        correct += int((model(inputs).argmax(dim=-1) == targets).sum())
        total += len(targets)
    return correct, total


def rate_at(update: int, settings: Settings) -> float:
    """Return the learning rate of an update, numbered from 1."""
    return settings.lr * min(update / settings.warmup, (settings.warmup / update) ** 0.5)


class Trainer:
    """Trains a model on a task.

    Args:
        model: returns scores N×K for the inputs of a batch.
        parts: the splits: train, valid, test.
        settings: of the training. seed: of batches and dropout.
        file: where the state is saved after each epoch; a training continues from an existing one.

    Raises UsageError for a file that is damaged.
    """

    def __init__(self, model: nn.Module, parts: Sequence[Part], settings: Settings, *, seed: int, file: Path) -> None:
        self.model, self.settings, self.seed, self.file = model, settings, seed, file
        self.train, self.valid, self.test = parts
        trained = [weights for weights in model.parameters() if weights.requires_grad]
        self.optimizer = torch.optim.Adam(trained, lr=settings.lr, betas=(0.9, 0.98))
        self.epoch = self.update = 0
        self.seconds = 0.0  # of all epochs, those before an interruption included
        self.best: dict[str, Any] = {"accuracy": -1.0, "epoch": 0, "model": {}}
        if file.exists():
            self._resume()

    def run(self, on_progress: OnProgress) -> Outcome:
        """Train the remaining epochs, then score the best one on the test set."""
        for epoch in range(self.epoch + 1, self.settings.epochs + 1):
            begin = time.monotonic()
            loss = self._train_epoch(epoch, on_progress)
            correct, total = count_correct(self.model, self.valid)
            if correct / total > self.best["accuracy"]:
                state = copy.deepcopy(self.model.state_dict())
                self.best = {"accuracy": correct / total, "epoch": epoch, "model": state}
            self.epoch = epoch
            self.seconds += time.monotonic() - begin
            self._save()
            on_progress(0, f"epoch {epoch}: loss {loss:.3f}, valid {100 * correct / total:.2f}")
        self.model.load_state_dict(self.best["model"])
        return Outcome(*count_correct(self.model, self.test), self.best["accuracy"], self.best["epoch"], self.seconds)

    def _train_epoch(self, epoch: int, on_progress: OnProgress) -> float:
        """Train on the training set once; return the mean loss."""
        torch.manual_seed(1_000_003 * self.seed + epoch)
        generator = torch.Generator().manual_seed(1_000_003 * self.seed + epoch)
        self.model.train()
        losses, answers = 0.0, 0
        for inputs, targets, items in self.train.batches(generator):
            self.update += 1
            self.optimizer.param_groups[0]["lr"] = rate_at(self.update, self.settings)
            loss = F.cross_entropy(self.model(inputs).float(), targets)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
            self.optimizer.step()
            losses += loss.item() * len(targets)
            answers += len(targets)
            on_progress(items, f"epoch {epoch}: loss {losses / answers:.3f}")
        return losses / answers

    def _save(self) -> None:
        """Save the state, so that the file is always complete."""
        state = {
            "epoch": self.epoch,
            "update": self.update,
            "seconds": self.seconds,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "best": self.best,
        }
        with written(self.file) as part:
            torch.save(state, part)

    def _resume(self) -> None:
        """Restore the state. Raises UsageError for a file that is damaged."""
        try:
            state = torch.load(self.file, map_location="cpu", weights_only=True)
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.epoch, self.update, self.seconds = state["epoch"], state["update"], state["seconds"]
            self.best = state["best"]
        except Exception as error:  # torch raises various exceptions for a damaged file
            detail = " ".join(str(error).split())[:120]
            raise UsageError(f"{self.file}: cannot be continued ({detail}): remove it, and run again") from error
