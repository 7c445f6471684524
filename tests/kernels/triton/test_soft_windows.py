"""DiffWin's kernels against dense tensors: outputs, every gradient, dropout, memory."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from fairseq_localattn.kernels.triton import soft_windows
from fairseq_localattn.kernels.triton.soft_windows import window_attention
from fairseq_localattn.mechanisms.windowed import Segments, segment_window, soft_window
from support.kernels import DEVICE, assert_equal, needs_gpu, needs_triton, padding_of, recorded
from support.mechanisms.inputs import LargestTensor

pytestmark = needs_triton
SCALING = 0.4
COUNTS = {"mw": 3, "aw": 4}  # tensors of queries; there is one more of keys, the values
TOLERANCES = {torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let more than 16 queries or keys be several blocks."""
    monkeypatch.setattr(soft_windows, "BLOCK", 16)
    monkeypatch.setattr(soft_windows, "MOST_BYTES", 80)


def heads(kind: str, queries: int, keys: int, channels: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Return random heads of two sentences, as one product of queries and one of keys: T×B×H×n×D."""
    torch.manual_seed(keys)
    sizes = ((queries, COUNTS[kind]), (keys, COUNTS[kind] + 1))
    found = [torch.randn(length, 2, 1, count, channels) for length, count in sizes]
    return [x.to(DEVICE, dtype).requires_grad_() for x in found]


def apart(joined: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Return the tensors B×H×T×D of queries and of keys."""
    queries, keys = ([x.permute(1, 2, 0, 3) for x in each.unbind(3)] for each in joined)
    return queries, keys


def by_kernel(joined: list[Tensor], padding: Tensor | None, segment: int, causal: bool, dropout: float = 0.0) -> Tensor:
    queries, keys = apart(joined)
    options: dict[str, Any] = {"scaling": SCALING, "dropout": dropout, "segment": segment, "causal": causal}
    return window_attention(queries, keys, padding=padding, **options)


def dense(
    joined: list[Tensor], padding: Tensor | None, segment: int, causal: bool, factors: Tensor | float = 1
) -> Tensor:
    """Compute attention by tensors B×H×T×S; ``factors``: of dropout."""
    queries, (*keys, values) = apart(joined)
    score, left, right, *local = (q @ k.transpose(2, 3) * SCALING for q, k in zip(queries, keys, strict=True))
    hidden = torch.zeros_like(score, dtype=torch.bool)
    if padding is not None:
        hidden |= padding[:, None, None]
    if causal:
        hidden |= torch.ones_like(hidden).triu(1)
    pointers = torch.stack([left, right]).masked_fill(hidden, -1e30).softmax(-1)
    segments = Segments.of(padding, score.size(3), segment, score.device)
    window = soft_window(pointers) if segment == 1 else segment_window(pointers, segments)
    if local:
        score = score + local[0] * window
    weights = score.masked_fill(hidden, -1e30).softmax(-1).masked_fill(hidden, 0)
    return (weights * (1 if local else window) * factors) @ values


CASES = {  # kind, queries, keys, channels, segment, causal, padding
    "one block": ("aw", 9, 12, 12, 1, False, "left"),
    "aw, blocks of both": ("aw", 18, 20, 12, 1, False, "right"),
    "mw, blocks of both": ("mw", 17, 18, 16, 1, False, "none"),
    "aw, causal": ("aw", 17, 17, 12, 1, True, "none"),
    "mw, causal": ("mw", 34, 34, 12, 1, True, "left"),
    "mw, segments": ("mw", 3, 17, 12, 3, False, "none"),
    "aw, segments": ("aw", 18, 35, 12, 5, False, "left"),
    "aw, a segment a block": ("aw", 5, 20, 12, 16, False, "right"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, pytest.param(torch.bfloat16, marks=needs_gpu)])
def test_results_are_those_of_dense_tensors(case: str, dtype: torch.dtype) -> None:
    """Also for a sentence of padding, and for queries before the first word, which see nothing: all is 0 there."""
    kind, queries, keys, channels, segment, causal, side = CASES[case]
    if dtype != torch.float32 and DEVICE.type == "cpu" and case != "one block":
        pytest.skip("the interpreter takes long")
    joined, padding = heads(kind, queries, keys, channels, dtype), padding_of(side, keys)
    exact = [x.detach().double().requires_grad_() for x in joined]
    got = by_kernel(joined, padding, segment, causal)
    assert padding is None or not got[0].any()
    assert_equal(got, joined, dense(exact, padding, segment, causal), exact, TOLERANCES[dtype])


@pytest.mark.parametrize(("kind", "segment", "queries"), [("mw", 1, 17), ("aw", 5, 9)])
def test_dropout_is_the_same_in_both_passes(kind: str, segment: int, queries: int) -> None:
    """Which weights are dropped is read from attention to values that are the identity."""
    keys = 18
    joined = heads(kind, queries, keys, keys)

    def dropped(joined: list[Tensor], seed: int = 5) -> Tensor:
        torch.manual_seed(seed)
        return by_kernel(joined, None, segment, False, dropout=0.3)

    identity = joined[1].detach().clone()
    identity[..., -1, :] = torch.eye(keys, device=DEVICE)[:, None, None]
    kept = dropped([joined[0].detach(), identity]) != 0
    assert abs(kept.double().mean() - 0.7) < 4 * (0.21 / kept.numel()) ** 0.5
    exact = [x.detach().double().requires_grad_() for x in joined]
    assert_equal(dropped(joined), joined, dense(exact, None, segment, False, kept / 0.7), exact, 2e-5)
    assert not torch.equal(dropped(joined), dropped(joined, seed=6))


def test_memory_is_linear_in_the_length() -> None:
    """No tensor is larger than the joint projections."""
    joined = heads("aw", 1024, 1024, 12)
    with recorded(run=False) if DEVICE.type == "cpu" else nullcontext(), LargestTensor() as largest:
        by_kernel(joined, None, 1, False, dropout=0.1).sum().backward()
    assert 0 < largest.size <= 3 * 9 * 24 * 1024
