"""Tensors that are made once and kept for later calls. Depends on torch alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Generic, ParamSpec

import torch
from torch import Tensor

from .passes import is_capturing, shared

Parameters = ParamSpec("Parameters")


def may_keep() -> bool:
    """Return whether a tensor made now may be stored for later calls.

    False inside torch.compile, export, tracing, functorch and dispatch modes, whose tensors hold no values, and during
    the capture of a CUDA graph, whose tensors get their values at a replay.
    """
    return not (
        torch.compiler.is_compiling()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._functorch.peek_interpreter_stack()
        or torch.jit.is_tracing()
        or is_capturing()
    )


class Kept(Generic[Parameters]):
    """A function with a cache of its last results, which are tensors that nobody may change in place.

    Where nothing may be stored (:func:`may_keep`), the layers of one forward pass still share a result.

    Args:
        function: computes the tensor from hashable arguments; ``__wrapped__`` is the function without the cache.
        number: the size of the cache.
    """

    def __init__(self, function: Callable[Parameters, Tensor], number: int) -> None:
        self.__wrapped__, self.cached = function, lru_cache(number)(self._make)

    def _make(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Tensor:
        with torch.inference_mode(False):  # it may be used in a training step later
            return self.__wrapped__(*args, **kwargs)

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Tensor:
        call: Callable[Parameters, Tensor] = self.cached if may_keep() else self.__wrapped__
        return shared(lambda: call(*args, **kwargs), self, *args, *kwargs.items())

    def in_pass(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Tensor:
        """Call the function once in a forward pass, and keep nothing beyond it: for large results."""
        return shared(lambda: self.__wrapped__(*args, **kwargs), self, *args, *kwargs.items())


def kept(number: int) -> Callable[[Callable[Parameters, Tensor]], Kept[Parameters]]:
    """Decorate a function that returns a tensor to keep its last results; see :class:`Kept`."""
    return lambda function: Kept(function, number)
