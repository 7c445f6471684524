"""fairseq's trainer with recorded steps: which trainings have them, their batches, and the line of the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from fairseq.criterions import CRITERION_REGISTRY
from fairseq.data import LanguagePairDataset
from fairseq.modules import LayerDropModuleList
from fairseq.trainer import Trainer
from torch import Tensor, nn

from ...compat.around import around
from ...core.hooks import has_hooks, hooks_of
from .batch import PHRASES, FixedBatch, Padding, Paddings, unknown_tensors
from .ladder import LadderDataset
from .recording import CudaGraphs, Gradients, RecordedLoss, WaitsError

logger = logging.getLogger(__name__)
#: What records on a type of device.
RECORDERS: dict[str, type[CudaGraphs]] = {"cuda": CudaGraphs}
# Criterions whose loss is a sum over words that are not padding; they log tensors, and the numbers of `_replay`.
CRITERIONS = ("cross_entropy", "label_smoothed_cross_entropy", "label_smoothed_cross_entropy_with_phrase_tags")


def paddings_of(dataset: Any) -> Paddings | None:
    """Return what each tensor of a batch is padded with; None for other data than pairs, with phrases or without."""
    pairs = getattr(dataset, "dataset", dataset)
    if not isinstance(pairs, LanguagePairDataset) or pairs.tgt is None or pairs.buckets is not None:
        return None
    target = Padding(pairs.tgt_dict.pad(), pairs.left_pad_target, pairs.tgt_dict.eos())
    paddings = {
        "src_tokens": Padding(pairs.src_dict.pad(), pairs.left_pad_source, pairs.src_dict.eos()),
        "src_lengths": Padding(0),
        "prev_output_tokens": target,
        "target": target,
    }
    if dataset is not pairs:
        paddings |= {PHRASES: Padding(0), "phrase_tags": Padding(dataset.tags.pad())}
    return paddings


def is_watched(modules: frozenset[nn.Module]) -> bool:
    """Return whether a module calls what is not of the model: a hook, or a function that computes it in checkpoints."""
    return any(
        "forward" in vars(module)
        or (has_hooks(module) and any(getattr(hook, "__self__", None) not in modules for hook in hooks_of(module)))
        for module in modules
    )


class RecordedCriterion:
    """A criterion of fairseq for ``task.train_step``, recorded for each shape of a ladder.

    Args:
        criterion: of fairseq.
        data: sentence pairs, cut into batches of the ladder's shapes.
        paddings: of the batches' tensors.
        recorder: of the device.
    """

    def __init__(self, criterion: Any, data: LadderDataset, paddings: Paddings, recorder: CudaGraphs) -> None:
        self.criterion, self.data, self.paddings, self.recorder = criterion, data, paddings, recorder
        self.modules: frozenset[nn.Module] = frozenset()
        self.trained: list[tuple[nn.Parameter, bool]] = []  # all parameters, and whether they have gradients
        self.shapes: list[RecordedLoss] | None = None  # in ascending order of lengths

    def __call__(self, model: Any, sample: dict[str, Any]) -> tuple[Tensor, int, dict[str, Any]]:
        """Return loss, sample size and values to log, as fairseq's criterions do."""
        fitting = (shape for shape in self.shapes or () if shape.batch.fits(sample))
        changed = is_watched(self.modules) or any(each.requires_grad != had for each, had in self.trained)
        shape = None if changed else next(fitting, None)
        return self.criterion(model, sample) if shape is None else self._replay(shape, sample)

    def _replay(self, shape: RecordedLoss, sample: dict[str, Any]) -> tuple[Tensor, int, dict[str, Any]]:
        loss, logged = shape(sample)
        sentences, words = sample["target"].size(0), sample["ntokens"]
        size = sentences if self.criterion.sentence_avg else words
        return loss, size, {**logged, "ntokens": words, "nsentences": sentences, "sample_size": size}

    def record(self, trainer: Trainer, sample: dict[str, Any]) -> None:
        """Record the steps of all shapes; ``sample`` is some batch on the device."""
        trainer.model.train()
        self.criterion.train()
        self.modules = frozenset(trainer.model.modules())
        both = [*trainer.model.parameters(), *self.criterion.parameters()]
        self.trained = [(each, each.requires_grad) for each in both]
        self.shapes = self._record(trainer.model, sample)

    def _record(self, model: Any, sample: dict[str, Any]) -> list[RecordedLoss]:
        """Return a recorded step of each shape, the largest first, whose memory the others share, and log it."""
        if unknown := unknown_tensors(sample, self.paddings):
            return _log_none(f"the batches have {', '.join(unknown)}")
        start, ladder = time.monotonic(), self.data.ladder or ()
        gradients = Gradients([each for each, has in self.trained if has])
        found = []
        for shape in reversed(ladder):
            loss = RecordedLoss(self.criterion, model, FixedBatch(sample, shape, self.paddings), gradients)
            try:
                loss.record(self.recorder)
            except WaitsError as error:
                return _log_none(f"a step waits for the device: {error}")
            found.append(loss)
        longest, shortest = found[0].batch.shape, found[-1].batch.shape
        logger.info(
            f"graphs: {len(found)} shapes, from {shortest.rows} sentences of {shortest.length} tokens to "
            f"{longest.rows} of {longest.length}, {self.data.padding:.2f} padded positions a token, recorded in "
            f"{time.monotonic() - start:.1f} s"
        )
        return found[::-1]


