"""Attention that FlexAttention or a kernel of its own may compute: where it can, and whether it is faster.

A mechanism that is a mask or a bias of positions states it by the steps ``windows`` and ``position_scores``, from which
dense masks, bands and FlexAttention are made. FlexAttention has no dropout on the weights. A mechanism with a kernel of
its own launches it in ``attend_by_kernel``. Neither returns weights, and both need all queries at once: in such calls,
in incremental decoding, and for mechanisms that say nothing, :class:`LocalAttention`'s other steps run.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..kernels.blind import blind_queries, clear
from ..kernels.flex import BLOCK, flex_attention, key_mask, reason_against_flex
from ..kernels.masks import Frame, is_future
from ..kernels.triton.operators import reason_against_triton
from ..kernels.windows import Score, Window, hidden_keys, sum_by_position
from .call import Call
from .trial import Attend, Trial, faster

logger = logging.getLogger(__name__)
# The steps that change scores, weights or attended values.
SCORING = ("windows", "hidden_keys", "prepare", "position_scores", "score_bias", "reweight", "add_values")
# Where ``auto`` compares FlexAttention and kernels with the other implementations, in training.
TRIED_ON = ("cuda",)
# FlexAttention: shorter texts are one block of keys, of which nothing can be left out.
TRIED_FROM = BLOCK


class FlexibleAttention(nn.Module):
    """The part of an attention that chooses between FlexAttention, a kernel of its own and the step ``attend``."""

    num_heads: int
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
    def attend(self, call: Call, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """Compute the attended values of all heads; see :class:`LocalAttention`."""

    def windows(self) -> tuple[Window, ...] | None:
        """Return the hard windows; a key is seen if it is in all of them. None if ``hidden_keys`` alone knows them."""
        return None if self.has("hidden_keys") else ()

    def hidden_keys(self, frame: Frame, device: torch.device) -> Tensor | None:
        """Return the hard window, H×T×S, 1×T×S or B×(H or 1)×T×S, True = hidden; None hides nothing."""
        return hidden_keys(self.windows() or (), frame, self.num_heads, device)

    def position_scores(self, call: Call) -> tuple[Score, ...] | None:
        """Return what is added to the scaled scores, as functions of positions; None if that cannot be said so.

        By default nothing, and None for a mechanism with other steps. Beside a ``score_bias`` of its own it is called
        in full passes alone, where T = S in self-attention and ``frame.offset`` is 0, and before ``prepare``.
        """
        others = ("attend", "prepare", "score_bias", "reweight", "add_values")
        return None if any(map(self.has, others)) else ()

    def score_bias(self, call: Call) -> Tensor | None:
        """Return a term added to the scaled scores, broadcastable to B×H×T×S, or None."""
        terms = self.position_scores(call) if self.has("position_scores") else ()
        sizes = call.q.size(0), call.q.size(1)
        return sum_by_position(terms, call.frame, sizes, call.q.device) if terms else None

    def attend_by_kernel(self, call: Call) -> Tensor | None:
        """Return the attended values B×H×T×D by a kernel of its own (:mod:`kernels.triton`); None if it has none.

        Called in full passes alone, where the kernel computes tensors such as ``call.q`` (``reason_against_triton``).
        Values of queries that see no key are 0. None also for an ``attn_mask`` that the kernel does not compute.
        """
        return None

    def blind_queries(self, call: Call) -> Tensor | None:
        """Return which queries see no key, broadcastable to B×H×T, True = none; None if each is known to see one."""
        frame, windows, device = call.frame, self.windows(), call.q.device
        if windows is not None and not any(window.seen for window in windows):
            return blind_queries(frame, windows, dtype=call.q.dtype, device=device)
        return blind_queries(frame, hidden=self.hidden_keys(frame, device), dtype=call.q.dtype, device=device)

    def attend_heads(self, call: Call, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """Compute :meth:`attend_and_clear`, by FlexAttention or a kernel where one is chosen and possible."""
        chosen = None if need_weights else self._chosen(call)
        attended = None if chosen is None else chosen(call)
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

    def _chosen(self, call: Call) -> Attend | None:
        """Return the way that is forced and possible, or was faster in a trial, which waits for the GPU; else None."""
        frame, q, asked = call.frame, call.q, self.implementation
        if asked not in ("flex", "triton") and (asked != "auto" or q.device.type not in (*TRIED_ON, "meta")):
            return None
        if asked == "auto" and not (torch.is_grad_enabled() and q.requires_grad):
            return None
        full = not self.self_attention or frame.query_length == frame.key_length
        if not full or frame.query_length == 1:
            return None
        ways: dict[str, Attend] = {}
        for name, way, reason in (
            ("flex", self._by_flex, reason_against_flex(q, call.k, self.dropout_rate)),
            ("triton", self.attend_by_kernel, reason_against_triton(q)),
        ):
            if reason is None:
                ways[name] = way
            elif name == asked:
                _log_once(f"--localattn-attention {name}: {reason}, so sdpa computes such calls")
        if not self.has("attend_by_kernel"):
            ways.pop("triton", None)
        if asked != "auto":
            return ways.get(asked)
        if q.device.type == "meta":  # where nothing can be timed
            return ways.get("triton")
        if frame.key_length < TRIED_FROM:
            ways.pop("flex", None)
        return ways.get(faster(self._trial(call, ways), call)) if ways else None

    def _trial(self, call: Call, ways: dict[str, Attend]) -> Trial:
        frame, q = call.frame, call.q
        if self._description is None:
            self._description = f"causal={self.causal}, {self!r}"
        lengths = (frame.query_length - 1).bit_length(), (frame.key_length - 1).bit_length()
        masks = frame.key_padding_mask is None, frame.attn_mask is None, self.dropout_rate > 0
        autocast = torch.is_autocast_enabled(q.device.type)
        return Trial(
            key=(self._description, *ways, *lengths, *masks, q.dtype, q.device, autocast),
            name=f"{self.kind}, {q.size(1)} heads, up to 2^{lengths[0]} queries and 2^{lengths[1]} keys",
            attend={"sdpa": self._by_steps, **ways},
            parameters=[p for p in self.parameters() if p.requires_grad],
            without_dropout=self._without_dropout,
        )

    @contextmanager
    def _without_dropout(self) -> Iterator[None]:
        modes = [(module, module.training) for module in self.modules()]
        self.eval()
        try:
            yield
        finally:
            for module, training in modes:
                module.training = training

    def _by_steps(self, call: Call) -> Tensor:
        return self.attend_and_clear(call, need_weights=False)[0]

    def _by_flex(self, call: Call) -> Tensor | None:
        """Return the attended values B×H×T×D, or None if the mechanism or ``attn_mask`` has no description."""
        frame, q = call.frame, call.q
        causal = frame.attn_mask is not None
        if causal and not is_future(frame.attn_mask):  # type: ignore[arg-type]
            return None
        windows, scores = self.windows(), self.position_scores(call)
        if windows is None or scores is None or not (windows or scores):  # torch has faster kernels for plain attention
            return None
        mask = key_mask(windows, frame, causal=causal, batch=q.size(0), heads=q.size(1), device=q.device)
        return flex_attention(q, call.k, call.v, scores=scores, mask=mask, scaling=self.scaling)


@lru_cache(maxsize=64)
def _log_once(text: str) -> None:
    logger.info(text)
