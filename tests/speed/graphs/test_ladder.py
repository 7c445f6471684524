"""A ladder has few shapes and little padding, and each sentence is in one batch that fits its shape."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.batches import draw_lengths
from fairseq_localattn.speed.graphs.ladder import LadderDataset, Shape, choose_ladder, cut, rows_within


def pairs(lengths: np.ndarray) -> Any:
    """Return a data set of these lengths, N×2; longer sentences than the ladder's are a batch each."""
    one_each = lambda indices, *limits: [indices[n : n + 1] for n in range(len(indices))]  # noqa: E731
    return SimpleNamespace(sizes=lengths, num_tokens_vec=lambda at: lengths[at].max(1), batch_by_size=one_each)


@pytest.mark.parametrize("tokens", [4096, 32768])
def test_lengths_as_in_iwslt14_have_16_shapes_and_little_padding(tokens: int) -> None:
    """fairseq's own batches have 861 shapes at 4,096 tokens."""
    lengths = draw_lengths(160_000)
    data = LadderDataset(pairs(lengths), most=16)
    batches = data.batch_by_size(np.arange(len(lengths)), tokens, None, 8)
    assert data.ladder is not None and len(data.ladder) <= 16
    assert np.array_equal(np.sort(np.concatenate(batches)), np.arange(len(lengths)))
    positions = 0
    for batch in batches:
        shape = next(shape for shape in data.ladder if shape.length >= lengths[batch].max())
        assert len(batch) <= shape.rows and shape.rows * shape.length <= tokens and shape.rows % 8 == 0
        positions += 2 * shape.rows * shape.length
    assert data.padding == positions / lengths.sum() <= 1.25


def test_no_ladder_has_fewer_positions() -> None:
    lengths, rows_of = np.random.default_rng(1).integers(3, 11, 60), rows_within(40, None, 1)

    def positions(ends: tuple[int, ...]) -> int:
        ladder = tuple(Shape(rows_of(end), end) for end in ends)
        return sum(shape.rows * shape.length for shape, _ in cut(lengths, ladder) if shape)

    chosen = choose_ladder(lengths, 3, rows_of)
    others = [(*ends, 10) for count in (0, 1, 2) for ends in combinations(range(3, 10), count)]
    assert positions(tuple(shape.length for shape in chosen)) == min(map(positions, others))


@pytest.mark.parametrize(("limits", "rows"), [
    ((4096, None, 8), 152), ((4096, 20, 8), 16), ((100, None, 8), 3), ((20, None, 8), 1), ((None, 20, 1), 20),
])  # fmt: skip
def test_rows_are_within_fairseqs_limits(limits: tuple[int | None, int | None, int], rows: int) -> None:
    assert rows_within(*limits)(26) == rows


def test_a_ladder_is_kept_and_longer_sentences_are_cut_as_before() -> None:
    lengths = np.array([[3, 4], [9, 2], [5, 5], [2, 1]])
    data = LadderDataset(pairs(lengths), most=16, ladder=(Shape(2, 4), Shape(1, 5)))
    assert [batch.tolist() for batch in data.batch_by_size(np.array([3, 0, 2, 1]), 5)] == [[3, 0], [2], [1]]
