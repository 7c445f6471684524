"""Wrappers of fairseq's functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def wrapped(former: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a wrapper, named like ``former``, that calls ``function(former, …)``."""

    @functools.wraps(former)
    def instead(*args: Any, **kwargs: Any) -> Any:
        return function(former, *args, **kwargs)

    return instead


def around(owner: Any, name: str) -> Callable[[Function], Function]:
    """Decorator: replace a function of fairseq by one that gets the former function as its first argument.

    ``owner`` is the module or the class that has the function ``name``.
    """

    def install(function: Function) -> Function:
        setattr(owner, name, wrapped(getattr(owner, name), function))
        return function

    return install
