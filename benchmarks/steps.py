"""Parts ``step``, ``long``, ``optimizer`` and ``training``: training steps, their last part, and fairseq's trainer."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from fairseq import optim
from fairseq.data import LanguagePairDataset
from fairseq.data.iterators import GroupedIterator
from fairseq.logging import metrics
from fairseq.tasks.translation import TranslationTask
from fairseq.trainer import Trainer
from torch import Tensor

from fairseq_localattn.phrases.dataset import PhrasePairDataset

from .batches import Batches, Sample, draw_lengths, for_model, random_phrases, random_sentence, some_rows
from .counters import count_flops, extrapolate_flops, peak_bytes
from .report import MIB, Row, flop_columns, speed_columns
from .settings import Settings
from .systems import PLAIN, PLAIN_FUSED, SYSTEMS, Built, System, build, make_task, systems_of
from .timing import PartProgress, time_rounds

LONG_LENGTHS = (1024, 2048)  # tokens of both sides of a pair in the part long
UPDATES = 10  # of a system in a round of the part training
FLOP_SENTENCES = 8  # sentences of a batch whose FLOPs are counted: see counters.extrapolate_flops


class TrainingStep:
    """One update: forward pass, backward pass, division by the number of words, norm, optimizer, gradients cleared.

    The transfer of the batch and the metrics are not included.
    """

    def __init__(self, system: System, settings: Settings, task: TranslationTask) -> None:
        self.system, self.settings = system, system.settings_of(settings)
        self.built = build(system, self.settings, task)
        parameters = [each for each in self.built.model.parameters() if each.requires_grad]
        if self.settings.half_parameters:
            self.optimizer = optim.FP16Optimizer.build_optimizer(self.built.cfg, parameters)
        else:
            self.optimizer = optim.build_optimizer(self.built.cfg.optimizer, parameters)
        self.sample: Sample = {}
        self.update_seconds: list[float] = []  # time of the optimizer in each run

    def prepare(self, item: Sample) -> None:
        self.sample = for_model(item, self.system.trees, self.settings.device)
        self.built.model.train()

    def run(self) -> None:
        loss, words = self.forward()
        self.optimizer.backward(loss)
        self.settings.synchronize()
        started = time.perf_counter()
        self.update(words)
        self.settings.synchronize()
        self.update_seconds.append(time.perf_counter() - started)

    def forward(self) -> tuple[Tensor, int]:
        """Return the summed loss and the number of words that it is divided by."""
        with self.settings.autocast():
            loss, words, _ = self.built.criterion(self.built.model, self.sample)
        return loss, words

    def update(self, words: int) -> None:
        """Divide the gradients by the number of words, compute their norm for the log, update, and clear them.

        fairseq sets gradients to None, but those of its fp32 copies of parameters in half precision to 0, one by one.
        """
        self.optimizer.multiply_grads(1 / words)
        self.optimizer.clip_grad_norm(0.0)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def finish(self) -> None:
        self.sample = {}


class Update(TrainingStep):
    """The optimizer's part of a step alone; the gradients are 1."""

    def prepare(self, item: object) -> None:
        self.optimizer.backward(sum(each.sum() for each in self.built.model.parameters()))

    def run(self) -> None:
        self.update(1)


def flops_of(built: Built, system: System, samples: list[Sample]) -> int:
    """Count the FLOPs of forward and backward pass, summed over the batches; the model must be on the CPU.

    They are extrapolated from some sentences of each batch, at their padded lengths.
    """
    cpu = torch.device("cpu")

    def count(sample: Sample, sentences: int) -> int:
        some = for_model(some_rows(sample, sentences), system.trees, cpu)
        found = count_flops(lambda: built.criterion(built.model, some)[0].backward())
        built.model.zero_grad()
        return found

    return sum(extrapolate_flops(partial(count, sample), sample["nsentences"], FLOP_SENTENCES) for sample in samples)


