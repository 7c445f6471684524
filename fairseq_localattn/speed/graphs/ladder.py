"""A ladder of shapes: a data set is cut into batches that are padded to one of few lengths, with a number of rows each.

Both sides of a batch are padded to the same length. The lengths are those by which an epoch has the fewest positions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from fairseq.data import BaseWrapperDataset


class Shape(NamedTuple):
    """A shape of batches: at most ``rows`` sentences of at most ``length`` tokens a side."""

    rows: int
    length: int


Ladder = tuple[Shape, ...]  # in ascending order of lengths


def rows_within(tokens: int | None, sentences: int | None, multiple: int) -> Callable[[int], int]:
    """Return a function: length → the most rows within fairseq's ``--max-tokens`` and ``--batch-size``.

    More than ``multiple`` rows are a multiple of it, as in fairseq.
    """

    def rows_of(length: int) -> int:
        limits = [tokens // length] if tokens else []
        most = min([*limits, sentences] if sentences else limits)
        return max(1, most if most < multiple else most - most % multiple)

    return rows_of


def choose_ladder(lengths: np.ndarray, most: int, rows_of: Callable[[int], int]) -> Ladder:
    """Return at most ``most`` shapes by which sentences of these lengths have the fewest positions in an epoch."""
    values, counts = np.unique(lengths, return_counts=True)
    before = np.concatenate([[0], np.cumsum(counts)])  # the number of sentences that are shorter than each value
    rows = [rows_of(int(value)) for value in values]
    # cost[k, j]: positions of the j shortest lengths in k shapes; first[k, j]: where the last of the shapes begins.
    cost = np.full((most + 1, len(values) + 1), np.inf)
    cost[0, 0] = 0
    first = np.zeros(cost.shape, dtype=np.int64)
    for end in range(1, len(values) + 1):
        batches = -(-(before[end] - before[:end]) // rows[end - 1])
        paths = cost[:-1, :end] + batches * rows[end - 1] * values[end - 1]
        first[1:, end], cost[1:, end] = paths.argmin(1), paths.min(1)
    shapes: list[Shape] = []
    count, end = int(cost[:, -1].argmin()), len(values)
    while end:
        shapes.append(Shape(rows[end - 1], int(values[end - 1])))
        count, end = count - 1, int(first[count, end])
    return tuple(shapes[::-1])


def cut(lengths: np.ndarray, ladder: Ladder) -> list[tuple[Shape | None, np.ndarray]]:
    """Return the places of all batches in ``lengths`` with their shapes, the shortest first; None for longer sentences.

    The sentences of a shape keep their order, and are spread evenly over as few batches as they need.
    """
    shape_of = np.searchsorted([shape.length for shape in ladder], lengths)
    found: list[tuple[Shape | None, np.ndarray]] = []
    for number, shape in enumerate(ladder):
        places = np.flatnonzero(shape_of == number)
        count = -(-len(places) // shape.rows)
        found += [(shape, batch) for batch in np.array_split(places, count)] if count else []
    longer = np.flatnonzero(shape_of == len(ladder))
    return [*found, (None, longer)] if len(longer) else found


class LadderDataset(BaseWrapperDataset):
    """A data set of sentence pairs that is cut into batches of the shapes of a ladder; its items stay as they are.

    Args:
        dataset: of sentence pairs.
        most: the number of shapes.
        ladder: None to choose it for the sentences that are cut first. Longer sentences are cut as in fairseq.
    """

    def __init__(self, dataset: Any, most: int, ladder: Ladder | None = None) -> None:
        super().__init__(dataset)
        self.most, self.ladder = most, ladder
        self.padding = 0.0  # positions for each token in the batches that were cut last

    def batch_by_size(
        self,
        indices: np.ndarray,
        max_tokens: int | None = None,
        max_sentences: int | None = None,
        required_batch_size_multiple: int = 1,
    ) -> list[np.ndarray]:
        """Return the indices of each batch; called by fairseq's tasks."""
        limits = max_tokens, max_sentences, required_batch_size_multiple
        lengths = self.dataset.num_tokens_vec(indices)
        if self.ladder is None:
            self.ladder = choose_ladder(lengths, self.most, rows_within(*limits))
        batches, positions, tokens = [], 0, 0
        for shape, places in cut(lengths, self.ladder):
            if shape is None:
                batches += list(self.dataset.batch_by_size(indices[places], *limits))
            else:
                batches.append(indices[places])
                positions += 2 * shape.rows * shape.length
                tokens += int(self.sizes[indices[places]].sum())
        self.padding = positions / max(1, tokens)
        return batches
