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
    """Return whether a tensor that is made now is usable in a later call.

    Not so inside of a transformation: torch.compile, export, tracing, functorch and dispatch modes make stand-ins, and
    a CUDA graph that is captured makes tensors in its own memory, which it fills when it is replayed.
    """
    return not (
        torch.compiler.is_compiling()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._functorch.peek_interpreter_stack()
        or torch.jit.is_tracing()
        or is_capturing()
    )


class Kept(Generic[Parameters]):
    """A function that returns a tensor, with its results for the last arguments. Nothing may overwrite them.

    The layers of a forward pass share results also where they cannot be kept.

    Args:
        function: is also called by ``__wrapped__``, without keeping the result.
        number: of results that are kept.
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
