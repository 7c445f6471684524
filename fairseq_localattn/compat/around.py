"""Functions that stand around those of fairseq."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def wrapped(former: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what calls ``function`` with ``former`` before the arguments, under the name of ``former``."""

    @functools.wraps(former)
    def instead(*args: Any, **kwargs: Any) -> Any:
        return function(former, *args, **kwargs)

    return instead


def around(owner: Any, name: str) -> Callable[[Function], Function]:
    """Decorator: let a function take the place of one of fairseq's, which it gets before the arguments.

    ``owner`` is the module or the class that has the function ``name``.
    """

    def install(function: Function) -> Function:
        setattr(owner, name, wrapped(getattr(owner, name), function))
        return function

    return install
