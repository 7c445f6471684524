"""Padding masks that fairseq passes on a GPU without reading them.

fairseq asks in each layer of its encoder, and once in its decoder, whether a batch has padding, and leaves the mask out
where it has none. The answer waits for the GPU until it has computed all that was asked of it before. The classes here
answer in the place of the tensor: yes. A mask that hides nothing changes no result.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch._C import _disabled_torch_function_impl


def with_unread_padding(tokens: Tensor) -> Tensor:
    """Return tokens B×T of which fairseq's forward passes take the padding mask to hide something; unchanged on a CPU.

    On a CPU reading costs nothing, and batches without padding are computed faster without the mask.
    """
    return tokens if tokens.device.type == "cpu" else tokens.as_subclass(_Tokens)


class _Tokens(Tensor):
    """Tokens, until they are compared; then an ordinary tensor."""

    __torch_function__ = _disabled_torch_function_impl

    def eq(self, padding: Any) -> Tensor:
        self.__class__ = Tensor  # type: ignore[assignment]
        return self.eq(padding).as_subclass(_Padding)


class _Padding(Tensor):
    """A padding mask, until it is asked whether there is padding; then an ordinary tensor."""

    __torch_function__ = _disabled_torch_function_impl

    def any(self) -> Tensor:  # type: ignore[override]
        self.__class__ = Tensor  # type: ignore[assignment]
        return self.any().as_subclass(_Unread)


class _Unread(Tensor):
    """A boolean on a device, which counts as True in a condition."""

    __torch_function__ = _disabled_torch_function_impl

    def __bool__(self) -> bool:
        return True
