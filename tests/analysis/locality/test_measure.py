"""The locality measure (Eq. 13 of Fan et al. 2021), against loops and closed forms."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairseq_localattn.analysis.locality.measure import share_within
from support.analysis import share_by_loops


def padded(sentences: list[Tensor], left: bool, width: int) -> tuple[Tensor, Tensor]:
    """Return sentences T×T as one batch and its padding mask; padded places hold 7, which must not count."""
    weights = torch.full((len(sentences), width, width), 7.0)
    padding = torch.ones(len(sentences), width, dtype=torch.bool)
    for row, sentence in enumerate(sentences):
        real = slice(width - len(sentence), width) if left else slice(0, len(sentence))
        weights[row, real, real] = sentence
        padding[row, real] = False
    return weights, padding


@settings(deadline=None, max_examples=40)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    windows=st.lists(st.integers(0, 12), min_size=1, max_size=4),
    room=st.integers(0, 2),
    left=st.booleans(),
    seed=st.integers(0, 99),
)
def test_it_is_equation_13(lengths: list[int], windows: list[int], room: int, left: bool, seed: int) -> None:
    """Against loops; sentences of length 1, padding on either side, and more of it than needed."""
    generator = torch.Generator().manual_seed(seed)
    sentences = [torch.rand(n, n, generator=generator).softmax(-1) for n in lengths]
    weights, padding = padded(sentences, left, max(lengths) + room)
    wanted = torch.tensor([[share_by_loops(s, w) for w in windows] for s in sentences], dtype=torch.double)
    torch.testing.assert_close(share_within(weights, padding, windows), wanted, rtol=0, atol=1e-9)


def test_closed_forms() -> None:
    """Uniform attention, attention to oneself, to the next word; a window as long as the sentence holds all of it."""
    lengths, windows = [1, 4, 9], [0, 1, 2, 4, 9, 10**30]
    uniform, padding = padded([torch.full((n, n), 1 / n) for n in lengths], True, 9)
    pairs = [[sum(min(n, j + w + 1) - max(0, j - w) for j in range(n)) for w in windows] for n in lengths]
    wanted = torch.tensor(pairs, dtype=torch.double) / torch.tensor([[n * n] for n in lengths])
    torch.testing.assert_close(share_within(uniform, padding, windows), wanted, rtol=0, atol=1e-6)
    assert wanted[2].tolist() == pytest.approx([9 / 81, 25 / 81, 39 / 81, 61 / 81, 1, 1])

    assert share_within(torch.eye(3).half()[None], None, [0]).dtype == torch.double, "summed in fp64"
    following, padding = padded([torch.eye(n).roll(1, dims=1) for n in lengths], True, 9)  # the last one sees the first
    assert share_within(following, padding, [0, 1]).tolist() == [[1, 1], [0, 3 / 4], [0, 8 / 9]]


def test_it_refuses_what_is_no_self_attention() -> None:
    with pytest.raises(ValueError, match="not 2×3×4"):
        share_within(torch.rand(2, 3, 4), None, [1])
    with pytest.raises(ValueError, match="not -1"):
        share_within(torch.rand(2, 3, 3), None, [1, -1])
