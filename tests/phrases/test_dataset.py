"""Phrases in the batches of sentence pairs."""

from __future__ import annotations

import pytest

from fairseq_localattn.errors import UsageError
from fairseq_localattn.phrases.dataset import PhrasePairDataset, collate_phrases
from support.models import sentences, tags
from support.phrase_batches import levels, pairs

PHRASES = [levels([3, 2], [1, 2, 2]), levels([1], [1]), levels([6], [2, 4])]


def test_phrases_follow_the_order_of_the_batch() -> None:
    """fairseq sorts the rows of a batch by length; each keeps its phrases, followed by </s>."""
    source = sentences([6, 2, 7])
    data = PhrasePairDataset(pairs(source, sentences([4, 5, 3], seed=1)), PHRASES, tags())
    found = data.collater([data[0], data[1], data[2]])
    assert found["id"].tolist() == [2, 0, 1]
    assert found["net_input"]["src_phrases"].tolist() == [
        [[6, 1, 0, 0], [2, 4, 1, 0]],
        [[3, 2, 1, 0], [1, 2, 2, 1]],
        [[1, 1, 0, 0], [1, 1, 0, 0]],
    ]
    assert found["phrase_tags"].tolist() == [
        [[8, 1, 1, 1], [4, 6, 1, 1]],
        [[5, 4, 1, 1], [3, 4, 4, 1]],
        [[3, 1, 1, 1], [3, 1, 1, 1]],
    ]
    assert data.collater([]) == {}


def test_an_empty_sentence_has_one_phrase_for_its_end() -> None:
    lengths, found = collate_phrases([levels([], [])], no_tag=1)
    assert lengths.tolist() == [[[1], [1]]] and found.tolist() == [[[1], [1]]]


def test_a_tag_of_another_dictionary_is_refused() -> None:
    with pytest.raises(UsageError, match="a phrase has the tag 9 of 9: another dictionary's"):
        collate_phrases([levels([7], [3, 4])], no_tag=1, types=9)
