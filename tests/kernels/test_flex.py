"""Masks by positions: their blocks, how long they are kept, and FlexAttention compiled with them."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
from torch import Tensor

from fairseq_localattn.kernels import flex
from fairseq_localattn.kernels.dense import attention_by_products
from fairseq_localattn.kernels.flex import key_mask
from fairseq_localattn.kernels.masks import Frame
from fairseq_localattn.kernels.windows import Window, by_distance, distance_windows
from support.mechanisms.inputs import LargestTensor

HEADS = 4
CPU = torch.device("cpu")
BOUNDS = ((None, None), (-3, 3), (0, None), (None, 0))
(KINDS,) = distance_windows(BOUNDS)
PARITY = Window("parity", seen=lambda frame, device: lambda b, h, i, j: (j - i) % 2 == 0)


def sinks(count: int) -> Window:
    """Return a window that shows 5 keys and the first ``count``."""

    def spans(frame: Frame, device: torch.device) -> list[Any]:
        position = torch.arange(frame.query_length, device=device)
        first = torch.zeros(1, 1, 1, dtype=torch.long, device=device)
        return [(position - 2, position + 2), (first, first + count - 1)]

    return Window(("test", count), spans)


def frame_of(length: int, padded: bool, device: torch.device = CPU) -> Frame:
    """Return the frame of three sentences, padded on the left, on the right, and on both sides, or not padded."""
    padding = None
    if padded:
        padding = torch.zeros(3, length, dtype=torch.bool)
        padding[0, : length // 2] = padding[1, -(length // 3) :] = padding[2, : length // 4] = padding[2, -3:] = True
        padding = padding.to(device)
    return Frame(length, length, key_padding_mask=padding)


def mask_of(frame: Frame, windows: tuple[Window, ...] = (KINDS,), causal: bool = False) -> flex.KeyMask:
    mask = key_mask(windows, frame, causal=causal, batch=3, heads=HEADS, device=CPU)
    assert mask is not None
    return mask


def seen(mask: flex.KeyMask, length: int) -> Tensor:
    """Return the mask of single keys, B×H×T×S, True = seen."""
    index = torch.meshgrid(*(torch.arange(n) for n in (3, HEADS, length, length)), indexing="ij")
    return mask.blocks.mask_mod(*index)


@pytest.mark.parametrize("length", [1, 20, 128, 300])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("windows", [(), (KINDS,), (sinks(130), KINDS), (sinks(3), sinks(150)), (PARITY,)], ids=len)
def test_keys_and_blocks(length: int, padded: bool, causal: bool, windows: tuple[Window, ...]) -> None:
    """Keys are those of the windows; each of their blocks is listed; in a block listed as whole all keys are seen."""
    frame = frame_of(length, padded)
    if key_mask(windows, frame, causal=causal, batch=3, heads=HEADS, device=CPU) is None:
        assert not windows and not causal and not padded
        return
    mask = mask_of(frame, windows, causal)
    apart = torch.arange(length)[None, :] - torch.arange(length)[:, None]
    wanted = torch.ones(3, HEADS, length, length, dtype=torch.bool)
    for window in windows:
        if window is KINDS:
            wanted &= torch.stack([apart == apart, apart.abs() <= 3, apart >= 0, apart <= 0])
        elif window is PARITY:
            wanted &= apart % 2 == 0
        else:
            wanted &= (apart.abs() <= 2) | (torch.arange(length) < window.name[1])  # type: ignore[index]
    if causal:
        wanted &= apart <= 0
    if frame.key_padding_mask is not None:
        wanted &= ~frame.key_padding_mask[:, None, None]
    found = seen(mask, length)
    assert torch.equal(found, wanted)
    blocks, number = mask.blocks, -(-length // flex.BLOCK)
    room = number * flex.BLOCK - length
    some = torch.nn.functional.pad(wanted, (0, room, 0, room)).unflatten(3, (number, -1)).unflatten(2, (number, -1))
    listed = torch.zeros(3, HEADS, number, number, dtype=torch.int)
    kinds = (blocks.kv_num_blocks, blocks.kv_indices, 1), (blocks.full_kv_num_blocks, blocks.full_kv_indices, 2)
    for count, places, kind in kinds:
        first = torch.arange(number) < count[..., None]
        listed += torch.zeros_like(places).scatter(3, places.long(), first.int() * kind)
    assert (listed <= 2).all()
    assert not (some.any(5).any(3) & (listed == 0)).any()
    assert some.all(5).all(3)[listed == 2].all()
    if length == 300 and not padded and windows == (KINDS,):
        local = [[1, 1, 0], [1, 1, 1], [0, 1, 1]]
        assert listed[0, 1].tolist() == (local if not causal else [[1, 0, 0], [1, 1, 0], [0, 1, 1]])
        assert listed[0, 3].tolist() == [[1, 0, 0], [2, 1, 0], [1, 1, 1]]


@pytest.mark.parametrize(("device", "length"), [("cpu", 4096), ("meta", 300)])
def test_a_mask_takes_linear_memory_and_reads_no_value(device: str, length: int) -> None:
    """A tensor on the device meta has no values: whatever would wait for a GPU fails there."""
    frame = frame_of(length, True, torch.device(device))
    with LargestTensor() as largest:
        mask = key_mask((KINDS, sinks(3)), frame, causal=True, batch=3, heads=HEADS, device=torch.device(device))
    assert mask is not None and largest.size <= 3 * HEADS * length * 2


def test_layers_of_a_batch_share_a_mask_which_is_released_with_it() -> None:
    frame = frame_of(20, True)
    mask = mask_of(frame)
    assert mask_of(frame, distance_windows.__wrapped__(BOUNDS)) is mask
    assert mask_of(frame, distance_windows(((None, None), (-4, 4), *BOUNDS[2:]))) is not mask
    assert mask_of(frame, causal=True) is not mask and mask_of(frame) is mask
    assert frame.key_padding_mask is not None
    frame.key_padding_mask[1, 0] = True  # in place
    assert mask_of(frame) is not mask
    gc.collect()
    before = len(flex._kept_with_padding)
    del frame
    gc.collect()
    assert len(flex._kept_with_padding) == before - 1


def test_few_masks_without_padding_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flex, "_kept", type(flex._kept)())
    masks = [mask_of(frame_of(length, False)) for length in range(10, 40)]
    assert len(flex._kept) == flex._WITHOUT_PADDING
    assert mask_of(frame_of(39, False)) is masks[-1] and mask_of(frame_of(10, False)) is not masks[0]


def test_a_mask_made_in_inference_serves_training() -> None:
    with torch.inference_mode():
        frame = frame_of(21, True)
        made = mask_of(frame_of(23, False)), mask_of(frame)
    assert not any(mask.blocks.kv_indices.is_inference() for mask in made)


@pytest.mark.slow
def test_lengths_may_change_in_one_compiled_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dynamo traces it at most once for texts of one block and once for longer ones."""
    from torch._dynamo.testing import CompileCounter

    counter = CompileCounter()
    monkeypatch.setitem(flex.BACKENDS, "cpu", counter)
    for length in (20, 140, 300, 31, 270, 129, 600, 127):
        torch.manual_seed(length)
        q, k, v = torch.randn(3, length, 3, HEADS, 16).permute(0, 2, 3, 1, 4)
        entries, mask = torch.randn(HEADS, 2 * length - 1), mask_of(frame_of(length, True))
        with torch.no_grad():
            got = flex.flex_attention(q, k, v, scores=(by_distance(entries, length),), mask=mask, scaling=0.25)
        apart = torch.arange(length)[None, :] - torch.arange(length)[:, None] + length - 1
        hidden = ~seen(mask, length)
        wanted = attention_by_products(q, k, v, hidden, entries[:, apart], scaling=0.25)
        wanted = torch.where(hidden.all(-1, keepdim=True), 0.0, wanted)
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    assert counter.frame_count <= 2
