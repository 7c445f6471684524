"""The decoding state: which cached sentences a new order of a beam's rows asks for."""

from __future__ import annotations

import pytest
import torch

from fairseq_localattn.core.decoding import sentence_order


@pytest.mark.parametrize(
    ("order", "sentences", "copies"),
    [
        ([1, 0, 3, 3], None, 2),  # hypotheses move within their sentences
        ([2, 3, 0, 1], [1, 0], 2),  # as many rows, and the sentences change places
        ([3, 2], [1], 2),  # a sentence has ended
        ([0, 2, 1, 3], [0, 1, 0, 1], 1),  # equal sentences that change places are no beam
        ([1, 2, 3], [0, 1, 1], 1),
    ],
)
def test_rows_of_a_beam_become_sentences(order: list[int], sentences: list[int] | None, copies: int) -> None:
    found, kept = sentence_order(torch.tensor(order), 2, 2)
    assert (None if found is None else found.tolist()) == sentences and kept == copies
