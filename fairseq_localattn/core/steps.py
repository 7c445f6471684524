"""The steps of an attention, which mechanisms override, and the computation of attended values by them.

Shapes: T queries, S keys, B sentences, H heads, C channels, D = C / H channels per head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..kernels.blind import blind_queries, clear
from ..kernels.dense import (
    IMPLEMENTATIONS,
    attention_and_weights,
    can_skip_future,
    causal_attention,
    fused_attention,
    use_products,
    weighted_sum,
    weights_of,
)
from ..kernels.dropout import dropout
from ..kernels.masks import Frame, hidden_and_bias, is_future
from ..kernels.passes import is_exporting
from ..kernels.windows import Score, Window, hidden_keys, sum_by_position
from . import banded
from .call import Call
from .query_blocks import attend_in_blocks, queries_at_once

# What may be applied to the concatenated heads before the output projection.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor] | None] = {"none": None, "relu": F.relu, "gelu": F.gelu}
# The steps that change scores, weights or attended values.
SCORING = ("windows", "hidden_keys", "prepare", "position_scores", "score_bias", "reweight", "add_values")


class AttentionSteps(nn.Module):
    """The steps of an attention, from the projected queries, keys and values to the attended values.

    :class:`LocalAttention` adds the projections and fairseq's forward pass, and describes the arguments.
    """

    kind: ClassVar[str] = "san"  # the papers' short name of the mechanism, for tables and figures
    #: Whether ``attend`` ignores ``score_bias``, ``hidden_keys``, ``reweight`` and ``add_values``, so that no other
    #: mechanism can act on the same heads by them.
    whole: ClassVar[bool] = False
    #: The sites (encoder, decoder, cross) where the mechanism is not defined, each with the reason.
    undefined_at: ClassVar[Mapping[str, str]] = {}
    # Names of additional linear layers of the queries and of the keys, each with embed_dim outputs.
    extra_queries: tuple[str, ...] = ()
    extra_keys: tuple[str, ...] = ()

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        dropout: float,
        self_attention: bool,
        encoder_decoder_attention: bool,
        causal: bool,
        activation: str,
        head_dim: int | None,
        implementation: str,
    ) -> None:
        super().__init__()
        if head_dim is None and embed_dim % num_heads:
            raise ValueError(f"{num_heads} attention heads do not divide an embedding of {embed_dim} channels")
        for what, name, known in (
            ("head activation", activation, ACTIVATIONS),
            ("implementation", implementation, IMPLEMENTATIONS),
        ):
            if name not in known:
                raise ValueError(f"unknown {what} {name!r}: choose from {', '.join(known)}")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, head_dim or embed_dim // num_heads
        self.inner_dim = self.num_heads * self.head_dim  # channels of all heads; equals C except in a part
        self.scaling = self.head_dim**-0.5
        self.dropout, self.dropout_in_inference = dropout, False
        self.self_attention, self.encoder_decoder_attention = self_attention, encoder_decoder_attention
        self.causal, self.activation, self.implementation = causal, activation, implementation

    def has(self, step: str) -> bool:
        """Return whether this attention overrides a step, given by its name."""
        return getattr(type(self), step) is not getattr(AttentionSteps, step)

    @property
    def dropout_rate(self) -> float:
        """The dropout rate in force: 0 in evaluation, unless fairseq's ``--retain-dropout`` keeps it."""
        return self.dropout if self.training or self.dropout_in_inference else 0.0

    @cached_property
    def description(self) -> str:
        """Class, sizes and options as text; equal for attentions that compute the same function of their parameters."""
        return f"causal={self.causal}, {self!r}"

    # ------------------------------------------------------------------ steps that a mechanism may override

    @property
    def reads_projections(self) -> bool:
        """Whether a step reads q or k beside ``q·k``, so that its heads cannot share ``rope``, which rotates both."""
        return False

    @property
    def said_by_steps(self) -> bool:
        """Whether the steps beside ``attend`` define the whole attention of a query without reading keys.

        Then it can decode along paths (:mod:`.paths`). There ``extra`` holds the scaled scores of each extra pair
        ``a_q_proj``, ``a_k_proj`` as ``a_scores``, which the steps must read. Override it where the default is wrong.
        """
        return not (self.whole or self.extra_keys or self.reads_projections or self.has("attend"))

    def prepare(self, call: Call) -> Mapping[str, Tensor]:
        """Return further tensors by name, which the steps below find in ``call.extra``."""
        return {}

    def encode_positions(self, q: Tensor, k: Tensor, first: int) -> tuple[Tensor, Tensor]:
        """Return q, B×H×T×D, and k, B×H×S×D, changed by their positions; the first query and key stand at ``first``."""
        return q, k

    def reweight(self, weights: Tensor, call: Call) -> Tensor:
        """Return new weights B×H×T×S from those after the softmax, before dropout; both at least in fp32.

        A subclass that overrides this step gives up the fused computation, which does not expose the weights.
        """
        return weights

    def add_values(self, attended: Tensor, weights: Tensor, call: Call) -> Tensor:
        """Return new attended values B×H×T×D from them and from the weights B×H×T×S after dropout."""
        return attended

    def attend(self, call: Call, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """Return the attended values B×H×T×D of all heads, and the weights B×H×T×S or None if they are not needed."""
        only_masked = not need_weights and call.frame.attn_mask is not None and not any(map(self.has, SCORING))
        if only_masked and self.skips_future(call):
            return causal_attention(call.q, call.k, call.v, call.frame.key_padding_mask, scaling=self.scaling), None
        if not need_weights and (attended := self._attend_in_bands(call)) is not None:
            return attended, None
        own, dropped, chosen = self.own_scores, self.dropout_rate, self.implementation
        if not need_weights and (own or use_products(call.q, call.k, dropout=dropped, implementation=chosen)):
            size = queries_at_once(call, own + 2)
            if size < call.frame.query_length:
                names, moving = self.extra_queries, self.self_attention
                attended = attend_in_blocks(self._attended_at_once, call, size, names=names, moving=moving)
                return attended, None
        return self._attend_at_once(call, need_weights)

    @property
    def own_scores(self) -> int:
        """Estimated number of tensors B×H×T×S that the steps make in training, without scores and weights."""
        biased = self.has("score_bias") or self.has("position_scores")
        return biased + sum(map(self.has, ("reweight", "add_values")))

    def _attend_in_bands(self, call: Call) -> Tensor | None:
        """Attend over a long text inside of the windows; None where that is not possible, or not faster."""
        frame, windows = call.frame, self.windows()
        if is_exporting() or frame.key_length < banded.BANDED_FROM:
            return None
        if not windows or not all(window.bounds for window in windows):
            return None
        if len(windows) == 1 and not self.has("position_scores"):
            if self.position_scores(call) is None:
                return None
            return banded.by_bounds(call, windows[0], one_side=self.skips_future(call), **self.computation)
        full = self.self_attention and frame.query_length == frame.key_length
        half_width = banded.half_width_of_all(windows) if full else None
        if half_width is None or banded.too_wide(half_width, frame.key_length):
            return None
        scores = self.position_scores(call)
        if scores is None:
            return None
        return banded.banded_attention(call, half_width=half_width, scores=scores, **self.computation)[0]

    def _attended_at_once(self, call: Call) -> Tensor:
        return self._attend_at_once(call, need_weights=False)[0]

    def _attend_at_once(self, call: Call, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """Compute what :meth:`attend` returns by its steps, for all queries at once."""
        call = call.with_extra(self.prepare(call))
        frame, q, k, v = call.frame, call.q, call.k, call.v
        bias = self.score_bias(call)
        hidden, bias = hidden_and_bias(frame, self.hidden_keys(frame, q.device), bias, q.dtype)
        if need_weights or self.has("reweight"):
            weights = self.reweight(weights_of(q, k, hidden, bias, scaling=self.scaling), call)
            kept = dropout(weights, self.dropout_rate)
            attended = weighted_sum(kept.to(v.dtype), v)
            return self.add_values(attended, kept, call), weights if need_weights else None
        if self.has("add_values"):
            found = attention_and_weights(q, k, v, hidden=hidden, bias=bias, **self.computation)
            return self.add_values(*found, call), None
        return self.fused(q, k, v, hidden=hidden, bias=bias), None

    def skips_future(self, call: Call) -> bool:
        """Return whether :func:`causal_attention` can compute this call, and faster than with a mask of T×S."""
        mask = call.frame.attn_mask
        can = can_skip_future(call.q, call.k, dropout=self.dropout_rate, implementation=self.implementation)
        return can and self.self_attention and (mask is None or is_future(mask))

    def fused(
        self, q: Tensor, k: Tensor, v: Tensor, *, hidden: Tensor | None = None, bias: Tensor | None = None
    ) -> Tensor:
        """Call :func:`fused_attention` with this module's scaling, dropout and implementation."""
        return fused_attention(q, k, v, hidden=hidden, bias=bias, **self.computation)

    @property
    def computation(self) -> dict[str, Any]:
        """The arguments scaling, dropout and implementation of the functions of :mod:`kernels.dense`."""
        return {"scaling": self.scaling, "dropout": self.dropout_rate, "implementation": self.implementation}

    def activate(self, heads: Tensor) -> Tensor:
        """Return the input T×B×C of the output projection from the concatenated heads T×B×C."""
        activation = ACTIVATIONS[self.activation]
        return heads if activation is None else activation(heads)

    def windows(self) -> tuple[Window, ...] | None:
        """Return the hard windows; a key is seen if all of them show it. None if ``hidden_keys`` is overridden."""
        return None if self.has("hidden_keys") else ()

    def hidden_keys(self, frame: Frame, device: torch.device) -> Tensor | None:
        """Return the hard window, H×T×S, 1×T×S or B×(H or 1)×T×S, True = hidden; None hides nothing."""
        return hidden_keys(self.windows() or (), frame, self.num_heads, device)

    def position_scores(self, call: Call) -> tuple[Score, ...] | None:
        """Return the terms that are added to the scaled scores, each a function of (sentence, head, query, key).

        Returns () for no terms, and None if the mechanism cannot be written so; then FlexAttention does not compute it.
        If ``score_bias`` is overridden too, this is called before ``prepare`` and only in full passes, where
        ``frame.offset`` is 0 and, in self-attention, T = S.
        """
        others = ("attend", "prepare", "score_bias", "reweight", "add_values")
        return None if any(map(self.has, others)) else ()

    def score_bias(self, call: Call) -> Tensor | None:
        """Return a term added to the scaled scores, broadcastable to B×H×T×S, or None."""
        terms = self.position_scores(call) if self.has("position_scores") else ()
        sizes = call.q.size(0), call.q.size(1)
        return sum_by_position(terms, call.frame, sizes, call.q.device) if terms else None

    def attend_by_kernel(self, call: Call) -> Tensor | None:
        """Compute the attended values B×H×T×D by the mechanism's own GPU kernel (:mod:`kernels.triton`).

        Returns None if there is no kernel, or none for this ``attn_mask``. Called only in full passes, with tensors
        that ``reason_against_triton`` accepts. Queries that see no key must get 0.
        """
        return None

    def blind_queries(self, call: Call) -> Tensor | None:
        """Return which queries see no key, broadcastable to B×H×T, True = none; None if each is known to see one."""
        frame, windows, device = call.frame, self.windows(), call.q.device
        if windows is not None and not any(window.seen for window in windows):
            return blind_queries(frame, windows, dtype=call.q.dtype, device=device)
        return blind_queries(frame, hidden=self.hidden_keys(frame, device), dtype=call.q.dtype, device=device)

    def attend_and_clear(self, call: Call, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """Return what :meth:`attend` returns, with values and weights of 0 for queries that see no key."""
        attended, weights = self.attend(call, need_weights)
        blind = self.blind_queries(call)
        if blind is None:
            return attended, weights
        return clear(attended, blind), None if weights is None else clear(weights, blind)

    def extra_repr(self) -> str:
        activation = "" if self.activation == "none" else f", activation={self.activation}"
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, dropout={self.dropout}{activation}"
