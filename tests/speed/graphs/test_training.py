"""Trainings with recorded steps, rehearsed on a CPU: all but the recording itself is as on a GPU."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import nn

from fairseq_localattn.criterions.phrase_tags import NAME as TAGGING
from fairseq_localattn.speed.graphs import training
from fairseq_localattn.speed.graphs.training import RecordedCriterion, reason_against
from support import forked
from support.checkpoints import assert_same_training, checkpoint
from support.cli import fairseq, make_data, train_flags
from support.models import build
from support.speed.recorded import Again

TREES = {"arch": "transformer_mgsa_tiny", "task": "translation_with_phrases", "criterion": TAGGING, "mgsa_tags": True}
OTHERS: dict[str, Any] = {"arch": "transformer_csan_tiny", "sentence_avg": True, "update_freq": 2}
OTHERS |= {"criterion": "cross_entropy", "label_smoothing": None}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("data"), train=120)


@pytest.fixture(autouse=True)
def on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(training.RECORDERS, "cpu", Again)


def padded(self: RecordedCriterion, shape: Any, sample: dict[str, Any]) -> Any:
    """Compute the loss of a padded batch as fairseq does, with the numbers of the batch."""
    assert shape.model.training
    shape.batch.copy_(sample)
    loss, _, logged = self.criterion(shape.model, shape.batch.sample)
    size = len(sample["id"]) if self.criterion.sentence_avg else sample["ntokens"]
    counts = {"ntokens": sample["ntokens"], "nsentences": len(sample["id"]), "sample_size": size}
    return loss, size, {**logged, **counts}


def train(data: Path, folder: Path, arch: str = "transformer_man_tiny", updates: int = 0, **more: Any) -> str:
    """Train two epochs, or to a number of updates, and return the log."""
    more = {"optimizer": "localattn_adam", "max_epoch": 2, "log_interval": 1, "max_tokens": 200, **more}
    return fairseq("train", *train_flags(data, arch, folder, updates, **more)).stdout


def losses(log: str) -> list[tuple[str, str]]:
    """Return what is logged of each update and validation, without times."""
    rows = [json.loads(line) for line in log.splitlines() if line.startswith('{"')]
    kept = ("loss", "nll_loss", "wpb", "bsz", "gnorm", "tag_loss", "tag_accuracy", "num_updates")
    return [(key, row[key]) for row in rows for key in row if key.removeprefix("valid_") in kept]


def assert_equal(*folders: Path) -> None:
    assert_same_training(*(folder / "checkpoint_last.pt" for folder in folders))


@pytest.mark.parametrize("flags", [{}, TREES, OTHERS], ids=["plain", "trees", "several batches an update"])
def test_two_epochs_equal_those_without_recording(
    flags: dict[str, Any], data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = train(data, tmp_path / "recorded", **flags)
    (line,) = [line for line in log.splitlines() if line.startswith("graphs:")]
    assert re.fullmatch(
        r"graphs: \d shapes, from \d+ sentences of \d tokens to 24 of 8, 1\.\d\d padded .*, recorded .* s", line
    )
    monkeypatch.setattr(RecordedCriterion, "_replay", padded)
    expected = train(data, tmp_path / "plain", **flags)
    assert losses(log) == losses(expected) and len(losses(log)) > 30
    assert_equal(tmp_path / "recorded", tmp_path / "plain")


def test_a_training_goes_on_in_the_middle_of_its_second_epoch(data: Path, tmp_path: Path) -> None:
    train(data, tmp_path / "whole")
    train(data, tmp_path / "parts", updates=7)
    train(data, tmp_path / "parts")
    assert_equal(tmp_path / "whole", tmp_path / "parts")


def test_without_graphs_nothing_changes(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = train(data, tmp_path / "off", localattn_graphs=0)
    monkeypatch.delitem(training.RECORDERS, "cpu")
    assert losses(train(data, tmp_path / "cpu")) == losses(log)
    assert_equal(tmp_path / "off", tmp_path / "cpu")
    assert "graphs:" not in log


PLUGIN = """
from fairseq_localattn.speed.graphs import recording, training

class Recorder(recording.CudaGraphs):
    def __init__(self): pass
    def warm_up(self, function):
        function()
        if {waits}: raise recording.WaitsError("called a synchronizing operation")
    def record(self, function): return function

