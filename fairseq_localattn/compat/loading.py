"""Errors in one line where a checkpoint is no regular file, lacks a part, or does not fit the model or the data.

fairseq builds tasks, models and optimizers from the options and states of a checkpoint without checking them.
"""

from __future__ import annotations

import functools
import logging
import os
import re
from collections.abc import Callable
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.data import encoders
from fairseq.data.iterators import EpochBatchIterator
from fairseq.optim import FairseqOptimizer
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.tasks.language_modeling import LanguageModelingTask
from fairseq.tasks.translation import TranslationTask
from fairseq.trainer import Trainer
from omegaconf import open_dict

from ..errors import UsageError
from ..stored.reading import CheckpointError
from .around import around, wrapped
from .peers import lost_lines
from .training import same_model

logger = logging.getLogger(__name__)
RESET = (
    "; --reset-optimizer --reset-lr-scheduler --reset-meters --reset-dataloader take its weights alone, else give "
    "another checkpoint"
)
SIZES = re.compile(
    r"size mismatch for (\S+): copying a param with shape torch\.Size\(\[([\d, ]*)\]\) from checkpoint, "
    r"the shape in current model is torch\.Size\(\[([\d, ]*)\]\)"
)
NAMES = re.compile(r"(Missing|Unexpected) key\(s\) in state_dict: (.*)")
SHOWN = 2  # tensors of each kind


def check_regular(path: str) -> None:
    """Raise CheckpointError for a path that exists and is a folder, a device or a pipe, or a link in a circle."""
    if os.path.lexists(path) and not os.path.isfile(path) and not _dangling(path):
        raise CheckpointError(f"fairseq_localattn: cannot load {path}: it is no file. Give a checkpoint's name")


def _dangling(path: str) -> bool:
    """Return whether a link names a file that does not exist."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def differences(error: BaseException | None) -> str:
    """Return how the tensors of a checkpoint differ from a model's, in one line; "" for other errors.

    ``error`` is that of torch's ``load_state_dict``, or fairseq's that was raised for it.
    """
    while error is not None and "loading state_dict" not in str(error):
        error = error.__cause__ or error.__context__
    if error is None:
        return ""
    text = str(error)
    sizes = [f"{name} ({_shape(there)}, the model's is {_shape(here)})" for name, there, here in SIZES.findall(text)]
    found = {"of another size": sizes}
    for kind, names in NAMES.findall(text):
        found["that the file lacks" if kind == "Missing" else "that the model lacks"] = re.findall(r'"([^"]+)"', names)
    return "; ".join(
        f"{len(names)} tensor{'s' * (len(names) > 1)} {what}, {', '.join(names[:SHOWN])}{' …' * (len(names) > SHOWN)}"
        for what, names in found.items()
        if names
    )


def _shape(numbers: str) -> str:
    """Return a shape as in 16×64."""
    return numbers.replace(", ", "×") or "a number"


def explained(
    function: Callable[..., Any], what: str, *, errors: tuple[type[Exception], ...] = (Exception,), advice: str = ""
) -> Callable[..., Any]:
    """Wrap ``function`` so that it raises CheckpointError, in one line that says ``what`` failed and why.

    ``errors`` are those that are replaced; ``advice`` follows the cause, unless tensors do not fit.
    """

    @functools.wraps(function)
    def in_one_line(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (UsageError, OSError):
            raise
        except errors as error:
            if isinstance(error, RuntimeError) and lost_lines(error):  # another process died: peers.py says so
                raise
            logger.debug(what, exc_info=True)
            if how := differences(error):
                raise CheckpointError(
                    f"fairseq_localattn: {what}: it does not fit the dictionaries or the model: {how}; give the data, "
                    "--arch and the model's options of its training, or another checkpoint"
                ) from error
            # fairseq's own error says nothing of the cause.
            cause = error.__context__ if "Cannot load model parameters" in str(error) else error
            detail = " ".join(str(cause).split())[:300]
            raise CheckpointError(
                f"fairseq_localattn: {what}: {type(cause).__name__}: {detail}{advice} (LOGLEVEL=DEBUG shows where)"
            ) from error

    return in_one_line


def _of_the_file(load: Callable[..., Any], filenames: Any, *args: Any, **kwargs: Any) -> Any:
    """Around a function of fairseq that builds models from files, ``filenames``."""

    def load_whole(*args: Any, **kwargs: Any) -> Any:
        models, cfg, task = load(*args, **kwargs)
        cfg["task"]
        return models, cfg, task

    for path in filenames:
        check_regular(path)
    advice = "; give a checkpoint that fairseq-train wrote, and --task of its training"
    use = explained(load_whole, f"cannot use {', '.join(map(str, filenames))}", advice=advice)
    models, cfg, task = use(filenames, *args, **kwargs)
    if "criterion" not in cfg:  # commands read it, whether they need it or not
        with open_dict(cfg):
            cfg.criterion = None
    return models, cfg, task


def _of_the_training(load: Callable[..., Any], self: Any, filename: str, *args: Any, **kwargs: Any) -> Any:
    """Around the trainer's method that reads the checkpoint of a training."""

    def load_same_model(reset_optimizer: bool = False, *args: Any, **kwargs: Any) -> Any:
        if not reset_optimizer:  # else it is a beginning by the weights of another training
            same_model.check(filename, self.cfg.model)
        state = load(self, filename, reset_optimizer, *args, **kwargs)
        if state is not None and not (self.cfg.checkpoint.reset_dataloader or self.cfg.checkpoint.finetune_from_model):
            state["train_iterator"]["epoch"]
        return state

    check_regular(filename)
    return explained(load_same_model, f"cannot continue from {filename}", advice=RESET)(*args, **kwargs)


