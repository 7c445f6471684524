"""Mixed heads: the masks that they make, and mixes that are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fairseq_localattn.core import banded, steps
from fairseq_localattn.kernels.dense import fused_attention
from fairseq_localattn.kernels.masks import Frame
from fairseq_localattn.kernels.windows import hidden_by_lengths
from fairseq_localattn.mechanisms.mixed import MixedAttention, parse_head_mix


def test_global_heads_make_no_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone, and as a run of heads beside local ones that are computed in their band."""
    masks: list[torch.Tensor | None] = []

    def record(*args: Any, **kwargs: Any) -> torch.Tensor:
        masks.append(kwargs["hidden"])
        return fused_attention(*args, **kwargs)

    for module in (steps, banded):
        monkeypatch.setattr(module, "fused_attention", record)
    x = torch.randn(600, 1, 8)
    for kinds, shapes in ((["global"] * 4, [None]), (["global", "global", "local", "forward"], [None, (1, 600, 600)])):
        masks.clear()
        MixedAttention(8, 4, head_kinds=kinds, self_attention=True)(x, x, x, need_weights=False)
        assert [None if mask is None else mask.shape for mask in masks] == shapes


def test_windows_of_long_sentences_are_not_kept() -> None:
    module = MixedAttention(8, 2, head_kinds=["forward", "backward"], self_attention=True)
    for length, kept in ((1025, 0), (1024, 1)):
        hidden_by_lengths.cached.cache_clear()
        frame = Frame(query_length=length, key_length=length)
        hidden = module.hidden_keys(frame, torch.device("cpu"))
        assert hidden is not None and hidden.shape == (2, length, length)
        assert hidden_by_lengths.cached.cache_info().currsize == kept


BAD_MIXES = ["global:2,local:1", "global:5", "global,local,forward", "globl:4", "global:x,local:1", "global:0", ""]


@pytest.mark.parametrize("mix", [*BAD_MIXES, "global:²,local:2"])
def test_bad_head_mixes(mix: str) -> None:
    with pytest.raises(ValueError, match="head"):
        parse_head_mix(mix, 4)
    with pytest.raises(ValueError, match="3 kinds"):
        MixedAttention(8, 4, head_kinds=["global"] * 3)


def test_head_mixes_of_table_4() -> None:
    kinds = ["global", "local", "forward", "backward"]
    assert parse_head_mix(",".join(kinds), 8) == tuple(kind for kind in kinds for _ in range(2))
    assert parse_head_mix("global:3,forward:1", 4) == ("global", "global", "global", "forward")
