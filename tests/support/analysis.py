"""What tests of the analyses share: a model as a loaded checkpoint, and Eq. 13 of Fan et al. by loops."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor

from fairseq_localattn.analysis.evaluation import Trained
from support.models import dictionary


def as_trained(model: Any, words: Dictionary | None = None) -> Trained:
    """Return a model as if it was read from a checkpoint; ``words`` are those of both languages."""
    words = words or dictionary()
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words, max_positions=lambda: (1024, 1024))
    return Trained(model, task, "some", torch.device("cpu"))


def share_by_loops(weights: Tensor, window: int) -> float:
    """Return the inner sums of Eq. 13 for one sentence, T×T without padding, by loops."""
    length = len(weights)
    total = 0.0
    for j in range(length):
        for k in range(length):
            if abs(k - j) <= window:
                total += float(weights[j, k])
    return total / length
