"""Attention that FlexAttention may compute: where it can, and whether it is faster.

A mechanism that is a mask or a bias of positions says so by the step ``position_terms``, which composed attention in a
band reads as well. FlexAttention has no dropout on the weights, does not return them, and needs all queries at once: in
such calls, in incremental decoding, and for mechanisms that say nothing, :class:`LocalAttention`'s other steps run.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..kernels.blind import blind_queries, clear
from ..kernels.flex import BLOCK, PositionTerms, Window, flex_attention, key_mask, reason_against_flex
from ..kernels.masks import Frame, is_future
from .call import Call
from .trial import Trial, faster

logger = logging.getLogger(__name__)
# The steps that change scores, weights or attended values.
SCORING = ("prepare", "score_bias", "hidden_keys", "reweight", "add_values")
# Where ``auto`` compares FlexAttention with the other implementations, in training.
TRIED_ON = ("cuda",)
# Shorter texts are one block of keys, of which nothing can be left out.
TRIED_FROM = BLOCK


class FlexibleAttention(nn.Module):
    """The part of an attention that chooses between FlexAttention and the step ``attend``."""

    implementation: str
    self_attention: bool
    causal: bool
    scaling: float
    kind: ClassVar[str]
    _description: str | None = None

    @property
    @abstractmethod
    def dropout_rate(self) -> float:
        """The dropout rate in force."""

    @abstractmethod
    def has(self, step: str) -> bool:
        """Return whether this attention overrides a step, given by its name."""

    @abstractmethod
    def hidden_keys(self, frame: Frame, device: torch.device) -> Tensor | None:
        """Return the hard window; see :class:`LocalAttention`."""

    @abstractmethod
    def attend(self, call: Call, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """Compute the attended values of all heads; see :class:`LocalAttention`."""

    def position_terms(self, call: Call) -> PositionTerms | None:
        """Return what the other steps do to the scores, as functions of positions; None if they cannot be so described.

        FlexAttention computes them, and on any device bands that several mechanisms share. Called in full passes alone,
        where T = S in self-attention and ``frame.offset`` is 0, and before ``prepare``: ``call.extra`` has the extra
        projections alone. The future and padding are hidden by the caller. Attention without steps of its own has no
        terms.
        """
        return None if any(self.has(step) for step in ("attend", *SCORING)) else PositionTerms()

    def windows(self) -> tuple[Window, ...] | None:
        """Return the hard windows as spans; None if ``hidden_keys`` is to be asked for them."""
        return None if self.has("hidden_keys") else ()

    def blind_queries(self, call: Call) -> Tensor | None:
        """Return which queries see no key, broadcastable to B×H×T, True = none; None if each is known to see one."""
        frame, windows, device = call.frame, self.windows(), call.q.device
        hidden = self.hidden_keys(frame, device) if windows is None else None
        return blind_queries(frame, windows or (), hidden, dtype=call.q.dtype, device=device)

    def attend_heads(self, call: Call, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """Compute :meth:`attend_and_clear`, by FlexAttention where it is chosen and possible."""
        if not need_weights and self._chooses_flex(call):
            attended = self._by_flex(call)
            if attended is not None:
                return attended, None
        return self.attend_and_clear(call, need_weights)

    def attend_and_clear(self, call: Call, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """Return what :meth:`attend` returns, with values and weights of 0 for queries that see no key."""
        attended, weights = self.attend(call, need_weights)
        blind = self.blind_queries(call)
        if blind is None:
            return attended, weights
        return clear(attended, blind), None if weights is None else clear(weights, blind)

    def _chooses_flex(self, call: Call) -> bool:
        """Return whether FlexAttention is forced and possible, or was faster in a trial, which waits for the GPU."""
        frame, q = call.frame, call.q
        forced = self.implementation == "flex"
        if not forced and (self.implementation != "auto" or q.device.type not in TRIED_ON):
            return False
        full = not self.self_attention or frame.query_length == frame.key_length
        if not full or frame.query_length == 1:
            return False
        reason = reason_against_flex(q, call.k, self.dropout_rate)
        if forced:
            if reason is not None:
                _log_once(f"--localattn-attention flex: {reason}, so sdpa computes such calls")
            return reason is None
        if reason is not None or frame.key_length < TRIED_FROM or not (torch.is_grad_enabled() and q.requires_grad):
            return False
        if self._description is None:
            self._description = f"causal={self.causal}, {self!r}"
        lengths = (frame.query_length - 1).bit_length(), (frame.key_length - 1).bit_length()
        masks = frame.key_padding_mask is None, frame.attn_mask is None
        trial = Trial(
            key=(self._description, *lengths, *masks, q.dtype, q.device, torch.is_autocast_enabled(q.device.type)),
            name=f"{self.kind}, {q.size(1)} heads, up to 2^{lengths[0]} queries and 2^{lengths[1]} keys",
            attend={"sdpa": self._by_steps, "flex": self._by_flex},
            parameters=[p for p in self.parameters() if p.requires_grad],
        )
        return faster(trial, call) == "flex"

    def _by_steps(self, call: Call) -> Tensor:
        return self.attend_and_clear(call, need_weights=False)[0]

    def _by_flex(self, call: Call) -> Tensor | None:
        """Return the attended values B×H×T×D, or None if the mechanism or ``attn_mask`` has no description."""
        frame, q = call.frame, call.q
        causal = frame.attn_mask is not None
        if causal and not is_future(frame.attn_mask):  # type: ignore[arg-type]
            return None
        terms = self.position_terms(call)
        if terms is None or terms == PositionTerms():  # torch has faster kernels for plain attention
            return None
        mask = key_mask(terms.windows, frame, causal=causal, batch=q.size(0), heads=q.size(1), device=q.device)
        return flex_attention(q, call.k, call.v, scores=terms.scores, mask=mask, scaling=self.scaling)


@lru_cache(maxsize=64)
def _log_once(text: str) -> None:
    logger.info(text)
