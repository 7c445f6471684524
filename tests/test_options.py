"""Options of a variant as a dataclass: their names."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from fairseq.dataclass import FairseqDataclass

from fairseq_localattn.options import check_names


def test_option_names_are_prefixed() -> None:
    @dataclass
    class Stray(FairseqDataclass):
        window: int = 3

    with pytest.raises(TypeError, match="must start with csan_"):
        check_names(Stray, "csan")
    with pytest.raises(TypeError, match="reserved"):
        check_names(Stray, "encoder")
