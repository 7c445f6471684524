"""Tells whether a linear layer may be computed from its weight and bias, without calling the module and its hooks."""

from __future__ import annotations

from typing import TypeGuard

from torch import nn
from torch.nn.modules import module as torch_module

_OF_A_MODULE = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_GLOBAL = [getattr(torch_module, f"_global{name}") for name in _OF_A_MODULE]


def has_hooks(module: nn.Module) -> bool:
    """Return whether a call of the module runs hooks: forward or backward ones, its own or torch's global ones."""
    own = module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    return bool(own) or any(_GLOBAL)


def hooks_of(module: nn.Module) -> list[object]:
    """Return the forward and backward hooks that a call of the module runs: its own first, then torch's global ones."""
    return [hook for hooks in (*(getattr(module, name) for name in _OF_A_MODULE), *_GLOBAL) for hook in hooks.values()]


def is_plain(module: nn.Module) -> TypeGuard[nn.Linear]:
    """Return whether a module is a linear layer that computes ``x Wᵀ + b`` of its parameters, and nothing else.

    Not plain are subclasses, adapters such as LoRA, parametrisations (pruning, weight norm), quantized layers or
    weights, layers with hooks, and those whose ``forward`` was replaced. Such a module must be called.
    """
    if type(module) is not nn.Linear or type(module._parameters.get("weight")) is not nn.Parameter:
        return False
    return not has_hooks(module) and "forward" not in vars(module)
