"""transformer_blocksan: layers, parameters, invalid options."""

from __future__ import annotations

import pytest
import torch

from fairseq_localattn.errors import UsageError
from fairseq_localattn.models.architectures import baseline_of
from support.models import build, parse


def test_parameters_of_the_table() -> None:
    with torch.device("meta"):
        model, plain = build("transformer_blocksan"), build(baseline_of("transformer_blocksan"))
    assert [layer.self_attn.kind for layer in model.encoder.layers] == ["block"] * 6
    assert [layer.self_attn.kind for layer in model.decoder.layers] == ["san"] * 6
    assert sum(p.numel() for p in model.parameters()) - sum(p.numel() for p in plain.parameters()) == 7_898_160


def test_the_length_of_blocks() -> None:
    assert build("transformer_blocksan_tiny").encoder.layers[1].self_attn.block_length == 4
    model = build("transformer_blocksan_tiny", ["--blocksan-length", "0", "--blocksan-encoder-layers", "2"])
    assert [layer.self_attn.kind for layer in model.encoder.layers] == ["san", "block"]
    assert model.encoder.layers[1].self_attn.block_length == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--blocksan-length", "-1"], "encoder layer 1: the length of a block must be 1 or more, or 0"),
        (["--blocksan-decoder-layers", "all"], "--blocksan-decoder-layers: the summary of an unfinished block"),
        (["--blocksan-cross-layers", "1"], "--blocksan-cross-layers: queries and keys are words of one sentence"),
    ],
)
def test_invalid_options(flags: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse("transformer_blocksan_tiny", flags)
