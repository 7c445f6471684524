"""Projections of queries, keys and values to heads: one product where that pays, and where no hook would miss it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..kernels.projections import join_for_decoding, project_at_once, project_jointly, to_column_major
from .decoding import IncrementalState
from .hooks import is_plain


class ProjectedHeads(nn.Module):
    """The part of an attention that applies its linear layers and splits their outputs into heads."""

    num_heads: int
    head_dim: int
    self_attention: bool
    extra_queries: tuple[str, ...]
    extra_keys: tuple[str, ...]
    _state_key: str

    def project(
        self, query: Tensor, key: Tensor, value: Tensor, state: IncrementalState | None = None
    ) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """Compute all projections of T×B×C and S×B×C; those of one input tensor in one product.

        Returns q B×H×T×D, k and v B×H×S×D, and the outputs of the extra projections by name.
        """
        queries, keys = ("q_proj", *self.extra_queries), ("k_proj", *self.extra_keys)
        groups: list[tuple[Tensor, tuple[str, ...]]] = [(query, queries), (key, keys), (value, ("v_proj",))]
        if query is key and key is value:
            groups = [(query, (*queries, *keys, "v_proj"))]
        elif key is value:
            groups = [(query, queries), (key, (*keys, "v_proj"))]
        # Keys of another sequence are projected in one step alone.
        found = [x for y, names in groups for x in self.project_heads(y, names, state if y is query else None)]
        extra = dict(zip((*queries, *keys, "v_proj"), found, strict=True))
        return extra.pop("q_proj"), extra.pop("k_proj"), extra.pop("v_proj"), extra

    def project_heads(self, x: Tensor, names: Sequence[str], state: IncrementalState | None = None) -> list[Tensor]:
        """Apply the named linear layers to x, T×B×C. Returns a list of B×H×T×D, views of one product where that pays.

        Joining copies the weights: it pays in training, and in decoding, where ``state`` keeps them joined from step to
        step. Layers that do more than a product, such as those with hooks, are always called.
        """
        projections: list[Any] = [getattr(self, name) for name in names]
        x = x.contiguous()  # the first layer's input is transposed, and would be multiplied sentence by sentence
        parts: Sequence[Tensor] | None = None
        if len(names) > 1 and all(map(is_plain, projections)) and len({p.bias is None for p in projections}) == 1:
            if self.training:
                if x.device.type != "cpu":
                    if len(names) > 2:  # two are no fewer operations at once
                        parts = project_at_once(x, projections, self.num_heads)
                elif not (x.size(0) == 1 and torch.is_grad_enabled()):
                    parts = project_jointly(x, projections, self.num_heads)
            elif state is not None and not torch.is_grad_enabled():
                joined = self._joined(tuple(names), projections, state)
                parts = F.linear(x, *joined).unflatten(-1, (self.num_heads, len(names), self.head_dim)).unbind(3)
        elif len(names) > 1 and state is not None and all(hasattr(each, "joined") for each in projections):
            y = self._joined(tuple(names), projections, state)(x)
            parts = y.unflatten(-1, (self.num_heads, len(names), self.head_dim)).unbind(3)
        if parts is None:
            parts = [projection(x).unflatten(-1, (-1, self.head_dim)) for projection in projections]
        return [part.permute(1, 2, 0, 3) for part in parts]

    def _joined(self, names: tuple[str, ...], projections: Sequence[Any], state: IncrementalState) -> Any:
        """Return the joined parameters of the projections, or the joined layer, kept in ``state`` for one decoding.

        The keys in the state come from the same parameters, so a change of them concerns the next decoding.
        """
        kept: dict[Any, Any] = state.setdefault(self._state_key.replace("attn_state", "projections"), {})
        if names not in kept:
            join = getattr(projections[0], "joined", join_for_decoding)
            kept[names] = join(projections, self.num_heads)
        return kept[names]


def lay_out_for_decoding(model: nn.Module) -> None:
    """Lay out the weights of linear layers on a CPU in column-major order; faster for the few rows of a decoding step.

    Weights shared with an embedding stay row-major, since rows are looked up in them.
    """
    looked_up = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    for module in model.modules():
        if is_plain(module) and module.weight.device.type == "cpu" and id(module.weight) not in looked_up:
            module.weight.data = to_column_major(module.weight.data)
