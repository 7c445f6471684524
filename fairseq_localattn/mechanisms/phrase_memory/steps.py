"""The steps of LSTM and ON-LSTM, and their gradients, in few operations; the equations are in :mod:`recurrent`.

A step takes 7 operations forward and 4 backward, of ON-LSTM 12 and 8. What does not depend on the step before is
computed for all steps at once: the inputs' part of the gates before the steps, and after them the gradients' factors
and the weights' gradient. All of it is in at least fp32.

ON-LSTM's gates are those of LSTM, each drawn into an interval::

    f̂ = lerp(f̃ (1 - ĩ), f̃, f)     î = lerp(ĩ (1 - f̃), ĩ, i)

Shapes: H heads, S steps, B rows, D channels of the state, M = D / chunk channels of a master gate, G of all gates.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...kernels.once import once_differentiable

_by_sigmoid = torch.ops.aten.sigmoid_backward.grad_input
_by_tanh = torch.ops.aten.tanh_backward
_by_softmax = torch.ops.aten._softmax_backward_data  # writes to `out` as if it were contiguous


def run_steps(gates: Tensor, weight: Tensor, kept: Tensor | None = None, chunk: int | None = None) -> Tensor:
    """Return the states of LSTM, or with a ``chunk`` of ON-LSTM, H×S×B×D. Differentiable once.

    Args:
        gates: H×S×B×G, the inputs' part of the gates f, i, o, ĉ, of D channels, and f̃, ĩ, of M channels.
        weight: H×D×G, that of the last state.
        kept: H×S×B×1 in the dtype of ``gates``, 0 where a step starts from a zero state, else 1.
        chunk: channels that share a value of the master gates.
    """
    with torch.autocast(gates.device.type, enabled=False):
        if torch.is_grad_enabled() and (gates.requires_grad or weight.requires_grad):
            found: Tensor = _Steps.apply(gates, weight, kept, chunk)
            return found
        return _run(gates, weight, kept, chunk, slots=1)[0]


def _run(
    gates: Tensor, weight: Tensor, kept: Tensor | None, chunk: int | None, *, slots: int
) -> tuple[Tensor, list[Tensor]]:
    """Return the states, and what their gradients need.

    ``slots``: S keeps the values of each step; 1 keeps those of the last alone.
    """
    heads, steps, rows, _ = gates.shape
    size = weight.size(1)

    def room(count: int) -> Tensor:
        return gates.new_empty(slots, heads, rows, count, size)

    def each(x: Tensor) -> tuple[Tensor, ...]:
        """Return the room of each step; one slot is the room of all."""
        return x.unbind() * (steps // slots)

    activated, cells, squashed = room(3), room(2), room(1)  # f, i, o; c₋₁, ĉ; tanh c
    states = gates.new_empty(heads, steps, rows, size)
    factors = bounds = least = activated[..., :2, :]  # f̂, î
    if chunk is not None:
        # bounds: f̃, 1 - ĩ, 1 - f̃, ĩ; least: f̃ (1 - ĩ), ĩ (1 - f̃)
        factors, bounds, least = room(2), room(4), room(2)
    one = gates.new_ones(())
    shares: list[Tensor] = []
    h = cells[0, :, :, 0].zero_()
    following = (*each(cells)[1:], torch.empty_like(cells[0]))
    rooms = map(each, (activated, cells, squashed, factors, bounds, least))
    views = zip(gates.unbind(1), states.unbind(1), following, *rooms, strict=True)
    for step, (own, state, following_cell, now, cell, flat, factor, bound, low) in enumerate(views):
        if kept is not None:
            h = h * kept[:, step]
            cell[:, :, 0].mul_(kept[:, step])
        z = torch.baddbmm(own, h, weight)
        torch.sigmoid(z[..., : 3 * size], out=now.flatten(2))
        torch.tanh(z[..., 3 * size : 4 * size], out=cell[:, :, 1])
        if chunk is not None:
            share = torch.softmax(z[..., 4 * size :].unflatten(-1, (2, -1)), dim=-1)
            shares[step % slots :] = [share]
            sums, rest = bound[:, :, :2], bound[:, :, 2:]
            if chunk == 1:
                torch.cumsum(share, dim=-1, out=sums)
            else:
                sums.unflatten(-1, (-1, chunk)).copy_(share.cumsum(dim=-1)[..., None])
            torch.sub(one, sums, out=rest)
            most = bound[:, :, ::3]
            torch.mul(most, bound[:, :, 1:3], out=low)
            torch.lerp(low, most, now[:, :, :2], out=factor)
        terms = factor * cell
        c = torch.add(terms[:, :, 0], terms[:, :, 1], out=following_cell[:, :, 0])
        h = torch.mul(now[:, :, 2], torch.tanh(c, out=flat[:, :, 0]), out=state)
    return states, [activated, cells, squashed, states, factors, bounds, least, *shares]


class _Steps(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, kept: Tensor | None, chunk: int | None) -> Tensor:
        states, saved = _run(gates, weight, kept, chunk, slots=gates.size(1))
        ctx.chunk = chunk
        ctx.save_for_backward(weight, kept, *saved)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        weight, kept, activated, cells, squashed, states, factors, bounds, least, *shares = ctx.saved_tensors
        activated, cells, squashed, factors, bounds, least = (
            x.transpose(0, 1) for x in (activated, cells, squashed, factors, bounds, least)
        )
        heads, steps, batch, size = states.shape
        width, ordered = weight.size(2), ctx.chunk is not None
        squashed, output = squashed[..., 0, :], activated[..., 2, :]
        # The factors of dc in the gradients of f, i, (o), ĉ, f̃, ĩ and of the last c; each step multiplies its own.
        rows = weight.new_empty(heads, steps, batch, 7 if ordered else 5, size)
        within = cells
        if ordered:
            most = bounds[..., ::3, :]
            within = (most - least) * cells
            missed = torch.addcmul(cells, cells, activated[..., :2, :], value=-1).sum(dim=-2, keepdim=True)
            torch.addcmul(cells, most.flip(-2), missed, value=-1, out=rows[..., 4:6, :])
            rows[..., 5, :].neg_()  # from here on the gradient of 1 - ĩ, a sum of shares as f̃ is
        _by_sigmoid(within, activated[..., :2, :], grad_input=rows[..., :2, :])
        _by_tanh.grad_input(factors[..., 1, :], cells[..., 1, :], grad_input=rows[..., 3, :])
        last = rows[..., -1, :]
        torch.mul(factors[..., 0, :], 1 if kept is None else kept, out=last)
        of_cell, of_output = _by_tanh(output, squashed), torch.empty_like(squashed)
        _by_sigmoid(squashed, output, grad_input=of_output)
        by_gates = rows.flatten(-2)[..., :width]
        back = weight.transpose(1, 2)
        views = [x.unbind(1) for x in (rows, by_gates, last, gradient, of_cell, of_output)]
        for step in reversed(range(steps)):
            row, found, _, dh, cell, out = (x[step] for x in views)
            if step + 1 == steps:
                dc = dh * cell
            else:
                _, after, dc, *_ = (x[step + 1] for x in views)
                dh = torch.baddbmm(dh, after if kept is None else after * kept[:, step + 1], back)
                dc = torch.addcmul(dc, dh, cell)
            row.mul_(dc[:, :, None])
            torch.mul(dh, out, out=row[:, :, 2])
            if ordered:
                # A share belongs to its sum and to those after it. A constant added to all has no effect on a softmax.
                by_sums = row[:, :, 4:6]
                by_sums = by_sums if ctx.chunk == 1 else by_sums.unflatten(-1, (-1, ctx.chunk)).sum(-1)
                by_shares = by_sums - by_sums.cumsum(dim=-1)
                to = found[..., 4 * size :].unflatten(-1, (2, -1))
                to.copy_(_by_softmax(by_shares, shares[step], -1, by_shares.dtype))
        before = states[:, :-1] if kept is None else states[:, :-1] * kept[:, 1:]
        by_weight = torch.bmm(before.flatten(1, 2).transpose(1, 2), by_gates[:, 1:].flatten(1, 2))
        return by_gates, by_weight, None, None
