"""Dense masks from the statement of a window: its spans, its predicate, or its bounds."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fairseq_localattn.kernels.masks import Frame
from fairseq_localattn.kernels.windows import Bounds, Score, Window, distance_windows, hidden_keys

CPU = torch.device("cpu")
HEADS = 4
KINDS = ((None, None), (-2, 2), (0, None), (-3, 1))
PADDING = torch.tensor([[True] * 3 + [False] * 6, [False] * 9])


@pytest.mark.parametrize("bounds", [KINDS, ((-2, 2),), ((None, 0),)], ids=len)
@pytest.mark.parametrize("sinks", [0, 2])
@pytest.mark.parametrize("frame", [Frame(9, 9), Frame(9, 9, 0, PADDING), Frame(2, 9, 7, PADDING)], ids=str)
def test_bounds_spans_and_a_predicate_hide_the_same(bounds: tuple[Bounds, ...], sinks: int, frame: Frame) -> None:
    """Padding is hidden elsewhere."""
    (window,) = distance_windows(bounds, sinks)
    by_head = bounds if len(bounds) == HEADS else bounds * HEADS
    first = torch.zeros(1) if frame.key_padding_mask is None else frame.key_padding_mask.sum(1)

    def seen(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        low, high = ([[-99, 99][side] if each[side] is None else each[side] for each in by_head] for side in (0, 1))
        inside = (j - i >= torch.tensor(low)[h]) & (j - i <= torch.tensor(high)[h])
        return inside | ((j >= first[b]) & (j < first[b] + sinks))

    def predicate(frame: Frame, device: torch.device) -> Score:
        return seen

    ways = [window, Window("spans", window.spans), Window("predicate", seen=predicate)]
    batch = 1 if frame.key_padding_mask is None else 2
    masks = [hidden_keys((way,), frame, HEADS, CPU) for way in ways]
    shape = batch, HEADS, frame.query_length, frame.key_length
    padding = torch.zeros(1, 9, dtype=torch.bool) if frame.key_padding_mask is None else frame.key_padding_mask
    found = [(mask | padding[:, None, None]).expand(shape) for mask in masks if mask is not None]
    assert len(found) == 3 and torch.equal(found[0], found[2]) and torch.equal(found[1], found[2])
