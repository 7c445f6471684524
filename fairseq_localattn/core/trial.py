"""Which of several implementations of one attention is the fastest: each is timed once on the inputs at hand."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ..kernels.passes import is_capturing
from .call import Call

logger = logging.getLogger(__name__)
# Returns the attended values, or None if it cannot.
Attend = Callable[[Call], Tensor | None]
# The greatest max|a - b| / max|b| of the output and of each gradient; either may be that far from the exact result.
TOLERANCES = {torch.float32: 1e-2, torch.float16: 2e-2, torch.bfloat16: 5e-2}
REPETITIONS = 10
_chosen: dict[Hashable, str] = {}


@dataclass(frozen=True)
class Trial:
    """The implementations of one attention that :func:`faster` compares.

    Args:
        key: calls with equal keys share one choice.
        name: the attention's name in the log.
        attend: name → implementation. The first is the reference, and is taken if the others fail or differ from it.
        parameters: the parameters whose gradients are compared.
        without_dropout: a context in which dropout is off, while results are compared.
    """

    key: Hashable
    name: str
    attend: Mapping[str, Attend]
    parameters: Sequence[Tensor]
    without_dropout: Callable[[], AbstractContextManager[object]] = nullcontext


def milliseconds(call: Callable[[], object]) -> float:
    """Return the least time of several calls on the current GPU, after two that are not counted.

    Other processes on the GPU can only make a call longer.
    """
    for _ in range(2):
        call()
    times = []
    for _ in range(REPETITIONS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return min(times)


def faster(trial: Trial, call: Call) -> str:
    """Return the name of the fastest implementation, forward and backward, whose results equal those of the first.

    The first call with a key runs and times all of them, and logs the times; later calls return the same name.
    Gradients of the model and random states are not changed. During the capture of a CUDA graph nothing is timed, and
    the first name is returned.
    """
    default = next(iter(trial.attend))
    if trial.key not in _chosen:
        if is_capturing():
            return default
        with torch.random.fork_rng([call.q.device] if call.q.device.type == "cuda" else []):
            _chosen[trial.key] = _fastest(trial, call, default)
    return _chosen[trial.key]


def _fastest(trial: Trial, call: Call, default: str) -> str:
    """Run and time all implementations, and log it."""
    runs: dict[str, Callable[[], object]] = {}
    shown: list[str] = []
    wanted: list[Tensor | None] = []
    for name in trial.attend:
        run = partial(_forward_and_backward, trial, name, call)
        try:
            with trial.without_dropout():
                found = run()
            if not found:  # it is not defined for this mechanism
                continue
            wanted = wanted or found
            reason = _difference(found, wanted, TOLERANCES[call.q.dtype])
        except Exception as error:  # a compiler may fail in any way, and training goes on without it
            if name == default:
                raise
            reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        if reason is None:
            runs[name] = run
        else:
            shown.append(f"{name} not taken: {reason}")
    chosen = default
    if len(runs) > 1:
        times = {name: milliseconds(run) for name, run in runs.items()}
        chosen = min(times, key=times.__getitem__)
        shown = [*(f"{name} {time:.2f} ms" for name, time in times.items()), *shown]
    if shown:
        logger.info(f"attention of {trial.name}: {chosen} ({', '.join(shown)})")
    return chosen


def _forward_and_backward(trial: Trial, name: str, call: Call) -> list[Tensor | None]:
    """Return the output and the gradients of one implementation; nothing if it is not defined."""
    given = (call.query, call.q, call.k, call.v, *call.extra.values())
    query, q, k, v, *more = (x.detach().requires_grad_(x.requires_grad) for x in given)
    extra = dict(zip(call.extra, more, strict=True))
    out = trial.attend[name](Call(call.frame, query, q=q, k=k, v=v, extra=extra))
    if out is None:
        return []
    leaves = [x for x in (query, q, k, v, *more, *trial.parameters) if x.requires_grad]
    return [out.detach(), *torch.autograd.grad(out, leaves, torch.ones_like(out), allow_unused=True)]


def _difference(found: Sequence[Tensor | None], wanted: Sequence[Tensor | None], tolerance: float) -> str | None:
    """Return what is wrong with the results of an implementation, or None if they are those wanted."""
    for got, want in zip(found, wanted, strict=True):
        if got is None and want is None:
            continue
        if got is None or want is None:
            present = want if got is None else got
            assert present is not None
            if present.abs().amax() > 0:
                return "a gradient is missing"
            continue
        scale = want.abs().amax().clamp(min=torch.finfo(want.dtype).tiny)
        gap = float(((got - want).abs().amax() / scale).item())
        if not gap <= tolerance:
            return f"its result differs by {gap:.1%}"
    return None