def run_steps(settings: Settings, progress: PartProgress) -> list[Row]:
    """Return the rows of the part, the baseline first."""
    task = make_task(settings.words)
    systems = systems_of(settings, "step")
    samples = Batches(task.source_dictionary, task.tag_dictionary).training(
        settings.tokens, settings.pairs, settings.warm_up, settings.rounds
    )
    timed = samples[settings.warm_up :]
    on_cpu = Settings(torch.device("cpu"), size=settings.size, dropout=settings.dropout, flags=settings.flags)
    flops = {}
    for system in systems:
        progress.say(f"{system.name}: counting FLOPs")
        flops[system.name] = flops_of(build(system, on_cpu, task), system, timed)
    steps = _built(systems, settings, task, progress)
    progress.expect(len(samples) * len(systems))
    seconds = time_rounds(steps, samples, settings, progress)
    # The time of forward and backward pass, whose FLOPs are counted.
    passes = {
        name: [whole - part for whole, part in zip(seconds[name], step.update_seconds[settings.warm_up :], strict=True)]
        for name, step in steps.items()
    }
    largest = max(timed, key=lambda sample: sample["net_input"]["src_tokens"].numel() + sample["target"].numel())
    sentences, words = ([sample[key] for sample in timed] for key in ("nsentences", "ntokens"))
    positions = sum(sample["target"].numel() for sample in timed)
    rows = []
    for name, step in steps.items():
        progress.say(f"{name}: peak memory")
        rows.append(
            {
                "system": name,
                "architecture": step.system.architecture_of(settings),
                "parameters": step.built.parameters,
                "sentences": statistics.mean(sentences),
                "target_tokens": statistics.mean(words),
                "target_padding": 1 - sum(words) / positions,
                **speed_columns(seconds[PLAIN], seconds[name]),
                "target_tokens_per_s": sum(words) / sum(seconds[name]),
                "update_ms": 1e3 * statistics.median(step.update_seconds[settings.warm_up :]),
                **flop_columns(passes[PLAIN], passes[name], flops[PLAIN], flops[name]),
                "gflops": flops[name] / len(timed) / 1e9,
                "peak_mib": _peak(step, largest) / MIB,
            }
        )
    return rows


def run_long(settings: Settings, progress: PartProgress) -> list[Row]:
    """Return the rows of the part ``long``: for each length the baseline first."""
    task = make_task(settings.words)
    batches = Batches(task.source_dictionary, task.tag_dictionary)
    steps = _built(systems_of(settings, "long"), settings, task, progress)
    lengths, each = settings.lengths or LONG_LENGTHS, settings.warm_up + settings.rounds
    progress.expect(each * len(steps) * len(lengths))
    rows = []
    for length in lengths:
        sentences = max(1, settings.tokens // length)
        samples = batches.equal(length, sentences, each)
        seconds = time_rounds(steps, samples, settings, progress, where=f"{length} tokens: ")
        for name, step in steps.items():
            progress.say(f"{length} tokens: {name}, peak memory")
            row: Row = {"system": name, "architecture": step.system.architecture_of(settings), "tokens": length}
            row |= {"sentences": sentences, **speed_columns(seconds[PLAIN], seconds[name])}
            rows.append(row | {"peak_mib": _peak(step, samples[-1]) / MIB})
    return rows


def run_optimizer(settings: Settings, progress: PartProgress) -> list[Row]:
    """Return the rows of the part ``optimizer``: fairseq's Transformer with its own Adam, and with this package's."""
    task, names = make_task(settings.words), (PLAIN, PLAIN_FUSED)
    steps = {name: Update(SYSTEMS[name], settings, task) for name in names}
    rounds = range(settings.warm_up + settings.rounds)
    progress.expect(len(rounds) * len(names))
    seconds = time_rounds(steps, rounds, settings, progress)
    return [
        {
            "system": name,
            "architecture": step.system.architecture_of(settings),
            "parameters": step.built.parameters,
            "tensors": len(list(step.built.model.parameters())),
            **speed_columns(seconds[PLAIN], seconds[name]),
        }
        for name, step in steps.items()
    ]


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
    """A training by fairseq's trainer, for :func:`benchmarks.timing.time_rounds`."""

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
    seconds = time_rounds(trainings, rounds, settings, progress)
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


def _built(
    systems: Sequence[System], settings: Settings, task: TranslationTask, progress: PartProgress
) -> dict[str, TrainingStep]:
    """Return the training steps of systems, by name."""
    steps = {}
    for system in systems:
        progress.say(f"{system.name}: building")
        steps[system.name] = TrainingStep(system, settings, task)
    return steps


def _peak(step: TrainingStep, sample: Sample) -> int:
    step.prepare(sample)
    try:
        return peak_bytes(step.run, step.settings.device)
    finally:
        step.finish()