def reason_against(trainer: Trainer) -> str | None:
    """Return why the steps of a training cannot be recorded, or None."""
    cfg, model, criterion = trainer.cfg, trainer.get_model(), trainer.get_criterion()
    name = criterion.__class__.__name__
    several = trainer.data_parallel_world_size > 1 or trainer.is_fsdp
    backend = cfg.distributed_training.ddp_backend
    reasons = {
        "--quantization-config-path": trainer.quantizer is not None,
        f"the criterion {name}": type(criterion) not in map(CRITERION_REGISTRY.get, CRITERIONS),
        "--report-accuracy": getattr(criterion, "report_accuracy", False),
        "--amp": cfg.common.amp,
        f"--ddp-backend {backend} (legacy_ddp has them)": several and backend not in ("legacy_ddp", "no_c10d"),
        "--use-bmuf": cfg.optimization.use_bmuf,
        # A resumed training would choose other shapes than the one that it continues.
        "data in several folders": trainer.task.has_sharded_data("train"),
        "--heartbeat-timeout": several and cfg.distributed_training.heartbeat_timeout > 0,
        "LayerDrop": any(isinstance(module, LayerDropModuleList) for module in model.modules()),
        "--checkpoint-activations, or another change of a module's forward pass": is_watched(
            frozenset(model.modules())
        ),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _log_none(reason: str) -> list[Any]:
    """Log that steps are not recorded, and return no shapes."""
    logger.info(f"graphs: none, because of {reason}" if reason.startswith("--") else f"graphs: none: {reason}")
    return []


# The criterion of each trainer whose model asks for graphs; None where its steps cannot be recorded.
_criterions: WeakKeyDictionary[Trainer, RecordedCriterion | None] = WeakKeyDictionary()


def _cut_by_ladder(trainer: Trainer, dataset: Any, most: int) -> Any:
    """Return the training data in batches of few shapes, or as they are where steps cannot be recorded."""
    if trainer not in _criterions:
        paddings = paddings_of(dataset)
        reason = reason_against(trainer) if paddings else "the data are no sentence pairs, or padded to buckets"
        if reason or not paddings:
            _log_none(f"{reason}")
            _criterions[trainer] = None
        else:
            recorder, data = RECORDERS[trainer.device.type](), LadderDataset(dataset, most)
            _criterions[trainer] = RecordedCriterion(trainer.criterion, data, paddings, recorder)
    criterion = _criterions[trainer]
    if criterion is None:
        return dataset
    if criterion.data.dataset is not dataset:  # of another epoch
        criterion.data = LadderDataset(dataset, most, criterion.data.ladder)
    return criterion.data


@contextmanager
def _instead(task: Any, name: str, method: Callable[..., Any]) -> Iterator[None]:
    """Context manager: let a task have another method."""
    setattr(task, name, method)
    try:
        yield
    finally:
        delattr(task, name)


def apply() -> None:
    """Install recorded steps in fairseq's trainer; call it once. Validation and models without graphs do not change."""

    @around(Trainer, "get_train_iterator")
    def get_train_iterator(get: Callable[..., Any], self: Trainer, *args: Any, **kwargs: Any) -> Any:
        most, make = getattr(self.get_model(), "most_graphs", 0), self.task.get_batch_iterator
        if not most or self.device.type not in RECORDERS:
            return get(self, *args, **kwargs)

        def get_batch_iterator(dataset: Any, **options: Any) -> Any:
            return make(dataset=_cut_by_ladder(self, dataset, most), **options)

        with _instead(self.task, "get_batch_iterator", get_batch_iterator):
            return get(self, *args, **kwargs)

    @around(Trainer, "train_step")
    def train_step(step: Callable[..., Any], self: Trainer, samples: list[Any], *args: Any, **kwargs: Any) -> Any:
        recorded, make = _criterions.get(self), self.task.train_step
        if recorded is None:
            return step(self, samples, *args, **kwargs)
        if recorded.shapes is None:  # before fairseq's step, which seeds random numbers, and saves what errors leave
            recorded.record(self, self._prepare_sample(samples[0])[0])

        def of_the_task(sample: Any, model: Any, criterion: Any, *args: Any, **kwargs: Any) -> Any:
            return make(sample, model, recorded, *args, **kwargs)

        with _instead(self.task, "train_step", of_the_task):
            return step(self, samples, *args, **kwargs)
