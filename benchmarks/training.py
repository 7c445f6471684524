"""Part ``training``: updates by fairseq's trainer, from the batch in the memory of the host to the metrics of the log.

Systems take turns, some updates each. Batches are cut from the corpus of batches.py as the training itself cuts them,
so that times are compared a word.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from fairseq.data import LanguagePairDataset
from fairseq.data.iterators import GroupedIterator
from fairseq.logging import metrics
from fairseq.tasks.translation import TranslationTask
from fairseq.trainer import Trainer

from fairseq_localattn.phrases.dataset import PhrasePairDataset

from .batches import draw_lengths, random_phrases, random_sentence
from .report import Row, speed_columns
from .settings import Settings
from .systems import PLAIN, System, build, make_task, systems_of
from .timing import PartProgress, interleave

UPDATES = 10  # of a system in a round


class Lazy(torch.utils.data.Dataset):
    """Items that are made, always the same ones, when they are read."""

    def __init__(self, make: Any, lengths: Any, seed: int = 0) -> None:
        self.make, self.lengths, self.seed = make, lengths, seed

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> Any:
        return self.make(int(self.lengths[index]), 2 * int(index) + self.seed)


def corpus(task: TranslationTask, system: System, settings: Settings) -> LanguagePairDataset | PhrasePairDataset:
    """Return a corpus of random pairs, with phrases for a system that takes trees."""
    lengths, words, tags = draw_lengths(settings.pairs), task.source_dictionary, task.tag_dictionary

    def sentence(length: int, seed: int) -> torch.Tensor:
        return random_sentence(words, length, torch.Generator().manual_seed(seed))

    sides = [Lazy(sentence, column, seed) for seed, column in enumerate(lengths.T)]
    options = {"tgt": sides[1], "tgt_sizes": lengths[:, 1], "tgt_dict": words, "left_pad_source": True}
    pairs = LanguagePairDataset(sides[0], lengths[:, 0], words, **options)
    if not system.trees:
        return pairs
    levels = Lazy(lambda length, seed: random_phrases(tags, length - 1, random.Random(seed)), lengths[:, 0])
    return PhrasePairDataset(pairs, levels, tags)


class Training:
    """A training by fairseq's trainer, for :func:`benchmarks.timing.interleave`."""

    def __init__(self, system: System, settings: Settings) -> None:
        self.system, settings = system, system.settings_of(settings)
        task = make_task(settings.words)
        task.datasets["train"] = corpus(task, system, settings)
        built = build(system, settings, task)
        built.cfg.common.cpu = settings.device.type == "cpu"
        built.cfg.dataset.max_tokens = settings.tokens
        built.cfg.distributed_training.distributed_world_size = 1
        self.trainer = Trainer(built.cfg, task, built.model, built.criterion)
        self.batches = self._batches()
        self.items: list[Any] = []
        self.words: list[int] = []  # of the target in each round
        self.loss = 0.0  # per word, in bits, of the last round

    def _batches(self) -> Iterator[Any]:
        """Yield the batches of each update, epoch after epoch."""
        epoch = 1
        while True:
            batches = self.trainer.get_train_iterator(epoch=epoch, load_dataset=False)
            yield from GroupedIterator(batches.next_epoch_itr(), 1)
            epoch += 1

    def prepare(self, item: object) -> None:
        self.items = [next(self.batches) for _ in range(UPDATES)]
        self.words.append(sum(each["ntokens"] for items in self.items for each in items))

    def run(self) -> None:
        with metrics.aggregate(new_root=True) as found:
            for item in self.items:
                self.trainer.train_step(item)
            self.loss = float(found.get_smoothed_values()["loss"])

    def finish(self) -> None:
        self.items = []


def run_training(settings: Settings, progress: PartProgress) -> list[Row]:
    """Return the rows of the part, the baseline first."""
    trainings = {}
    for system in variants_of(settings):
        progress.say(f"{system.name}: building")
        trainings[system.name] = Training(system, settings)
    rounds = range(settings.warm_up + settings.rounds)
    progress.expect(len(rounds) * len(trainings))
    seconds = interleave(
        trainings,
        rounds,
        settings.warm_up,
        synchronize=settings.synchronize,
        on_progress=progress.rounds(settings.rounds),
    )
    rows: list[Row] = []
    a_word = {
        name: [second / words for second, words in zip(own, trainings[name].words[settings.warm_up :], strict=True)]
        for name, own in seconds.items()
    }
    for name, training in trainings.items():
        row: Row = {"system": name, "architecture": training.system.architecture_of(settings)}
        row |= {"target_tokens": statistics.mean(training.words[settings.warm_up :]) / UPDATES}
        row |= speed_columns(a_word[PLAIN], a_word[name])
        row["time_ms"] = 1000 * statistics.median(seconds[name]) / UPDATES
        rows.append(row | {"target_tokens_per_s": 1 / statistics.median(a_word[name]), "loss": training.loss})
    return rows


def variants_of(settings: Settings) -> list[System]:
    """Return the systems of the part: this package's once for each number of graphs, where that is given."""
    found = []
    for system in systems_of(settings, "training"):
        if system.optimizer is not None or not settings.graphs:
            found.append(system)
            continue
        for number in settings.graphs:
            flags = (*system.flags, "--localattn-graphs", str(number))
            found.append(replace(system, name=f"{system.name}_graphs_{number}", flags=flags))
    return found
