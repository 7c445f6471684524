"""transformer_{relpos,shaw,rope,alibi,t5bias,sinks}: where they stand, parameters against the papers', mistakes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fairseq_localattn.errors import UsageError
from fairseq_localattn.models.architectures import baseline_of
from support.models import build, build_classifier, build_lm, parse

TODAY = ("rope", "alibi", "t5bias", "sinks")


def added(arch: str, flags: list[str] | None = None) -> int:
    """Return the parameters that an architecture has beside its baseline."""
    make = build_lm if "_lm_" in arch else build_classifier if "classifier" in arch else build
    with torch.device("meta"):
        models = make(arch, flags or []), make(baseline_of(arch))
    ours, plain = (sum(p.numel() for p in model.parameters()) for model in models)
    return ours - plain


ENCODER = ["--relpos-decoder-layers", "none"]
THREE = [*ENCODER, "--relpos-encoder-layers", "1-3"]
OWN = ["--relpos-heads", "own"]


@pytest.mark.parametrize(
    ("arch", "flags", "parameters"),
    [
        ("transformer_relpos_wmt_en_de", [], 50_688),  # CSAN's row: +0.1M
        ("transformer_relpos_wmt_en_de", [*THREE, *OWN], 101_376),  # another reading of it
        ("transformer_relpos_wmt_en_de", ENCODER, 25_344),  # DiffWin's translation
        ("transformer_relpos_wmt_en_de", [*ENCODER, *OWN], 202_752),
        ("transformer_relpos_wmt_en_de", [*ENCODER, "--relpos-no-values"], 25_344 // 2),
        ("transformer_lm_relpos", [], 12_672),  # DiffWin's language model
        ("transformer_relpos_classifier", [], 2 * 2 * 33 * 32),
        ("transformer_relpos_wmt_en_de_big", ["--relpos-distance", "8"], 12 * 2 * 17 * 64),
        ("transformer_shaw_wmt_en_de_big", [], 12 * 2 * 17 * 64),
        ("transformer_shaw_iwslt_de_en", [], 12 * 4 * 2 * 33 * 128),
        ("transformer_t5bias_wmt_en_de", ["--t5bias-decoder-layers", "none"], 1536),
        ("transformer_t5bias_wmt_en_de", [], 2 * 1536),
        ("transformer_rope_wmt_en_de", [], 0),
        ("transformer_alibi_wmt_en_de", [], 0),
        ("transformer_sinks_wmt_en_de", [], 0),
    ],
)
def test_parameters(arch: str, flags: list[str], parameters: int) -> None:
    assert added(arch, flags) == parameters


def test_shaws_base_model() -> None:
    """Tables of each head in 12 layers, and 1,024 channels instead of 2,048 in the feed-forward network."""
    narrower = 12 * (2 * 512 * 1024 + 1024)
    assert added("transformer_shaw_wmt_en_de") == 12 * 33_792 - narrower


def kinds(layers: Any, name: str = "self_attn") -> list[str]:
    return [getattr(layer, name).kind for layer in layers]


@pytest.mark.parametrize("name", ["relpos", *TODAY])
def test_both_self_attentions_have_it_and_cross_attention_not(name: str) -> None:
    model = build(f"transformer_{name}_tiny", [f"--{name}-encoder-layers", "2"])
    assert kinds(model.encoder.layers) == ["san", name] and kinds(model.decoder.layers) == [name] * 2
    assert kinds(model.decoder.layers, "encoder_attn") == ["san"] * 2
    with pytest.raises(UsageError, match=f"--{name}-cross-layers: a distance between a source and a target position"):
        parse(f"transformer_{name}_tiny", [f"--{name}-cross-layers", "1"])


@pytest.mark.parametrize(
    ("name", "there"),
    [("relpos", True), ("shaw", False), ("rope", False), ("alibi", False), ("t5bias", False), ("sinks", True)],
)
def test_absolute_positions(name: str, there: bool) -> None:
    model = build(f"transformer_{name}_tiny")
    for stack in (model.encoder, model.decoder):
        assert (stack.embed_positions is not None) == there


def test_options_reach_the_attention() -> None:
    flags = ["--relpos-distance", "5", "--relpos-heads", "own", "--relpos-no-values"]
    attention = build("transformer_relpos_tiny", flags).encoder.layers[0].self_attn
    assert attention.key_positions.shape == (4, 11, 16) and attention.value_positions is None
    assert build("transformer_rope_tiny", ["--rope-base", "500"]).encoder.layers[0].self_attn.base == 500
    model = build("transformer_t5bias_tiny", ["--t5bias-buckets", "12", "--t5bias-distance", "30"])
    found = [
        (layer.self_attn.causal, layer.self_attn.buckets)
        for layer in (model.encoder.layers[0], model.decoder.layers[0])
    ]
    assert found == [(False, 12), (True, 12)]
    model = build("transformer_sinks_tiny", ["--sinks-window", "6", "--sinks-count", "1"])
    attentions = [stack.layers[0].self_attn for stack in (model.encoder, model.decoder)]
    assert [(a.window, a.sinks, a.causal) for a in attentions] == [(6, 1, False), (6, 1, True)]
    assert [a.windows()[0].bounds for a in attentions] == [((-3, 3),), ((-5, 5),)]


@pytest.mark.parametrize(
    ("arch", "flags", "message"),
    [
        ("relpos", ["--relpos-distance", "-1"], "the greatest relative position must be 0 or more, not -1"),
        ("relpos", ["--relpos-encoder-layers", "3"], "layer 3 is asked for, and the stack has 2"),
        ("rope", ["--encoder-embed-dim", "60", "--encoder-attention-heads", "4"], "pairs of channels"),
        ("t5bias", ["--t5bias-distance", "4"], "the greatest distance must be above 4 with 8 buckets, not 4"),
        ("sinks", ["--sinks-count", "-1"], "the number of attention sinks must be 0 or more, not -1"),
    ],
)
def test_mistakes_are_one_clear_line(arch: str, flags: list[str], message: str) -> None:
    """The error is raised while fairseq parses the command line."""
    with pytest.raises(UsageError) as error:
        parse(f"transformer_{arch}_tiny", flags)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_mma_is_bi_direct() -> None:
    """CSAN's BI_DIRECT is a row of MMA: all heads directed, in the lower three encoder layers, without parameters."""
    flags = ["--mma-heads", "forward:4,backward:4", "--mma-encoder-layers", "1-3"]
    with torch.device("meta"):
        layers = build("transformer_mma_wmt_en_de", flags).encoder.layers
    assert [getattr(layer.self_attn, "head_kinds", None) for layer in layers] == [
        ("forward",) * 4 + ("backward",) * 4
    ] * 3 + [None] * 3
    assert added("transformer_mma_wmt_en_de", flags) == 0
