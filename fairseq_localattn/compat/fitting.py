"""Checkpoints that do not fit: of another architecture, another dictionary, or with parts missing."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from fairseq import checkpoint_utils
from fairseq.trainer import Trainer

from ..errors import UsageError

# Errors of fairseq where a checkpoint lacks a part, or a part is of another kind.
INCOMPLETE = (KeyError, IndexError, TypeError, AttributeError, AssertionError, ValueError)
PARTS = ("model", "task")  # of the options
ITERATOR = ("epoch", "iterations_in_epoch")
SIZES = re.compile(
    r"size mismatch for (\S+): copying a param with shape torch\.Size\(\[([\d, ]*)\]\) from checkpoint, "
    r"the shape in current model is torch\.Size\(\[([\d, ]*)\]\)"
)
NAMES = re.compile(r"(Missing|Unexpected) key\(s\) in state_dict: (.*)")
SHOWN = 2  # tensors of each kind


def apply() -> None:
    """Install the messages in fairseq; to be called once."""
    checkpoint_utils.load_model_ensemble_and_task = _fitting(checkpoint_utils.load_model_ensemble_and_task)
    Trainer.load_checkpoint = _resuming(Trainer.load_checkpoint)


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


def _short(error: BaseException) -> str:
    """Return kind and text of an error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _fitting(load: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``load_model_ensemble_and_task`` so that it raises UsageError for a checkpoint that does not fit."""

    @functools.wraps(load)
    def fitting(filenames: list[str], *args: Any, **kwargs: Any) -> Any:
        where = " or ".join(map(str, filenames))
        try:
            models, cfg, task = load(filenames, *args, **kwargs)
            for part in PARTS:
                cfg[part]
            return models, cfg, task
        except UsageError:
            raise
        except (RuntimeError, *INCOMPLETE) as error:
            if how := differences(error):
                raise UsageError(
                    f"{where} does not fit the dictionaries or the model: {how}; give the data of its training"
                ) from error
            if isinstance(error, RuntimeError) and "Neither args nor cfg" not in str(error):
                raise
            raise UsageError(
                f"{where}: no model can be built from its options ({_short(error)}): give a checkpoint that "
                "fairseq-train wrote, and --task of its training"
            ) from error

    return fitting


def _resuming(load: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Trainer.load_checkpoint`` so that it raises UsageError for a checkpoint that cannot be continued from."""

    @functools.wraps(load)
    def resuming(self: Any, filename: str, *args: Any, **kwargs: Any) -> Any:
        advice = (
            "--reset-optimizer --reset-lr-scheduler --reset-meters --reset-dataloader take its weights alone, else "
            "give another checkpoint"
        )
        try:
            state = load(self, filename, *args, **kwargs)
            if state is not None and not self.cfg.checkpoint.reset_dataloader:
                for key in ITERATOR:
                    state["train_iterator"][key]
            return state
        except UsageError:
            raise
        except Exception as error:
            if how := differences(error):
                raise UsageError(
                    f"{filename} is of another architecture or dictionary: {how}; give --arch, the model's options and "
                    "the data of its training, or another --save-dir or --restore-file"
                ) from error
            of_the_model = str(error).startswith("Cannot load model parameters") and error.__context__
            cause = of_the_model or error
            if not isinstance(cause, INCOMPLETE):
                raise
            raise UsageError(f"{filename} cannot be continued from ({_short(cause)}): {advice}") from error

    return resuming
