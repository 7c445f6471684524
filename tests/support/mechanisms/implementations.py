"""The choice of an implementation, for one module after another: models are built with theirs."""

from __future__ import annotations

from torch import nn

from fairseq_localattn.core.attention import LocalAttention


def compute_by(module: nn.Module, implementation: str) -> None:
    """Let all attentions of a module compute by one implementation, to compare it with others of the same weights."""
    for part in module.modules():
        if isinstance(part, LocalAttention):
            part.implementation = implementation
