"""Sentence pairs that are given as text."""

from __future__ import annotations

import pytest

from fairseq_localattn.analysis.heatmap.pairs import encode
from fairseq_localattn.errors import UsageError
from support.models import dictionary


def test_text_becomes_tokens() -> None:
    words = dictionary()
    assert encode(" w3  w0 <unk> ", words, "--source").tolist() == [
        words.index("w3"), words.index("w0"), words.unk(), words.eos(),
    ]  # fmt: skip
    with pytest.raises(UsageError, match="--target: not in the dictionary: no such </s>; give"):
        encode("no w1 such no </s>", words, "--target")
    with pytest.raises(UsageError, match="--source: the text is empty"):
        encode(" ", words, "--source")
