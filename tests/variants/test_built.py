"""Models of every variant: what stands in which layer, what the options reach, and how many parameters there are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_localattn.mechanisms.gaussian import GaussianAttention, GaussianProductAttention
from fairseq_localattn.models.architectures import baseline_of
from support import models
from support.models import build, parse
from support.paths import ROOT

DIFFWIN = "--localness-width 5 --localness-source input --localness-hidden linear"
MIX = "--mma-heads forward:4,backward:4 --mma-encoder-layers 1-3"
THREE = "san san san"


def make(arch: str, flags: str = "") -> Any:
    """Return a model without weights."""
    with torch.device("meta"):
        return build(f"transformer_{arch}", flags.split())


def kinds(model: Any) -> dict[str, str]:
    """Return kind and segment size of the attention of each layer, by site, such as ``aw/5``."""

    def kind(attention: Any) -> str:
        size = getattr(attention, "segment_size", 1)
        return getattr(attention, "kind", "san") + (f"/{size}" if size > 1 else "")

    layers = {side: getattr(model, side).layers for side in ("encoder", "decoder") if hasattr(model, side)}
    found = {side: [layer.self_attn for layer in stack] for side, stack in layers.items()}
    if len(found) == 2:
        found["cross"] = [layer.encoder_attn for layer in layers["decoder"] if layer.encoder_attn is not None]
    return {site: " ".join(map(kind, attentions)) for site, attentions in found.items()}


# Architecture, flags, the sites with other attention than fairseq's.
PLACED = [
    ("csan", "", {"encoder": f"csan csan csan {THREE}"}),
    ("csan_tiny", "--csan-encoder-layers 2 --csan-decoder-layers 1,2", {"encoder": "san csan", "decoder": "csan csan"}),
    ("mma_iwslt_de_en", "", {"encoder": "mma mma mma mma mma mma"}),
    ("mma_wmt_en_de", MIX, {"encoder": f"mma mma mma {THREE}"}),  # CSAN's BI_DIRECT
    *(
        (name, "", {"encoder": f"aw aw aw {THREE}", "decoder": f"mw mw mw {THREE}", "cross": f"aw/5 aw/5 aw/5 {THREE}"})
        for name in ("diffwin", "diffwin_wmt_en_de", "diffwin_wmt_en_fr")
    ),
    (
        "diffwin_tiny",
        "--diffwin-encoder mw --diffwin-encoder-form segment --diffwin-segment-size 2 --diffwin-encoder-layers 2 "
        "--diffwin-decoder aw --diffwin-decoder-layers all --diffwin-cross mw --diffwin-cross-form token",
        {"encoder": "san mw/2", "decoder": "aw aw", "cross": "mw san"},
    ),
    (
        "diffwin_tiny",
        "--diffwin-decoder none --diffwin-cross none --no-cross-attention --cross-self-attention",
        {"encoder": "aw san"},
    ),
    ("diffwin_tiny", "--diffwin-encoder none --diffwin-decoder none --diffwin-cross none", {}),
    ("lm_diffwin", "", {"decoder": f"mw mw mw {THREE}"}),
    ("lm_diffwin_tiny", "--diffwin-decoder aw --diffwin-decoder-layers 2", {"decoder": "san aw"}),
    *((name, "", {"encoder": f"gauss gauss gauss {THREE}"}) for name in ("localness", "local_hard", "neighbor")),
    (
        "localness_tiny",
        "--localness-encoder-layers none --localness-decoder-layers 2 --localness-cross-layers 1",
        {"decoder": "san gauss", "cross": "gauss san"},
    ),
    ("localness_classifier", DIFFWIN, {"encoder": "gauss san"}),
    ("blocksan", "", {"encoder": "block block block block block block"}),
    ("blocksan_tiny", "--blocksan-encoder-layers 2", {"encoder": "san block"}),
    *(
        (f"{name}_tiny", f"--{name}-encoder-layers 2", {"encoder": f"san {name}", "decoder": f"{name} {name}"})
        for name in ("relpos", "rope", "alibi", "t5bias", "sinks")
    ),
]


@pytest.mark.parametrize(("arch", "flags", "placed"), PLACED)
def test_what_stands_where(arch: str, flags: str, placed: dict[str, str]) -> None:
    found = kinds(make(arch, flags))
    assert found == {site: placed.get(site, " ".join(["san"] * len(text.split()))) for site, text in found.items()}


GAUSS = {"cut": False, "source": "query", "hidden": "tanh", "__class__": GaussianAttention}
MMA = ("global", "local", "forward", "backward")
KEYS = "--localness-cross-layers 1 --localness-width keys --localness-cut --localness-product --localness-heads 3"
CUT = {"width": "keys", "cut": True, "local_heads": 3, "causal": False, "__class__": GaussianProductAttention}
T5 = {"buckets": 12, "max_distance": 30, "causal": True}
# Architecture, flags, attention, its attributes.
REACHED: list[tuple[str, str, str, dict[str, Any]]] = [
    ("csan", "", "encoder.0.self_attn", {"window": 11, "head_span": 3}),
    ("mma_iwslt_de_en", "", "encoder.0.self_attn", {"head_kinds": MMA}),
    ("mma_wat17", "", "encoder.5.self_attn", {"head_kinds": tuple(kind for kind in MMA for _ in range(2))}),
    ("mma_wmt_en_de", MIX, "encoder.2.self_attn", {"head_kinds": ("forward",) * 4 + ("backward",) * 4}),
    ("diffwin", "", "decoder.0.self_attn", {"renormalise": False}),
    ("diffwin_tiny", "--diffwin-encoder mw --diffwin-renormalise", "encoder.0.self_attn", {"renormalise": True}),
    ("localness", "", "encoder.0.self_attn", {**GAUSS, "center": "predicted", "width": "query", "local_heads": 8}),
    ("local_hard", "", "encoder.0.self_attn", {**GAUSS, "center": "predicted", "width": 10.0, "local_heads": 4}),
    ("neighbor", "", "encoder.0.self_attn", {**GAUSS, "center": "self", "width": "head", "local_heads": 8}),
    ("localness_tiny", KEYS, "decoder.0.encoder_attn", CUT),
    ("localness_tiny", DIFFWIN, "encoder.0.self_attn", {"source": "input", "hidden": "linear", "width": 5.0}),
    ("blocksan_tiny", "", "encoder.1.self_attn", {"block_length": 4}),
    ("blocksan_tiny", "--blocksan-length 0", "encoder.1.self_attn", {"block_length": 0}),
    (
        "relpos_tiny",
        "--relpos-distance 5 --relpos-heads own --relpos-no-values",
        "encoder.0.self_attn",
        {"max_distance": 5, "own_tables": True, "value_positions": None},
    ),
    ("rope_tiny", "--rope-base 500", "encoder.0.self_attn", {"base": 500}),
    ("t5bias_tiny", "--t5bias-buckets 12 --t5bias-distance 30", "decoder.0.self_attn", T5),
    ("sinks_tiny", "--sinks-window 6 --sinks-count 1", "decoder.0.self_attn", {"window": 6, "sinks": 1}),
]


@pytest.mark.parametrize(("arch", "flags", "path", "values"), REACHED)
def test_options_reach_the_attention(arch: str, flags: str, path: str, values: dict[str, Any]) -> None:
    side, layer, name = path.split(".")
    attention = make(arch, flags).get_submodule(f"{side}.layers.{layer}.{name}")
    assert {key: getattr(attention, key) for key in values} == values


@pytest.mark.parametrize(
    ("name", "there"),
    [("relpos", True), ("shaw", False), ("rope", False), ("alibi", False), ("t5bias", False), ("sinks", True)],
)
def test_absolute_positions(name: str, there: bool) -> None:
    model = make(f"{name}_tiny")
    assert all((stack.embed_positions is not None) == there for stack in (model.encoder, model.decoder))


def test_hard_windows_are_on_half_of_the_heads() -> None:
    for suffix in ("", "_tiny", "_small", "_medium", "_iwslt_de_en", "_wmt_en_de", "_wmt_en_de_big"):
        args = parse(f"transformer_local_hard{suffix}")
        assert args.localness_heads == args.encoder_attention_heads // 2 and args.localness_width == "10"


D = 512 * 512 + 512  # a matrix of DiffWin's with its bias
NONE = {site: f"--diffwin-{site} none" for site in ("encoder", "decoder", "cross")}
LOWER = "--relpos-decoder-layers none"
EVERYWHERE = "--localness-decoder-layers all --localness-cross-layers all"
# Parameters beside those of the plain model.
ADDED = [
    # The matrices of Eq. 7, 8 and 15: 4 for MW and 6 for AW in each of 3 layers.
    ("diffwin_wmt_en_de", NONE["cross"], 3 * (6 + 4) * D),
    ("diffwin_wmt_en_de", f"{NONE['encoder']} {NONE['decoder']}", 3 * 6 * D),
    ("diffwin_wmt_en_fr", "", 3 * (6 + 6 + 4) * D),
    ("lm_diffwin", "", 3 * 4 * D),
    ("lm_diffwin", "--diffwin-decoder aw", 3 * 6 * D),
    ("localness", "", 812_592),
    ("localness_wmt_en_de_big", "", 3_247_200),
    ("local_hard", "", 397_068),
    ("local_hard", "--localness-heads 0", 800_280),
    ("neighbor", "", 24),
    ("neighbor", "--localness-width query --localness-heads 4", 397_068),
    ("localness_wmt_en_de", DIFFWIN, 786_816 - 3 * 64),  # u_d, three times 64, has no gradient in DiffWin's code
    ("localness", EVERYWHERE, 812_592 * 5),
    ("localness_classifier", DIFFWIN, 128 * 128 + 32),  # Table 5 of DiffWin
    ("blocksan", "", 7_898_160),
    ("qanet", "", 3_207_168),
    ("qanet", "--qanet-form full --qanet-encoder-layers all", 44_077_056),
    ("relpos_wmt_en_de", "", 50_688),  # CSAN's row: +0.1M
    ("relpos_wmt_en_de", f"{LOWER} --relpos-encoder-layers 1-3 --relpos-heads own", 101_376),  # another reading of it
    ("relpos_wmt_en_de", LOWER, 25_344),  # DiffWin's translation
    ("relpos_wmt_en_de", f"{LOWER} --relpos-heads own", 202_752),
    ("relpos_wmt_en_de", f"{LOWER} --relpos-no-values", 25_344 // 2),
    ("lm_relpos", "", 12_672),  # DiffWin's language model
    ("relpos_classifier", "", 2 * 2 * 33 * 32),
    ("relpos_wmt_en_de_big", "--relpos-distance 8", 12 * 2 * 17 * 64),
    ("shaw_wmt_en_de_big", "", 12 * 2 * 17 * 64),
    ("shaw_iwslt_de_en", "", 12 * 4 * 2 * 33 * 128),
    # Tables of each head in 12 layers, and 1,024 channels instead of 2,048 in the feed-forward network.
    ("shaw_wmt_en_de", "", 12 * 33_792 - 12 * (2 * 512 * 1024 + 1024)),
    ("t5bias_wmt_en_de", "--t5bias-decoder-layers none --no-token-positional-embeddings", 1536),
    ("t5bias_wmt_en_de", "", 2 * 1536),
]
# Words in the joint dictionary; all parameters.
ALL = [
    ("diffwin_wmt_en_de", NONE["cross"], 32_768, 68_795_392),
    ("diffwin_wmt_en_de", f"{NONE['encoder']} {NONE['decoder']}", 32_768, 65_643_520),
    ("diffwin_wmt_en_de", "", 32_768, 73_523_200),
    ("diffwin_wmt_en_fr", "", 40_000, 77_225_984),
    ("lm_diffwin", "", 32_008, 38_455_296),
    ("lm_diffwin", "--diffwin-decoder aw", 32_008, 40_031_232),
    # As a comment, the specification's number in millions; Table 1 does not give the size of its dictionary.
    ("man_iwslt_de_en", "", 10152, 36_770_846),  # 36.77
    ("man_iwslt_de_en_full", "", 10152, 49_387_580),  # 49.4
    ("man_wmt_en_de", "", 37000, 63_133_804),  # 63
    ("man_wmt_en_de_big", "", 37000, 214_329_548),  # 215
    # Learned positions are parameters; the recipes cut sources at 512.
    ("man_summarization", "--max-source-positions 512 --max-target-positions 512", 30522, 123_536_028),  # 123.5
    ("localattn_summarization", "--max-source-positions 512 --max-target-positions 512", 30522, 123_471_360),
]


def count(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def count_plain(arch: str) -> int:
    with torch.device("meta"):
        return count(build(baseline_of(f"transformer_{arch}")))


@pytest.mark.parametrize(("arch", "flags", "added"), ADDED)
def test_added_parameters(arch: str, flags: str, added: int) -> None:
    assert count(make(arch, flags)) - count_plain(arch) == added


@pytest.mark.parametrize(("arch", "flags", "words", "parameters"), ALL)
def test_parameters(arch: str, flags: str, words: int, parameters: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters of named architectures; the page of DiffWin has its own in a table, beside the plain model's."""
    wide = Dictionary()
    for number in range(words - len(wide)):
        wide.add_symbol(f"w{number}")
    monkeypatch.setattr(models, "dictionary", lambda: wide)
    assert count(make(arch, flags)) == parameters
    if "diffwin" in arch:
        page = (ROOT / "docs" / "papers" / "diffwin.md").read_text("utf-8")
        assert f"{parameters:,}" in page and f"{count_plain(arch):,}" in page


@pytest.mark.parametrize(
    ("size", "pre_norm", "activation"),
    [
        ("iwslt_de_en", True, "relu"),
        ("iwslt_de_en_full", True, "none"),
        ("wmt_en_de_big", True, "relu"),
        ("summarization", False, "gelu"),
    ],
)
def test_norms_and_activations_of_the_architectures_of_man(size: str, pre_norm: bool, activation: str) -> None:
    args = parse(f"transformer_man_{size}")
    assert args.encoder_normalize_before == args.decoder_normalize_before == pre_norm
    assert args.man_head_activation == activation
