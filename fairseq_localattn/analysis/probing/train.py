"""Training and scoring of one probing task: Adam, the best epoch by accuracy on the validation set.

After each epoch all is written to a file, from which a killed training goes on as if it had not been killed: batches
and dropout of an epoch follow from the seed and its number alone.
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from fairseq.data import Dictionary
from torch import Tensor, nn

from ...errors import UsageError
from .data import Labelled, Sentences, batches
from .labels import WORD_TASKS
from .models import Vectors


@dataclass(frozen=True)
class Settings:
    """epochs; lr, reached after ``warmup`` updates, then falling with the inverse square root of their number;
    max_tokens: of a batch (of a frozen encoder: vectors); hidden: units of the classifier; dropout: in it."""

    epochs: int
    lr: float
    warmup: int
    max_tokens: int
    hidden: int
    dropout: float = 0.1
    clip: float = 1.0


class Part(Protocol):
    """A split for one task: the ``items`` of an epoch, and its batches (inputs, targets, items in it)."""

    items: int

    def batches(self, generator: torch.Generator | None) -> Iterator[tuple[Any, Tensor, int]]: ...


class VectorPart:
    """Vectors of a frozen encoder, N×C, and their labels."""

    def __init__(self, vectors: Vectors, labelled: Labelled, task: str, batch: int, device: torch.device) -> None:
        if task in WORD_TASKS:
            inputs = torch.cat([vectors.words[number] for number in labelled.numbers])
        else:
            inputs = vectors.sentences[labelled.numbers]
        self.inputs, self.targets = inputs.to(device), labelled.flat.to(device)
        self.batch, self.items = batch, len(inputs)

    def batches(self, generator: torch.Generator | None) -> Iterator[tuple[Any, Tensor, int]]:
        order = torch.randperm(self.items, generator=generator) if generator else torch.arange(self.items)
        for rows in order.split(self.batch):
            there = rows.to(self.inputs.device)
            yield self.inputs[there], self.targets[there], len(rows)


class SentencePart:
    """Sentences for an encoder that is trained, and their labels."""

    def __init__(
        self, sentences: Sentences, labelled: Labelled, words: Dictionary, max_tokens: int, device: torch.device
    ) -> None:
        self.sentences, self.labelled, self.words = sentences, labelled, words
        self.max_tokens, self.device = max_tokens, device
        self.items = int(sentences.tokens.sizes[labelled.numbers].sum())

    def batches(self, generator: torch.Generator | None) -> Iterator[tuple[Any, Tensor, int]]:
        for batch in batches(self.sentences, self.labelled.numbers, self.words, self.max_tokens, generator):
            targets = torch.cat([self.labelled.targets[row] for row in batch.rows])
            yield batch.to(self.device), targets.to(self.device), int(batch.lengths.sum())


@dataclass(frozen=True)
class Outcome:
    """Right answers on the test set, of ``total``; accuracy on the validation set, from 0 to 1, at the best epoch, from
    1; seconds that training took."""

    correct: int
    total: int
    valid_accuracy: float
    epoch: int
    seconds: float


@torch.inference_mode()
def count_correct(model: nn.Module, part: Part) -> tuple[int, int]:
    """(right answers, all answers) of the model on a split."""
    model.eval()
    correct = total = 0
    for inputs, targets, _ in part.batches(None):
        correct += int((model(inputs).argmax(dim=-1) == targets).sum())
        total += len(targets)
    return correct, total


def rate_at(update: int, settings: Settings) -> float:
    """The learning rate of an update, which are numbered from 1."""
    return settings.lr * min(update / settings.warmup, (settings.warmup / update) ** 0.5)


class Trainer:
    """Trains a model on a task; ``file`` keeps its state between epochs."""

    def __init__(self, model: nn.Module, parts: Sequence[Part], settings: Settings, seed: int, file: Path) -> None:
        self.model, self.settings, self.seed, self.file = model, settings, seed, file
        self.train, self.valid, self.test = parts
        trained = [weights for weights in model.parameters() if weights.requires_grad]
        self.optimizer = torch.optim.Adam(trained, lr=settings.lr, betas=(0.9, 0.98))
        self.epoch = self.update = 0
        self.seconds = 0.0  # of all epochs, those of an earlier run as well
        self.best: dict[str, Any] = {"accuracy": -1.0, "epoch": 0, "model": {}}
        if file.exists():
            self._resume()

    def run(self, progress: Callable[[int, str], None]) -> Outcome:
        """Train what is left to train, then score the best epoch on the test set.

        progress: called with the items that were gone through since its last call, and what to say.
        """
        for epoch in range(self.epoch + 1, self.settings.epochs + 1):
            begin = time.monotonic()
            loss = self._train_epoch(epoch, progress)
            correct, total = count_correct(self.model, self.valid)
            if correct / total > self.best["accuracy"]:
                state = copy.deepcopy(self.model.state_dict())
                self.best = {"accuracy": correct / total, "epoch": epoch, "model": state}
            self.epoch = epoch
            self.seconds += time.monotonic() - begin
            self._save()
            progress(0, f"epoch {epoch}: loss {loss:.3f}, valid {100 * correct / total:.2f}")
        self.model.load_state_dict(self.best["model"])
        return Outcome(*count_correct(self.model, self.test), self.best["accuracy"], self.best["epoch"], self.seconds)

    def _train_epoch(self, epoch: int, progress: Callable[[int, str], None]) -> float:
        """One pass over the training set; returns the mean loss."""
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
            progress(items, f"epoch {epoch}: loss {losses / answers:.3f}")
        return losses / answers

    def _save(self) -> None:
        state = {
            "epoch": self.epoch,
            "update": self.update,
            "seconds": self.seconds,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "best": self.best,
        }
        temporary = self.file.with_name(f"{self.file.name}.part{os.getpid()}")
        torch.save(state, temporary)
        os.replace(temporary, self.file)

    def _resume(self) -> None:
        """Raises UsageError for a file that is damaged."""
        try:
            state = torch.load(self.file, map_location="cpu", weights_only=True)
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.epoch, self.update, self.seconds = state["epoch"], state["update"], state["seconds"]
            self.best = state["best"]
        except Exception as error:  # torch raises what it likes for a damaged file
            detail = " ".join(str(error).split())[:120]
            raise UsageError(f"{self.file}: cannot be continued ({detail}): remove it, and run again") from error