def _of_its_parameters(load: Callable[..., Any], self: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
    """Wrap the method of an optimizer that takes a state: raise ValueError for one of other parameters.

    torch compares no shapes, and the first update would fail.
    """
    numbers = [number for group in state_dict["param_groups"] for number in group["params"]]
    parameters = [each for group in self.param_groups for each in group["params"]]
    if len(numbers) != len(parameters):
        raise ValueError(
            f"the optimizer's state is of {len(numbers)} tensors, and this training has {len(parameters)}: give "
            "the precision of its training"
        )
    for place, (number, parameter) in enumerate(zip(numbers, parameters, strict=True)):
        for name, found in state_dict["state"].get(number, {}).items():
            whole = torch.is_tensor(found) and found.dim() and not name.endswith(("_row", "_col"))
            if whole and found.shape != parameter.shape:
                sizes = _shape(", ".join(map(str, found.shape))), _shape(", ".join(map(str, parameter.shape)))
                raise ValueError(f"the optimizer's {name} {place} is {sizes[0]}, the model's tensor {sizes[1]}")
    return load(self, state_dict, *args, **kwargs)


def _of_the_command(load: Callable[..., Any], cfg: Any, *args: Any, **kwargs: Any) -> Any:
    """Wrap ``load_checkpoint(cfg, …)``, which chooses the file that a training begins with."""
    try:
        return load(cfg, *args, **kwargs)
    except ValueError as error:
        if isinstance(error, UsageError) or not str(error).startswith("--finetune-from-model"):
            raise
        raise UsageError(f"fairseq_localattn: {str(error).partition(': ')[0]}") from error


def _needed(build: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Wrap fairseq's ``build_criterion(cfg)``, which returns None where there are no options."""
    criterion = build(*args, **kwargs)
    if criterion is None:
        raise ValueError("the options name no criterion")
    return criterion


def apply() -> None:
    """Install the checks in fairseq; to be called once."""
    around(checkpoint_utils, "load_model_ensemble_and_task")(_of_the_file)
    around(checkpoint_utils, "load_checkpoint")(_of_the_command)
    around(Trainer, "load_checkpoint")(_of_the_training)
    EpochBatchIterator.load_state_dict = explained(
        EpochBatchIterator.load_state_dict, "cannot continue in the epoch of the checkpoint"
    )
    around(FairseqOptimizer, "load_state_dict")(_of_its_parameters)
    for name in ("build_bpe", "build_tokenizer"):
        setattr(encoders, name, explained(getattr(encoders, name), "cannot make the tokeniser or bpe of the options"))
    FairseqTask.build_criterion = explained(
        wrapped(FairseqTask.build_criterion, _needed), "cannot make the criterion of the options"
    )
    for task in (TranslationTask, LanguageModelingTask):
        task.load_dataset = explained(
            task.load_dataset, "cannot read the data by the options of the task", errors=(TypeError, AttributeError)
        )
