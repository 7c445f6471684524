"""Which queries see no key: kept for equal padding alone, without reading a GPU; their gradients are 0."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from fairseq_localattn.kernels.blind import _kept, blind_queries, clear
from fairseq_localattn.kernels.masks import Frame
from fairseq_localattn.kernels.windows import Window, distance_windows
from support.mechanisms.inputs import LargestTensor

CPU = torch.device("cpu")
(KINDS,) = distance_windows(((None, None), (-1, 1), (0, None), (None, 0)))
REST: dict[str, Any] = {"dtype": torch.float32, "device": CPU}


def first_words(frame: Frame, device: torch.device) -> list[tuple[Tensor, Tensor]]:
    """Return the spans of a query's own key and of the first two words."""
    assert frame.key_padding_mask is not None
    own = torch.arange(frame.offset, frame.offset + frame.query_length, device=device)
    first = frame.key_padding_mask.long().cumprod(1).sum(1)[:, None, None]
    return [(own, own), (first, first + 1)]


FIRST = Window("first", first_words)


def padding_of(length: int) -> Tensor:
    """Return padding on the left, on the right, of a whole sentence, and none."""
    padding = torch.zeros(4, length, dtype=torch.bool)
    padding[0, : length - 2] = padding[1, 2:] = padding[2] = True
    return padding


@pytest.mark.parametrize("mask", ["none", "future", "own", "learned"])
@pytest.mark.parametrize("heads", [(), (4,), (4, 4)])
@pytest.mark.parametrize(("length", "first", "padded"), [(6, 0, True), (6, 4, True), (1, 0, True), (6, 0, False)])
def test_windows_without_spans(mask: str, heads: tuple[int, ...], length: int, first: int, padded: bool) -> None:
    """None, of heads, or of sentences and heads; those with spans are held by the equations of the mechanisms."""
    torch.manual_seed(2)
    closed = torch.ones(length, length, dtype=torch.bool).triu(1) if mask == "future" else torch.rand(6, 6) < 0.6
    closed = closed[:length, :length] if mask != "none" else torch.zeros(length, length, dtype=torch.bool)
    given = {"none": None, "future": closed, "own": closed.float().masked_fill(closed, -torch.inf)}
    given["learned"] = torch.randn(length, length).masked_fill(closed, -torch.inf).requires_grad_()
    padding, attn_mask = padding_of(length) if padded else None, given[mask]
    attn_mask = None if attn_mask is None else attn_mask[first:]
    frame = Frame(length - first, length, first, key_padding_mask=padding, attn_mask=attn_mask)
    window = torch.rand(*heads, length - first, length) < 0.6 if heads else None
    hidden = (
        closed[first:] | (False if window is None else window) | (False if padding is None else padding[:, None, None])
    )
    for _ in range(2):  # computed, and kept
        blind = blind_queries(frame, (), window, **REST)
        assert blind is None or bool(blind.any())
        blind = torch.zeros(1, 1, 1, dtype=torch.bool) if blind is None else blind
        assert torch.equal(blind.expand(4, 4, length - first), hidden.all(-1).expand(4, 4, length - first))


def test_padding_that_is_changed_by_whatever_way() -> None:
    """What is kept for the layers of a batch holds for equal padding alone."""
    padding = padding_of(5)
    frame = Frame(5, 5, key_padding_mask=padding)

    def count() -> list[int]:
        found = (blind_queries(frame, windows, **REST) for windows in ((), (KINDS,)))
        return [0 if blind is None else int(blind.expand(4, 4, 5).sum()) for blind in found]

    # A whole sentence of four heads; besides, what heads see of the future or the past alone, and of their neighbours.
    assert count() == [20, 20 + (2 + 3) + (2 + 3)]
    padding.data[2, 0] = False  # which no version counter shows
    assert count() == [0, (3 + 4) + (2 + 3) + (2 + 3)]


def test_nothing_is_read_from_a_gpu_and_memory_is_linear() -> None:
    """A tensor on the device meta has no values."""
    for device, size in (("meta", 300), ("cpu", 4096)):
        padding = padding_of(size).to(device)
        _kept.clear()
        with LargestTensor() as largest:
            frame = Frame(size, size, key_padding_mask=padding)
            found = blind_queries(frame, (KINDS, FIRST), dtype=torch.float32, device=torch.device(device))
        assert found is not None and found.shape == (4, 4, size)
        assert largest.size <= 4 * 4 * size * 4
    mask = torch.zeros(300, 300, device="meta")
    frame = Frame(300, 300, key_padding_mask=padding_of(300).to("meta"), attn_mask=mask)
    for windows in ((), (KINDS,)):
        assert blind_queries(frame, windows, dtype=torch.float32, device=torch.device("meta")) is not None


def test_made_in_inference_it_serves_training() -> None:
    frame = Frame(7, 7, key_padding_mask=padding_of(7))
    with torch.inference_mode():
        blind_queries(frame, (KINDS,), **REST)
    blind = blind_queries(frame, (KINDS,), **REST)
    assert blind is not None
    clear(torch.randn(4, 4, 7, 2, requires_grad=True), blind).sum().backward()
