"""Loading of a trained checkpoint and of the batches of a split, by fairseq's own functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils, utils
from fairseq.logging import progress_bar
from fairseq.models import BaseFairseqModel
from fairseq.models.transformer import TransformerModelBase
from torch import Tensor

from ..errors import UsageError
from .attention_weights import STACKS


@dataclass(frozen=True)
class Trained:
    """A model in evaluation mode and fp32 on its device, its task, and the ``--arch`` that it was trained with."""

    model: Any
    task: Any
    architecture: str
    device: torch.device


@dataclass(frozen=True)
class Split:
    """The batches of a split, with the number of sentences in them and of those left out as too long."""

    name: str
    batches: Any
    sentences: int
    too_long: int


def load_trained(
    path: str | Path,
    data: str | Path,
    cpu: bool = False,
    *,
    kind: type[BaseFairseqModel] = TransformerModelBase,
    what: str = "a Transformer with encoder and decoder",
) -> Trained:
    """Load the model of a checkpoint.

    Args:
        path: the checkpoint.
        data: a folder that fairseq-preprocess wrote, for the dictionaries.
        cpu: do not use the GPU.
        kind: the class that the model must have.
        what: a description of such models, for the error message.

    Raises UsageError if a file is missing or not a checkpoint, the dictionaries are not those of the training, or the
    model is of another kind.
    """
    models, cfg, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], arg_overrides={"data": str(data)})
    model = models[0]
    if not isinstance(model, kind):
        raise UsageError(f"{path} holds a {type(model).__name__}: only {what} will do")
    device = torch.device("cuda" if torch.cuda.is_available() and not cpu else "cpu")
    architecture = getattr(cfg.model, "arch", None) or cfg.model._name  # fairseq-hydra-train writes only the latter
    return Trained(model.float().eval().to(device), task, architecture, device)


def read_split(trained: Trained, name: str, max_tokens: int = 4000, *, skip_long: bool = True) -> Split:
    """Return the batches of a split, each of at most ``max_tokens`` tokens with padding (on either side).

    Sentences longer than the model's positions are left out if ``skip_long``, and refused otherwise. Raises UsageError
    also for a split that does not exist or has no sentence that fits, and for a sentence longer than ``max_tokens``.
    """
    task = trained.task
    task.load_dataset(name)
    dataset = task.dataset(name)
    positions = utils.resolve_max_positions(task.max_positions(), trained.model.max_positions())
    fitting, too_long = dataset.filter_indices_by_size(dataset.ordered_indices(), positions)
    if too_long and not skip_long:
        raise UsageError(
            f"{len(too_long)} sentences of {name} are longer than {positions} tokens, all that the model can read; "
            "train it with more --max-positions, or with --shorten-method truncate"
        )
    if len(fitting) == 0:
        raise UsageError(f"the split {name} has no sentence of at most {positions} tokens")
    longest = max(map(dataset.num_tokens, fitting))
    if longest > max_tokens:
        raise UsageError(f"--max-tokens {max_tokens}: {name} has a sentence of {longest} tokens; give that or more")
    batches = task.get_batch_iterator(
        dataset, max_tokens=max_tokens, max_positions=positions, ignore_invalid_inputs=True
    ).next_epoch_itr(shuffle=False)
    return Split(name, batches, len(fitting), len(too_long))


def with_progress(split: Split, label: str) -> Any:
    """Return fairseq's progress bar over the batches: a bar on a terminal, else a logged line every 20 batches."""
    return progress_bar.progress_bar(split.batches, prefix=f"{label}, {split.name}", log_interval=20)


def to_device(sample: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Return a batch on a device."""
    return utils.move_to_cuda(sample, device) if device.type == "cuda" else sample


def padding_masks(model: TransformerModelBase, net_input: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the padding mask of each stack's input, B×T, True = padding."""
    inputs = dict(zip(STACKS, (net_input["src_tokens"], net_input["prev_output_tokens"]), strict=True))
    return {stack: tokens.eq(getattr(model, stack).padding_idx) for stack, tokens in inputs.items()}