training.RECORDERS["cpu"] = Recorder
"""


@pytest.mark.slow
def test_a_training_of_two_processes(data: Path, tmp_path: Path) -> None:
    """Without dropout it equals one whose steps wait, on the same batches without graphs, but for rounding."""
    for waits in (False, True):
        folder = tmp_path / f"waits_{waits}"
        folder.mkdir()
        (folder / "__init__.py").write_text(PLUGIN.format(waits=waits))
        flags = {"optimizer": "localattn_adam", "dropout": 0, "max_tokens": 100, "update_freq": 2, "user_dir": folder}
        words = train_flags(data, "transformer_man_tiny", folder, 5, **flags)
        with forked.two_processes(*words, cwd=tmp_path) as both:
            done = [each.wait() for each in both]
        assert [each.returncode for each in done] == [0, 0], done[0].stderr[-2000:]
        log = done[0].stdout + done[0].stderr
        none = "graphs: none: a step waits for the device: called a synchronizing operation"
        assert "graphs: " in log and (none in log) == waits
    weights = [checkpoint(tmp_path / f"waits_{waits}" / "checkpoint_last.pt")["model"] for waits in (False, True)]
    torch.testing.assert_close(*weights, rtol=1e-4, atol=1e-5)


def trainer(model: Any, criterion: Any = None, **more: Any) -> Any:
    """Return a stand-in for fairseq's trainer; ``more`` are options of fairseq, or attributes of the trainer."""
    options = {"amp": False, "ddp_backend": "pytorch_ddp", "use_bmuf": False, "heartbeat_timeout": -1, **more}
    group = SimpleNamespace(**options)
    task = Mock(has_sharded_data=Mock(return_value=False))
    made = {"data_parallel_world_size": 1, "is_fsdp": False, "quantizer": None, "task": task, **more}
    cfg = SimpleNamespace(common=group, distributed_training=group, optimization=group)
    criterion = criterion or training.CRITERION_REGISTRY["cross_entropy"](
        SimpleNamespace(target_dictionary=None), False
    )
    return SimpleNamespace(cfg=cfg, get_model=lambda: model, get_criterion=lambda: criterion, **made)


def hooked(model: nn.Module) -> nn.Module:
    model.decoder.layers[0].fc1.register_forward_hook(lambda *_: None)  # type: ignore[union-attr, index]
    return model


def model_with(*flags: str) -> nn.Module:
    return build("transformer_csan_tiny", list(flags))


@pytest.mark.parametrize(("made", "more", "reason"), [
    (model_with, {}, None),
    (model_with, {"data_parallel_world_size": 2, "ddp_backend": "legacy_ddp"}, None),
    (model_with, {"data_parallel_world_size": 2}, r"--ddp-backend pytorch_ddp \(legacy_ddp has them\)"),
    (model_with, {"amp": True}, "--amp"),
    (model_with, {"task": Mock()}, "data in several folders"),
    (model_with, {"criterion": nn.Module()}, "the criterion Module"),
    (lambda: hooked(model_with()), {}, "another change of a module's forward pass"),
    (lambda: model_with("--checkpoint-activations"), {}, "--checkpoint-activations"),
    (lambda: model_with("--quant-noise-pq", "0.1"), {}, "another change of a module's forward pass"),
    (lambda: model_with("--decoder-layerdrop", "0.1"), {}, "LayerDrop"),
])  # fmt: skip
def test_steps_that_cannot_be_recorded_have_a_reason(made: Any, more: dict[str, Any], reason: str | None) -> None:
    found = reason_against(trainer(made(), **more))
    assert found is None if reason is None else re.search(reason, found or "")


def test_parameters_that_are_frozen_or_thawed_are_computed_without_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was recorded gives gradients to the parameters that had some then."""
    model, sample = nn.Linear(1, 1), dict[str, Any](net_input={})
    model.bias.requires_grad_(False)
    plain = Mock(return_value="plain", parameters=lambda: [])
    criterion = RecordedCriterion(plain, Mock(), {}, Mock())
    monkeypatch.setattr(criterion, "_record", lambda *_: [Mock()])
    monkeypatch.setattr(criterion, "_replay", lambda *_: "recorded")
    criterion.record(Mock(model=model), sample)
    assert criterion(model, sample) == "recorded"
    for parameter in (model.bias, model.weight):
        parameter.requires_grad_(not parameter.requires_grad)
        assert criterion(model, sample) == "plain"
        parameter.requires_grad_(not parameter.requires_grad)
    assert criterion(model, sample) == "recorded"
