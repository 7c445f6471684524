"""A batch that is copied into a fixed shape has the loss, the gradients and the logged sums of the batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from fairseq import utils
from torch import Tensor

from benchmarks.batches import Batches, for_model
from benchmarks.settings import Settings
from benchmarks.systems import SYSTEMS, Built, build, make_task
from fairseq_localattn.speed.graphs.batch import FixedBatch, unknown_tensors
from fairseq_localattn.speed.graphs.ladder import Shape
from support.speed.recorded import PAD, PADDINGS, SYSTEMS_RECORDED

CPU = torch.device("cpu")


def make(name: str, lengths: list[list[int]]) -> tuple[Built, dict[str, Any]]:
    """Return a system in fp64 without dropout, and a batch of pairs of these lengths."""
    task = make_task(60)
    settings = Settings(CPU, size="tiny", dropout=0.0, flags=("--localattn-loss", "fairseq"))
    built = build(SYSTEMS[name], settings, task)
    built.model.double().train()
    return built, batch_of(name, task, lengths)


def batch_of(name: str, task: Any, lengths: list[list[int]]) -> dict[str, Any]:
    batches = Batches(task.source_dictionary, task.tag_dictionary)
    return for_model(batches._collate(np.array(lengths), len(lengths)), SYSTEMS[name].trees, CPU)


def results(built: Built, sample: dict[str, Any]) -> dict[str, Tensor]:
    """Return what is logged, and the gradients."""
    built.model.zero_grad()
    loss, _, logged = built.criterion(built.model, sample)
    loss.backward()
    gradients = {name: p.grad.clone() for name, p in built.model.named_parameters() if p.grad is not None}
    return {**gradients, **{name: value for name, value in logged.items() if isinstance(value, Tensor)}}


@pytest.mark.parametrize("name", SYSTEMS_RECORDED)
def test_padding_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tensor, "float", Tensor.double)
    monkeypatch.setattr(utils, "log_softmax", lambda x, dim, onnx_trace=False: x.log_softmax(dim))
    built, sample = make(name, [[13, 11], [9, 10], [12, 12]])
    fixed = FixedBatch(sample, Shape(5, 16), PADDINGS)
    fixed.copy_(batch_of(name, make_task(60), [[16, 16]] * 5))  # which the next one overwrites
    fixed.copy_(sample)
    assert not unknown_tensors(sample, PADDINGS) and fixed.tensors["target"][3:].eq(PAD).all()
    plain, padded = results(built, sample), results(built, fixed.sample)
    assert plain.keys() == padded.keys() and len(plain) > 20
    for key, value in plain.items():
        torch.testing.assert_close(padded[key], value, rtol=1e-12, atol=1e-12, msg=key)
