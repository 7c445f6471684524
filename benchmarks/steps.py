"""Part ``step``: training steps as fairseq's trainer does them."""

from __future__ import annotations

import statistics
import time
from functools import partial

import torch
from fairseq import optim
from fairseq.optim.fp16_optimizer import FP16Optimizer
from fairseq.tasks.translation import TranslationTask

from .batches import Batches, Sample, for_model, some_rows
from .flops import count_flops, flops_of_many
from .memory import peak_bytes
from .pace import Pace
from .report import MIB, Row, flop_columns, speed_columns
from .settings import Settings
from .systems import PLAIN, Built, System, build, make_task, systems_of
from .timing import interleave

FLOP_SENTENCES = 8  # of a batch: see flops.flops_of_many


class TrainingStep:
    """One update: forward, backward, gradients divided by the batch's words, fairseq's Adam.

    The gradients' norm, which fairseq's trainer logs, and the transfer of the batch are left out.
    """

    def __init__(self, system: System, settings: Settings, task: TranslationTask) -> None:
        self.system, self.settings = system, settings
        self.built = build(system, settings, task)
        parameters = [each for each in self.built.model.parameters() if each.requires_grad]
        if settings.halves:
            self.optimizer = FP16Optimizer.build_optimizer(self.built.cfg, parameters)
        else:
            self.optimizer = optim.build_optimizer(self.built.cfg.optimizer, parameters)
        self.sample: Sample = {}
        self.update_seconds: list[float] = []  # of the optimizer's part of each run

    def prepare(self, item: Sample) -> None:
        self.sample = for_model(item, self.system.trees, self.settings.device)
        self.built.model.train()

    def run(self) -> None:
        with self.settings.autocast():
            loss, words, _ = self.built.criterion(self.built.model, self.sample)
        self.optimizer.backward(loss)
        self.settings.synchronize()
        started = time.perf_counter()
        self.optimizer.multiply_grads(1 / words)
        self.optimizer.step()
        self.settings.synchronize()
        self.update_seconds.append(time.perf_counter() - started)

    def finish(self) -> None:
        self.optimizer.zero_grad()  # in fairseq it makes the gradients None
        self.sample = {}


def flops_of(built: Built, system: System, samples: list[Sample]) -> int:
    """FLOPs of forward and backward, summed over the batches; the model must be on the CPU.

    Some sentences of each batch stand for all, in their padded lengths.
    """
    cpu = torch.device("cpu")

    def count(sample: Sample, sentences: int) -> int:
        some = for_model(some_rows(sample, sentences), system.trees, cpu)
        found = count_flops(lambda: built.criterion(built.model, some)[0].backward())
        built.model.zero_grad()
        return found

    return sum(flops_of_many(partial(count, sample), sample["nsentences"], FLOP_SENTENCES) for sample in samples)


def run_steps(settings: Settings, pace: Pace) -> list[Row]:
    """The rows of the part: the baseline first."""
    task = make_task(settings.words)
    systems = systems_of(settings)
    samples = Batches(task.source_dictionary, task.tag_dictionary).training(
        settings.tokens, settings.pairs, settings.warm_up, settings.rounds
    )
    timed = samples[settings.warm_up :]
    on_cpu = Settings(torch.device("cpu"), size=settings.size, dropout=settings.dropout, flags=settings.flags)
    flops = {}
    for system in systems:
        pace.say(f"{system.name}: counting FLOPs")
        flops[system.name] = flops_of(build(system, on_cpu, task), system, timed)
    steps: dict[str, TrainingStep] = {}
    for system in systems:
        pace.say(f"{system.name}: building")
        steps[system.name] = TrainingStep(system, settings, task)
    pace.expect(len(samples) * len(systems))
    seconds = interleave(
        steps, samples, settings.warm_up, synchronize=settings.synchronize, told=pace.rounds(settings.rounds)
    )
    # What FLOPs are counted of: forward and backward.
    passes = {
        name: [whole - part for whole, part in zip(seconds[name], step.update_seconds[settings.warm_up :], strict=True)]
        for name, step in steps.items()
    }
    largest = max(timed, key=lambda sample: sample["net_input"]["src_tokens"].numel() + sample["target"].numel())
    sentences, words = ([sample[key] for sample in timed] for key in ("nsentences", "ntokens"))
    positions = sum(sample["target"].numel() for sample in timed)
    rows = []
    for name, step in steps.items():
        pace.say(f"{name}: peak memory")
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


def _peak(step: TrainingStep, sample: Sample) -> int:
    step.prepare(sample)
    try:
        return peak_bytes(step.run, step.settings.device)
    finally:
        step.finish()
