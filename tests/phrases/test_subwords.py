"""Subwords of words and of phrases, and the packed phrases of one sentence."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary

from fairseq_localattn.phrases.convert import phrases_of_sentence
from fairseq_localattn.phrases.store import pack, unpack
from fairseq_localattn.phrases.subwords import normalise, project, same_words, words_of
from fairseq_localattn.phrases.trees import TreeError, one_word_phrases, partition, read_tree
from support.trees import FIGURE_1


def test_pieces_of_words_in_each_convention():
    assert words_of("a@@ b c d@@ e@@ f".split(), "subword_nmt") == ([2, 1, 3], ["ab", "c", "def"])
    assert words_of(["a@@"], "subword_nmt") == ([1], ["a"])
    assert words_of("▁a b ▁c ▁ d e ▁f".split(), "sentencepiece") == ([2, 1, 3, 1], ["ab", "c", "de", "f"])
    assert words_of("▁ ▁a b ▁c ▁".split(), "sentencepiece") == ([3, 2], ["ab", "c"])
    assert words_of("a ▁b".split(), "sentencepiece") == ([1, 1], ["a", "b"])
    assert words_of(["▁"], "sentencepiece") == ([1], [""])
    assert words_of(["a@@", "▁b"], "none") == ([1, 1], ["a@@", "▁b"])
    assert [words_of([], name) for name in ("subword_nmt", "sentencepiece", "none")] == [([], [])] * 3
    with pytest.raises(ValueError, match="bytes is none of subword_nmt, sentencepiece, none"):
        words_of(["a"], "bytes")


def test_subwords_follow_their_word():
    levels = partition(read_tree(FIGURE_1))
    assert project(levels, [2, 1, 1, 1, 1, 3]) == [
        ([2, 7], ["NP", "VP"]),
        ([2, 1, 2, 4], ["NP", "VBD", "NP", "PP"]),
        ([2, 1, 1, 1, 1, 3], ["NP", "VBD", "DT", "NN", "IN", "NP"]),
    ]
    assert project(one_word_phrases(2, 3), [1, 2]) == [([1, 2], ["", ""])] * 3
    with pytest.raises(TreeError, match="the tree has 6 leaves, the sentence 5 words"):
        project(levels, [1] * 5)


@pytest.mark.parametrize(
    ("word", "leaf"),
    [
        ("&apos;s", "'s"), ("&amp;", "&"), ("&#91;", "-LSB-"), ("&#93;", "]"), ("(", "-LRB-"), ("}", "-RCB-"),
        ("&quot;", "``"), ('"', "''"), ("“", '"'), ("’s", "'s"), ("`", "'"), ("@-@", "-"), ("The", "the"),
        ("1/2", "1\\/2"), ("&lt;", "<"), ("&#124;", "|"),
    ],
)  # fmt: skip
def test_words_are_compared_without_escapes(word, leaf):
    assert normalise(word) == normalise(leaf)
    assert same_words([word, "x"], [leaf, "x"]) and not same_words([word, "x"], [leaf, "y"])


def test_packed_phrases_are_laid_out_as_agreed_and_read_back():
    levels = [([2, 3], [4, 5]), ([1, 1, 3], [6, 7, 5])]
    packed = pack(levels)
    assert packed.dtype == torch.int32
    assert packed.tolist() == [5, 2, 2, 3, 2, 3, 1, 1, 3, 4, 5, 6, 7, 5]
    for array in (packed, packed.long(), packed.numpy()):
        total, found = unpack(array)
        assert total == 5 and [(sizes.tolist(), tags.tolist()) for sizes, tags in found] == levels
    assert pack([([], [])] * 3).tolist() == [0, 3, 0, 0, 0]
    assert [len(sizes) for sizes, _ in unpack(pack([([], [])] * 3))[1]] == [0, 0, 0]


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([], "no level"),
        ([([1, 2], [4])], "level 1 has 2 phrases and 1 tags"),
        ([([1], [4]), ([0, 1], [4, 4])], "level 2 has a phrase of 0 subwords"),
        ([([-1, 2], [4, 4])], "level 1 has a phrase of -1 subwords"),
        ([([1], [-1])], "level 1 has the tag -1"),
        ([([3], [4]), ([1, 1], [4, 4])], "level 2 has 2 subwords, level 1 has 3"),
    ],
)
def test_inconsistent_levels_are_not_packed(levels, message):
    with pytest.raises(ValueError, match=message):
        pack(levels)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([], "no packed phrases"),
        ([3, 0, 1], "no packed phrases"),
        ([3, 9, 1, 3, 4], "no packed phrases"),
        ([3, 1, 2, 1, 2, 4], "need twice their sum"),
        ([3, 1, -1, 3, 4], "need twice their sum"),
        ([3, 1, 1, 3, -4], "negative number: -4"),
        ([3, 1, 2, 1, 1, 4, 4], r"level 1 of packed phrases has lengths \[1, 1\] for 3 subwords"),
        ([3, 1, 2, 3, 0, 4, 4], r"level 1 of packed phrases has lengths \[3, 0\] for 3 subwords"),
    ],
)
def test_damaged_phrases_are_not_unpacked(numbers, message):
    with pytest.raises(ValueError, match=message):
        unpack(np.array(numbers))


def test_phrases_of_a_line_for_interactive_use():
    tags = Dictionary()
    known = {tag: tags.add_symbol(tag) for tag in ("NP", "VP", "VBD")}
    pieces = "Bu@@ sh held a talk with Sha@@ r@@ on".split()
    total, levels = unpack(phrases_of_sentence(pieces, FIGURE_1, 2, "subword_nmt", tags=tags))
    assert total == 9 and [sizes.tolist() for sizes, _ in levels] == [[2, 7], [2, 1, 2, 4]]
    assert levels[1][1].tolist() == [known["NP"], known["VBD"], known["NP"], tags.pad()]
    total, levels = unpack(phrases_of_sentence(["▁a", "b", "▁c"], " ", 1, "sentencepiece", tags=tags))
    assert total == 3 and levels[0][0].tolist() == [2, 1] and levels[0][1].tolist() == [tags.pad()] * 2
    with pytest.raises(TreeError, match="the tree has 6 leaves, the sentence 1 words"):
        phrases_of_sentence(["Bush"], FIGURE_1, 3, "subword_nmt", tags=tags)
