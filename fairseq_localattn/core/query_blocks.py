"""Attention in blocks of queries, where the tensors of all queries and keys would not fit into memory.

A block is a call whose first query stands at a later position, as in incremental decoding. Its tensors T×S are computed
again in the backward pass, so that memory is linear in the length; a training step computes the forward pass twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..kernels.masks import at_least_fp32
from ..kernels.passes import forward_pass
from .call import Call

# Bytes that the tensors B×H×T×S of one attention may take by estimate. Above it, a block takes a quarter of it.
MEMORY = 2 << 30
LEAST = 16  # queries in a block


def queries_at_once(call: Call, tensors: int) -> int:
    """Return the queries in a block: all T, unless ``tensors`` of B×H×T×S take more than :data:`MEMORY`."""
    length, dtype = call.frame.query_length, at_least_fp32(call.q.dtype)
    if torch.compiler.is_compiling():  # else the graph would hold for lengths on one side of the bound alone
        return length
    row = tensors * call.q.size(0) * call.q.size(1) * call.frame.key_length * dtype.itemsize
    return length if length * row <= MEMORY else max(LEAST, MEMORY // 4 // row)


def attend_in_blocks(
    attend: Callable[[Call], Tensor], call: Call, size: int, *, names: Sequence[str], moving: bool
) -> Tensor:
    """Return ``attend(call)``, B×H×T×D, computed with ``size`` queries at a time.

    Args:
        attend: computes the attended values of a call.
        call: of T queries.
        size: queries in a block.
        names: the entries of ``call.extra`` with a row for each query, B×H×T×D; each block gets its rows.
        moving: self-attention: a block's ``frame.offset`` grows with its first query.
    """
    queries, heads = call.query.split(size), call.q.split(size, dim=2)  # whose gradients are joined in one copy
    extra = {name: call.extra[name].split(size, dim=2) for name in names}
    found = []
    for number, q in enumerate(heads):
        start, frame = number * size, call.frame
        frame = replace(
            frame,
            query_length=q.size(2),
            offset=frame.offset + start * moving,
            before=frame.before + start * moving,
            attn_mask=None if frame.attn_mask is None else frame.attn_mask[..., start : start + size, :],
        )
        parts = {name: blocks[number] for name, blocks in extra.items()}
        block = replace(call, frame=frame, query=queries[number], q=q).with_extra(parts)
        with forward_pass(share=False):  # what a block makes is released before the next one
            if torch.is_grad_enabled():
                # By its arguments the function finds the device whose random state it restores.
                found.append(checkpoint(lambda q, block: attend(replace(block, q=q)), q, block, use_reentrant=False))
            else:
                found.append(attend(block))
    return torch.cat(found, dim=2)
