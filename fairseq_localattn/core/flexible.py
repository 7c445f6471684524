"""Attention that FlexAttention or a kernel of its own may compute: where it can, and whether it is faster.

A mechanism that is a mask or a bias of positions states it by the steps ``windows`` and ``position_scores``, from which
dense masks, bands and FlexAttention are made. FlexAttention has no dropout on the weights. A mechanism with a kernel of
its own launches it in ``attend_by_kernel``. Neither returns weights, and both need all queries at once. Where weights
are needed, in incremental decoding, and without either, :class:`LocalAttention`'s other steps run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial

import torch
from torch import Tensor

from ..kernels.flex import BLOCK, flex_attention, key_mask, reason_against_flex
from ..kernels.masks import is_future
from ..kernels.triton.operators import reason_against_triton
from .call import Call
from .steps import AttentionSteps
from .trial import Attend, Trial, faster

logger = logging.getLogger(__name__)
# Where ``auto`` compares FlexAttention and kernels with the other implementations, in training.
TRIED_ON = ("cuda",)
# FlexAttention: shorter texts are one block of keys, of which nothing can be left out.
TRIED_FROM = BLOCK


def chosen_way(attention: AttentionSteps, call: Call) -> Attend | None:
    """Return FlexAttention or the mechanism's kernel, if ``implementation`` asks for it or it was faster in a trial.

    Returns None where the other steps are to compute the call. A trial, once for each kind of call, waits for the GPU.
    """
    frame, q, asked = call.frame, call.q, attention.implementation
    if asked not in ("flex", "triton") and (asked != "auto" or q.device.type not in (*TRIED_ON, "meta")):
        return None
    if asked == "auto" and not (torch.is_grad_enabled() and q.requires_grad):
        return None
    full = not attention.self_attention or frame.query_length == frame.key_length
    if not full or frame.query_length == 1:
        return None
    ways: dict[str, Attend] = {}
    for name, way, reason in (
        ("flex", partial(by_flex, attention), reason_against_flex(q, call.k, attention.dropout_rate)),
        ("triton", attention.attend_by_kernel, reason_against_triton(q)),
    ):
        if reason is None:
            ways[name] = way
        elif name == asked:
            _log_once(f"--localattn-attention {name}: {reason}, so sdpa computes such calls")
    if not attention.has("attend_by_kernel"):
        ways.pop("triton", None)
    if asked != "auto":
        return ways.get(asked)
    if q.device.type == "meta":  # where nothing can be timed
        return ways.get("triton")
    if frame.key_length < TRIED_FROM:
        ways.pop("flex", None)
    return ways.get(faster(_trial(attention, call, ways), call)) if ways else None


def _trial(attention: AttentionSteps, call: Call, ways: dict[str, Attend]) -> Trial:
    frame, q = call.frame, call.q
    lengths = (frame.query_length - 1).bit_length(), (frame.key_length - 1).bit_length()
    masks = frame.key_padding_mask is None, frame.attn_mask is None, attention.dropout_rate > 0
    autocast = torch.is_autocast_enabled(q.device.type)
    return Trial(
        key=(attention.description, *ways, *lengths, *masks, q.dtype, q.device, autocast),
        name=f"{attention.kind}, {q.size(1)} heads, up to 2^{lengths[0]} queries and 2^{lengths[1]} keys",
        attend={"sdpa": partial(_by_steps, attention), **ways},
        parameters=[p for p in attention.parameters() if p.requires_grad],
        without_dropout=partial(_without_dropout, attention),
    )


@contextmanager
def _without_dropout(attention: AttentionSteps) -> Iterator[None]:
    modes = [(module, module.training) for module in attention.modules()]
    attention.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def _by_steps(attention: AttentionSteps, call: Call) -> Tensor:
    return attention.attend_and_clear(call, need_weights=False)[0]


def by_flex(attention: AttentionSteps, call: Call) -> Tensor | None:
    """Attend by FlexAttention, B×H×T×D; None for an ``attn_mask`` that is not causal, or steps not of positions."""
    frame, q = call.frame, call.q
    causal = frame.attn_mask is not None
    if causal and not is_future(frame.attn_mask):  # type: ignore[arg-type]
        return None
    windows, scores = attention.windows(), attention.position_scores(call)
    if windows is None or scores is None or not (windows or scores):  # torch has faster kernels for plain attention
        return None
    mask = key_mask(windows, frame, causal=causal, batch=q.size(0), heads=q.size(1), device=q.device)
    return flex_attention(q, call.k, call.v, scores=scores, mask=mask, scaling=attention.scaling)


@lru_cache(maxsize=64)
def _log_once(text: str) -> None:
    logger.info(text)
