"""Results that the layers of one forward pass share: masks, windows, positions. Depends on torch alone.

The rule: a result is shared inside of one :func:`forward_pass` alone, and released with it. A pass is one call of a
stack of layers. So nothing is stale: the next batch is another pass, also where it refills the tensors of this one, as
a CUDA graph does when it is replayed. Inside of a pass a tensor that was changed in place by its own methods is another
one; torch counts no changes in inference mode, where masks must not be changed during a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")


class _Pass:
    """What one forward pass has made so far. The tensors of the keys are held, so that no other takes their place."""

    def __init__(self) -> None:
        self.capturing = is_capturing()
        self.made: dict[Hashable, tuple[object, tuple[object, ...]]] = {}
        self.results: set[int] = set()  # the ids of what was made, tuples by their members


_current: ContextVar[_Pass | None] = ContextVar("forward_pass", default=None)


@contextmanager
def forward_pass(share: bool = True) -> Iterator[None]:
    """Let the layers that are called inside share results; without ``share``, let them share none."""
    if torch.compiler.is_compiling():  # equal computations of one graph are joined by the compiler
        yield
        return
    token = _current.set(_Pass() if share else None)
    try:
        yield
    finally:
        _current.reset(token)


def shared(make: Callable[[], Result], *key: object) -> Result:
    """Return ``make()``, or what it returned in this forward pass for an equal key.

    Args:
        make: returns a tensor or a tuple that depends on ``key`` alone; nothing may overwrite it.
        key: tensors, and hashable values. Tensors are equal that are the same view of the same memory. With one that
            needs a gradient, nothing is shared: each layer has a graph of its own.
    """
    if torch.compiler.is_compiling():
        return make()
    current = _current.get()
    # A graph that is captured must compute what it uses: else it would read what a pass outside of it has released.
    if current is None or current.capturing != is_capturing() or _is_transformed():
        return make()
    if torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in key):
        return make()
    identity = tuple(view_of(x) if isinstance(x, Tensor) else x for x in key)
    found = current.made.get(identity)
    if found is None:
        current.made[identity] = found = make(), key
        current.results |= {id(x) for x in (found[0] if isinstance(found[0], tuple) else found[:1])}
    return found[0]  # type: ignore[return-value]


def is_shared(x: Tensor | None) -> bool:
    """Return whether x is None or was returned by :func:`shared` in this forward pass.

    Only what is made of such tensors can serve other layers; other results would be stored to the end of the pass.
    """
    current = _current.get()
    return x is None or (current is not None and id(x) in current.results)


def is_exporting() -> bool:
    """Return whether torch.export makes a graph for all lengths and values, which Python must not read.

    torch 2.6 does not say so.
    """
    return bool(getattr(torch.compiler, "is_exporting", bool)())


def may_read(device: torch.device) -> bool:
    """Return whether Python may read tensors: on a CPU, where nothing waits, and not where a graph is made for all."""
    return device.type == "cpu" and not is_exporting()


def is_capturing() -> bool:
    """Return whether a CUDA graph is being captured."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def _is_transformed() -> bool:
    """Return whether functorch or tracing replaces tensors by stand-ins of their own."""
    return torch._C._functorch.peek_interpreter_stack() is not None or torch.jit.is_tracing()


def view_of(x: Tensor) -> Hashable:
    """Return what tells the contents of x from those of another tensor that exists at the same time."""
    version = 0 if x.is_inference() else x._version
    return x.untyped_storage()._cdata, x.storage_offset(), x.shape, x.stride(), x.dtype, version
