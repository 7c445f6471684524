"""Backward passes that are not differentiable again, and say so. Depends on torch alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Let the backward pass of an autograd function raise RuntimeError where ``create_graph`` asks for its derivative.

    torch's own ``once_differentiable`` raises only where the derivative reaches the gradients that were returned. That
    of an input does not: these are cut from the input, so their part of it would be 0 without an error.
    """

    @wraps(backward)
    def once(ctx: Any, *gradients: Any) -> Any:
        if torch.is_grad_enabled():
            name = f"{backward.__module__}.{backward.__qualname__}"
            raise RuntimeError(f"{name} has no second derivative: take first derivatives alone, without create_graph")
        return backward(ctx, *gradients)

    return once
