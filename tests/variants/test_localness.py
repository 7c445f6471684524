"""transformer_localness, _local_hard, _neighbor and the classifier: settings, parameters, invalid options."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fairseq_localattn.errors import UsageError
from fairseq_localattn.mechanisms.gaussian import GaussianAttention, GaussianProductAttention
from fairseq_localattn.models.architectures import baseline_of, other_size_of
from support.models import build, build_classifier, parse

DIFFWIN = "--localness-width 5 --localness-source input --localness-hidden linear".split()
TINY = "transformer_localness_tiny"


def parameters(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


# Architecture, flags, parameters beside those of the plain model: the counts of the comparison table.
ROWS: list[tuple[str, list[str], int]] = [
    ("transformer_localness", [], 812_592),
    ("transformer_localness_wmt_en_de_big", [], 3_247_200),
    ("transformer_local_hard", [], 397_068),
    ("transformer_local_hard", ["--localness-heads", "0"], 800_280),
    ("transformer_neighbor", [], 24),
    ("transformer_neighbor", ["--localness-width", "query", "--localness-heads", "4"], 397_068),
    # DiffWin's u_d, three times 64, has no gradient in its code and is not here.
    ("transformer_localness_wmt_en_de", DIFFWIN, 786_816 - 3 * 64),
    ("transformer_localness", ["--localness-decoder-layers", "all", "--localness-cross-layers", "all"], 812_592 * 5),
]


@pytest.mark.parametrize(("arch", "flags", "more"), ROWS)
def test_parameters(arch: str, flags: list[str], more: int) -> None:
    with torch.device("meta"):
        assert parameters(build(arch, flags)) - parameters(build(baseline_of(arch))) == more


def test_parameters_of_the_classifier() -> None:
    """Table 5 of DiffWin: the first of two layers with d = 128 and four heads."""
    with torch.device("meta"):
        model = build_classifier("transformer_localness_classifier", DIFFWIN)
        plain = build_classifier("transformer_localattn_classifier")
    assert [layer.self_attn.kind for layer in model.encoder.layers] == ["gauss", "san"]
    assert parameters(model) - parameters(plain) == 128 * 128 + 32


def windows(layers: Any, name: str = "self_attn") -> list[str]:
    return [getattr(layer, name).kind for layer in layers]


def test_the_systems_are_settings_of_one_attention() -> None:
    expected = {
        "localness": ("predicted", "query", 8),
        "local_hard": ("predicted", 10.0, 4),
        "neighbor": ("self", "head", 8),
    }
    for system, (center, width, heads) in expected.items():
        with torch.device("meta"):
            model = build(f"transformer_{system}")
        attention = model.encoder.layers[0].self_attn
        assert type(attention) is GaussianAttention
        assert (attention.center, attention.width, attention.local_heads) == (center, width, heads)
        assert (attention.cut, attention.source, attention.hidden) == (False, "query", "tanh")
        assert windows(model.encoder.layers) == ["gauss"] * 3 + ["san"] * 3
        assert windows(model.decoder.layers) + windows(model.decoder.layers, "encoder_attn") == ["san"] * 12
        assert other_size_of(f"transformer_{system}_wmt_en_de", "small") == f"transformer_{system}_small"


def test_half_of_the_heads_are_local_in_every_size_of_local_hard() -> None:
    for suffix in ("", "_tiny", "_small", "_medium", "_iwslt_de_en", "_wmt_en_de", "_wmt_en_de_big"):
        args = parse(f"transformer_local_hard{suffix}")
        assert args.localness_heads == args.encoder_attention_heads // 2 and args.localness_width == "10"


def test_flags_reach_the_attention_of_their_site() -> None:
    flags = ["--localness-width", "keys", "--localness-cut", "--localness-product", "--localness-heads", "3"]
    flags += ["--localness-encoder-layers", "none", "--localness-decoder-layers", "2", "--localness-cross-layers", "1"]
    model = build(TINY, flags)
    assert windows(model.encoder.layers) == ["san", "san"]
    assert windows(model.decoder.layers) == ["san", "gauss"]
    assert windows(model.decoder.layers, "encoder_attn") == ["gauss", "san"]
    decoder, cross = model.decoder.layers[1].self_attn, model.decoder.layers[0].encoder_attn
    for attention in (decoder, cross):
        assert type(attention) is GaussianProductAttention and attention.cut
        assert (attention.width, attention.local_heads) == ("keys", 3)
    assert decoder.causal and not cross.causal
    assert build(TINY, DIFFWIN).encoder.layers[0].self_attn.source == "input"


@pytest.mark.parametrize(
    ("arch", "flags", "message"),
    [
        (TINY, ["--localness-width", "wide"], "a window's width of 'wide': give head, keys, query, or a number"),
        (TINY, ["--localness-width", "0"], "a window's width of '0'"),
        (TINY, ["--localness-heads", "5"], "5 heads with a Gaussian were asked for, and there are 4 heads"),
        (TINY, ["--localness-encoder-layers", "1-3"], "layer 3 is asked for, and the stack has 2"),
        (
            "transformer_neighbor_tiny",
            ["--localness-cross-layers", "all"],
            "cross layer 1: --localness-center self: the query's own position means nothing in the other sentence",
        ),
        (
            "transformer_neighbor_tiny",
            ["--localness-source", "input"],
            "--localness-source input changes nothing: neither centre nor width is predicted from it",
        ),
        (
            "transformer_neighbor_tiny",
            ["--localness-hidden", "linear"],
            "--localness-hidden linear changes nothing: neither centre nor width is predicted",
        ),
    ],
)
def test_invalid_options(arch: str, flags: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(arch, flags)
