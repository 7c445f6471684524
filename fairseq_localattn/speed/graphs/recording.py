"""Loss and gradients of batches of one shape, recorded once and replayed; on CUDA by torch's graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import UsageError
from ...kernels.once import once_differentiable
from .batch import FixedBatch

OFF = "--localattn-graphs 0 trains without graphs"


class WaitsError(Exception):
    """A step that waits for the device, which no graph can."""


class CudaGraphs:
    """Records CUDA graphs, which share one pool of memory: one at a time is in use."""

    def __init__(self) -> None:
        self.pool = torch.cuda.graph_pool_handle()

    def warm_up(self, function: Callable[[], None]) -> None:
        """Call a function twice on a stream of its own: the first call may choose kernels by timing them.

        Raises WaitsError where the second waits for the GPU, and UsageError without enough memory.
        """
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(stream):
                function()
                with _waiting_forbidden():
                    function()
        except torch.OutOfMemoryError as error:
            raise UsageError(f"--localattn-graphs: the GPU's memory is too small: lower --max-tokens; {OFF}") from error
        finally:  # tables that were made there are read without graphs as well
            torch.cuda.current_stream().wait_stream(stream)

    def record(self, function: Callable[[], None]) -> Callable[[], None]:
        """Call a function, and return one that runs its kernels again, in the same memory.

        Raises UsageError where CUDA refuses, after which the process is of no use.
        """
        graph = torch.cuda.CUDAGraph()
        try:
            # Not "global": the thread that pins the memory of fairseq's batches goes on meanwhile.
            with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
                function()
        except RuntimeError as error:
            first = " ".join(str(error.__context__ or error).split())[:200]
            raise UsageError(f"--localattn-graphs: the GPU recorded no graph: {first}; {OFF}") from error
        return graph.replay


@contextmanager
def _waiting_forbidden() -> Iterator[None]:
    """Context manager: raise WaitsError where the host waits for the GPU."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    except RuntimeError as error:
        if "synchroniz" not in str(error):
            raise
        raise WaitsError(str(error)) from error
    finally:
        torch.cuda.set_sync_debug_mode(before)


class Gradients:
    """Buffers in which all shapes add up their gradients, and which are the parameters' gradients meanwhile."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = list(parameters)
        self.buffers = [torch.zeros_like(each) for each in parameters]

    def leave_out(self, missing: Sequence[bool]) -> None:
        """Forget parameters that have no gradient."""
        kept = [(p, b) for p, b, no in zip(self.parameters, self.buffers, missing, strict=True) if not no]
        self.parameters, self.buffers = [p for p, _ in kept], [b for _, b in kept]

    def attach(self) -> None:
        """Make the buffers the parameters' gradients, with what these are so far: 0 in the first batch of an update."""
        fresh = []
        for parameter, buffer in zip(self.parameters, self.buffers, strict=True):
            if parameter.grad is None:
                fresh.append(buffer)
            elif parameter.grad is not buffer:  # of a batch that was computed without graphs
                buffer.copy_(parameter.grad)
            parameter.grad = buffer
        if fresh:
            torch._foreach_zero_(fresh)


class RecordedLoss:
    """A criterion on batches of one shape: one recorded function for the loss, another for its gradients.

    The backward pass is a function of its own, because fairseq scales the loss between both (fp16), or sets it to 0.

    Args:
        criterion: of fairseq, called with model and batch; it returns tensors to log, and numbers that are left out.
    """

    def __init__(
        self, criterion: Callable[..., Any], model: nn.Module, batch: FixedBatch, gradients: Gradients
    ) -> None:
        self.criterion, self.model, self.batch, self.gradients = criterion, model, batch, gradients
        self.loss: Tensor
        self.anchor: Tensor
        self.logged: dict[str, Tensor]
        self.scale: Tensor | None = None

    def record(self, recorder: CudaGraphs) -> None:
        """Record both functions; the parameters' gradients stay as they are. Raises WaitsError."""
        recorder.warm_up(self._run)
        self._replay_forward = recorder.record(self._forward)
        self._replay_backward = recorder.record(self._backward)

    def _run(self) -> None:
        self._forward()
        if self.scale is None:
            self.scale = torch.zeros_like(self.loss)
            self.anchor = torch.zeros_like(self.loss, requires_grad=True)
            missing = [each is None for each in self._differentiate(retain_graph=True)]
            self.gradients.leave_out(missing)
        self._backward()

    def _forward(self) -> None:
        with torch.enable_grad():
            self.loss, _, logged = self.criterion(self.model, self.batch.sample)
        self.logged = {name: value for name, value in logged.items() if isinstance(value, Tensor)}

    def _differentiate(self, **options: Any) -> tuple[Tensor | None, ...]:
        return torch.autograd.grad(self.loss, self.gradients.parameters, self.scale, allow_unused=True, **options)

    def _backward(self) -> None:
        torch._foreach_add_(self.gradients.buffers, self._differentiate())  # type: ignore[arg-type]
        self.loss = self.loss.detach()  # which frees the memory of the pass for the next recording

    def __call__(self, sample: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of a batch, and tensors to log.

        The backward pass, which must come before the next batch, adds to the parameters' gradients.
        """
        self.batch.copy_(sample)
        loss = _Replay.apply(self.anchor, self)
        return loss, {name: value.detach().clone() for name, value in self.logged.items()}

    def replay_forward(self) -> Tensor:
        """Compute the loss of the batch that was copied."""
        self._replay_forward()
        return self.loss.detach().clone()  # the next replay overwrites it

    def replay_backward(self, scale: Tensor) -> None:
        """Add the gradients of the loss times ``scale`` to those of the parameters."""
        assert self.scale is not None
        self.gradients.attach()
        self.scale.copy_(scale)
        self._replay_backward()


class _Replay(torch.autograd.Function):
    """The loss as a function for autograd. ``anchor`` requires a gradient, and gets none."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, recorded: RecordedLoss) -> Tensor:
        ctx.recorded = recorded
        return recorded.replay_forward()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None]:
        ctx.recorded.replay_backward(gradient)
        return None, None
