"""What is recorded reads nothing on the host; gradients are scaled, added up and left alone as in fairseq."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock, Mock, call

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.batches import for_model
from benchmarks.launches import META, Launches, batches_of_count, counted, settings_of_count
from benchmarks.steps import TrainingStep
from benchmarks.systems import SYSTEMS, make_task
from fairseq_localattn.errors import UsageError
from fairseq_localattn.speed.graphs.batch import FixedBatch
from fairseq_localattn.speed.graphs.ladder import Shape
from fairseq_localattn.speed.graphs.recording import CudaGraphs, Gradients, RecordedLoss, WaitsError
from support.speed.recorded import PADDINGS, Again, systems

SETTINGS = replace(settings_of_count(), size="tiny")
OUTSIDE = 14  # the most operations of a step that are not recorded: batch in, loss out, gradients set to 0


class Made(TorchDispatchMode):
    """Remembers all tensors that are made inside of the context."""

    def __init__(self) -> None:
        super().__init__()
        self.tensors: list[weakref.ref[Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.tensors += [weakref.ref(each) for each in tree_leaves(result) if isinstance(each, Tensor)]
        return result


class Counts(Again):
    """Counts what is recorded, remembers what was made meanwhile, and replays nothing."""

    def __init__(self) -> None:
        self.found: list[Launches] = []
        self.made: list[Made] = []

    def record(self, function: Callable[[], None]) -> Callable[[], None]:
        with counted() as found, Made() as made:
            function()
        self.found.append(found)
        self.made.append(made)
        return lambda: None


@pytest.mark.parametrize("name", systems(quick=("mma", "diffwin", "mgsa_syntactic")))
def test_nothing_is_read_on_the_host_or_kept(name: str) -> None:
    with META:
        step = TrainingStep(SYSTEMS[name], SETTINGS, make_task(SETTINGS.words))
    model, recorder = step.built.model.train(), Counts()
    sample = for_model(batches_of_count(SETTINGS)[0], SYSTEMS[name].trees, META)
    batch = FixedBatch(sample, Shape(144, 32), PADDINGS)
    loss = RecordedLoss(step.built.criterion, model, batch, Gradients(list(model.parameters())))
    with counted():
        loss.record(recorder)  # the first pass makes tables of positions
    forward, backward = recorder.found
    assert forward.total > 80 and backward.total > 100 and not forward.syncs + backward.syncs
    # A cache of what a graph makes would be filled by its replay alone, and read by others.
    gc.collect()
    written = [*loss.gradients.buffers, *batch.tensors.values(), *model.parameters()]
    alive = [each for made in recorder.made for ref in made.tensors if (each := ref()) is not None]
    kept = {each.untyped_storage()._cdata for each in (loss.loss, *loss.logged.values(), *written)}
    assert [each.shape for each in alive if each.untyped_storage()._cdata not in kept] == []
    with counted() as found:
        loss(sample)[0].backward()
    more = 8 if SYSTEMS[name].trees else 0  # phrases and tags, and four more numbers to log
    assert found.total <= OUTSIDE + more and not found.syncs, found.operations


class Linear(nn.Module):
    """A model with a parameter that is not used; the loss is the sum over words that are not padding."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.unused = nn.Parameter(torch.ones(9)), nn.Parameter(torch.ones(2))

    def forward(self, target: Tensor) -> Tensor:
        return (self.weight.cumsum(0)[target] * target.ne(1)).sum()


def criterion(model: Linear, sample: dict[str, Any]) -> tuple[Tensor, int, dict[str, Any]]:
    loss = model(sample["target"])
    return loss, 0, {"loss": loss.data, "ntokens": sample["ntokens"]}


def batch_of(*words: int) -> dict[str, Any]:
    return {"target": torch.tensor([words]), "net_input": {}, "ntokens": len(words)}


@pytest.fixture
def model() -> Linear:
    return Linear()


@pytest.fixture
def recorded(model: Linear) -> RecordedLoss:
    batch = FixedBatch(batch_of(3), Shape(2, 4), PADDINGS)
    loss = RecordedLoss(criterion, model, batch, Gradients(list(model.parameters())))
    loss.record(Again())
    assert model.weight.grad is None
    return loss


def gradient_of(model: Linear, *scaled: tuple[float, dict[str, Any]]) -> Tensor:
    """Return the gradient of losses times factors, without recording."""
    total = sum(scale * criterion(model, sample)[0] for scale, sample in scaled)
    return torch.autograd.grad(total, [model.weight])[0]  # type: ignore[arg-type]


def test_losses_are_scaled_and_gradients_added_up(model: Linear, recorded: RecordedLoss) -> None:
    """As in updates of several batches, with the scale of fp16 and with a batch that is ignored."""
    one, two, three = batch_of(3, 4), batch_of(8, 8), batch_of(2, 2, 5, 7)
    for _ in range(2):
        loss, logged = recorded(one)
        (4 * loss).backward()
        (recorded(two)[0] * 0.5).backward()
        assert logged["loss"] == loss == criterion(model, one)[0]  # not that of the second
        ignored = recorded(three)[0]
        ignored *= 0  # as fairseq does
        ignored.backward()
        assert torch.equal(model.weight.grad, gradient_of(model, (4, one), (0.5, two)))  # type: ignore[arg-type]
        assert model.unused.grad is None
        model.zero_grad()  # to None, as fairseq's optimizers


def test_batches_with_and_without_graphs_add_up(model: Linear, recorded: RecordedLoss) -> None:
    one, two = batch_of(3, 4), batch_of(8)
    expected = gradient_of(model, (2, one), (1, two))
    for plain_first in (True, False):
        for plain in (plain_first, not plain_first, True):
            loss = criterion(model, one)[0] if plain else recorded(two)[0]
            loss.backward()
        assert torch.equal(model.weight.grad, expected)  # type: ignore[arg-type]
        model.zero_grad()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RuntimeError("called a synchronizing CUDA operation"), WaitsError),
        (torch.OutOfMemoryError("CUDA out of memory"), UsageError),
        (RuntimeError("other"), RuntimeError),
    ],
)
def test_a_stream_that_failed_is_waited_for(
    error: Exception, told: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has made is used without graphs, on the stream of the training."""
    main, own, calls, modes = MagicMock(), MagicMock(), Mock(side_effect=[None, error]), Mock()
    replaced = {"Stream": lambda: own, "current_stream": lambda: main, "graph_pool_handle": lambda: "pool"}
    more = {"stream": nullcontext, "get_sync_debug_mode": lambda: 0, "set_sync_debug_mode": modes}
    for name, stand_in in {**replaced, **more}.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    with pytest.raises(told) as raised:
        CudaGraphs().warm_up(calls)
    assert raised.type is told and calls.call_count == 2
    assert modes.call_args_list == [call("error"), call(0)]
    main.wait_stream.assert_called_once_with(own)


def test_what_cuda_refuses_to_record_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = MagicMock()
    graph.return_value.__exit__.side_effect = RuntimeError("capture ended")  # as torch's, which hides the reason
    stand_ins = {"graph": graph, "CUDAGraph": lambda: "new", "graph_pool_handle": lambda: "pool"}
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    with pytest.raises(UsageError, match=r"^--localattn-graphs: the GPU recorded no graph: the reason; --localattn-gr"):
        CudaGraphs().record(Mock(side_effect=RuntimeError("the\nreason")))
    graph.assert_called_once_with("new", pool="pool", capture_error_mode="thread_local")
