"""How block attention cuts sentences into blocks."""

from __future__ import annotations

import pytest
import torch

from fairseq_localattn.mechanisms.block import Blocks


@pytest.mark.parametrize("size", [0, 4])
def test_words_stand_in_the_blocks_that_are_stated(size: int) -> None:
    """For sentences of 0 to 40 words: each word in one slot, blocks full but for the last, sizes as stated."""
    lengths = torch.arange(41)[:, None]
    for padding in (torch.arange(40) >= lengths, torch.arange(40) < 40 - lengths):
        blocks = Blocks.of(padding, 40, size, padding.device)
        assert blocks.hidden is not None
        words = torch.arange(1.0, 41).expand(41, 40).masked_fill(padding, 0)
        cut = blocks.cut(words[:, None, :, None])[:, 0, ..., 0]
        assert torch.equal(blocks.join(cut[:, None, ..., None], 40)[:, 0, :, 0], words)
        for n in range(1, 41):
            there = [row[row > 0].tolist() for row in cut[n] if row.any()]
            assert sum(there, []) == words[n][words[n] > 0].tolist()
            stated = size or next(r for r in range(1, 9) if r**3 >= 2 * n)
            assert [len(block) for block in there[:-1]] == [stated] * (len(there) - 1)
            assert len(there[-1]) <= stated
        assert torch.equal(blocks.hidden, cut == 0)
