"""transformer_diffwin, its language model and its classifier: windows by site, parameters, invalid options."""

from __future__ import annotations

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_localattn.errors import UsageError
from fairseq_localattn.models.architectures import baseline_of
from support import models
from support.models import build, build_lm, parse
from support.paths import ROOT

TINY = "transformer_diffwin_tiny"


def windows(layers: torch.nn.ModuleList, name: str = "self_attn") -> list[str]:
    """Return kind and segment size of each layer's attention: ``aw``, ``aw/5``, ``san``."""
    found = []
    for layer in layers:
        attention = getattr(layer, name)
        size = getattr(attention, "segment_size", 1)
        found.append(attention.kind + (f"/{size}" if size > 1 else ""))
    return found


@pytest.mark.parametrize(
    "arch", ["transformer_diffwin", "transformer_diffwin_wmt_en_de", "transformer_diffwin_wmt_en_fr"]
)
def test_the_papers_best_model_is_the_default(arch: str) -> None:
    """Enc(AW)-Cr(AW,Seg)-Dec(MW) in the first 3 of 6 layers, b = 5."""
    with torch.device("meta"):
        model = build(arch)
    assert windows(model.encoder.layers) == ["aw"] * 3 + ["san"] * 3
    assert windows(model.decoder.layers) == ["mw"] * 3 + ["san"] * 3
    assert windows(model.decoder.layers, "encoder_attn") == ["aw/5"] * 3 + ["san"] * 3
    assert not model.decoder.layers[0].self_attn.renormalise


def test_options_by_site() -> None:
    flags = ["--diffwin-encoder", "mw", "--diffwin-encoder-form", "segment", "--diffwin-segment-size", "2"]
    flags += ["--diffwin-encoder-layers", "2", "--diffwin-decoder", "aw", "--diffwin-decoder-layers", "all"]
    flags += ["--diffwin-cross", "mw", "--diffwin-cross-form", "token", "--diffwin-renormalise"]
    model = build(TINY, flags)
    assert windows(model.encoder.layers) == ["san", "mw/2"]
    assert windows(model.decoder.layers) == ["aw", "aw"]
    assert windows(model.decoder.layers, "encoder_attn") == ["mw", "san"]
    assert model.encoder.layers[1].self_attn.renormalise
    nothing = build(TINY, ["--diffwin-encoder", "none", "--diffwin-decoder", "none", "--diffwin-cross", "none"])
    assert set(nothing.state_dict()) == set(build(baseline_of(TINY)).state_dict())


def test_the_papers_best_language_model_is_the_default() -> None:
    with torch.device("meta"):
        assert windows(build_lm("transformer_lm_diffwin").decoder.layers) == ["mw"] * 3 + ["san"] * 3
    model = build_lm("transformer_lm_diffwin_tiny", ["--diffwin-decoder", "aw", "--diffwin-decoder-layers", "2"])
    assert windows(model.decoder.layers) == ["san", "aw"]


def test_layers_of_sites_without_windows_are_not_checked() -> None:
    """The default of three layers is ignored at a site without windows, even in a stack of two."""
    none = ["--diffwin-decoder", "none", "--diffwin-cross", "none"]
    model = build(
        "transformer_diffwin", [*none, "--decoder-layers", "2", "--encoder-embed-dim", "64"], decoder_embed_dim=64
    )
    assert windows(model.decoder.layers) == windows(model.decoder.layers, "encoder_attn") == ["san", "san"]
    model = build(TINY, [*none, "--no-cross-attention", "--cross-self-attention"])
    assert windows(model.encoder.layers) == ["aw", "san"]


# Rows of the table of parameters in docs/papers/diffwin.md: matrices of Eq. 7, 8 and 15 beside the plain model, 4 for
# MW and 6 for AW in each of 3 layers; each is d×d, and has a bias of d. Words of the dictionary; parameters.
D = 512
NONE = {site: [f"--diffwin-{site}", "none"] for site in ("encoder", "decoder", "cross")}
ROWS = [
    ("transformer_diffwin_wmt_en_de", NONE["cross"], 3 * (6 + 4), 32_768, 68_795_392),
    ("transformer_diffwin_wmt_en_de", NONE["encoder"] + NONE["decoder"], 3 * 6, 32_768, 65_643_520),
    ("transformer_diffwin_wmt_en_de", [], 3 * (6 + 6 + 4), 32_768, 73_523_200),
    ("transformer_diffwin_wmt_en_fr", [], 3 * (6 + 6 + 4), 40_000, 77_225_984),
    ("transformer_lm_diffwin", [], 3 * 4, 32_008, 38_455_296),
    ("transformer_lm_diffwin", ["--diffwin-decoder", "aw"], 3 * 6, 32_008, 40_031_232),
]


def count(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(("arch", "flags", "matrices", "words", "parameters"), ROWS)
def test_parameters_are_those_of_the_equations_and_of_the_papers_page(
    arch: str, flags: list[str], matrices: int, words: int, parameters: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = Dictionary()
    for number in range(words - len(wide)):
        wide.add_symbol(f"w{number}")
    monkeypatch.setattr(models, "dictionary", lambda: wide)
    make = build_lm if "_lm_" in arch else build
    with torch.device("meta"):
        model, plain = make(arch, flags), make(baseline_of(arch))
    assert count(model) == parameters
    assert count(model) - count(plain) == matrices * (D * D + D)
    readme = (ROOT / "docs" / "papers" / "diffwin.md").read_text("utf-8")
    assert f"{parameters:,}" in readme and f"{count(plain):,}" in readme


@pytest.mark.parametrize(
    ("arch", "flags", "message"),
    [
        (TINY, ["--diffwin-segment-size", "0"], "--diffwin-segment-size 0: give 1 or more tokens"),
        (TINY, ["--diffwin-segment-size", "-2"], "--diffwin-segment-size -2: give 1 or more tokens"),
        (
            TINY,
            ["--diffwin-encoder-layers", "1-3"],
            "--diffwin-encoder-layers is 1-3: layer 3 is asked for, and the stack has 2",
        ),
        (
            TINY,
            ["--diffwin-decoder-layers", "4"],
            "--diffwin-decoder-layers is 4: layer 4 is asked for, and the stack has 2",
        ),
        (TINY, ["--diffwin-cross-layers", "0"], "--diffwin-cross-layers 0: give all, none, or layers from 1"),
        (
            TINY,
            ["--diffwin-decoder-form", "segment"],
            "--diffwin-decoder-form segment: a decoder cannot point to a segment",
        ),
        ("transformer_lm_diffwin_tiny", ["--diffwin-decoder-form", "segment"], "a decoder cannot point to a segment"),
        ("transformer_lm_diffwin_tiny", ["--diffwin-decoder-layers", "3"], "layer 3 is asked for, and the stack has 2"),
        ("transformer_diffwin_classifier_tiny", ["--diffwin-encoder-layers", "3"], "the stack has 2"),
        ("transformer_diffwin_classifier_tiny", ["--diffwin-segment-size", "0"], "give 1 or more tokens"),
        (
            TINY,
            ["--diffwin-decoder", "aw", "--diffwin-renormalise"],
            "--diffwin-renormalise changes nothing: no layer has mw",
        ),
        (
            TINY,
            ["--diffwin-cross", "none", "--diffwin-segment-size", "3"],
            "--diffwin-segment-size 3 changes nothing: no layer",
        ),
        (
            TINY,
            ["--diffwin-encoder", "none", "--diffwin-encoder-form", "segment"],
            "--diffwin-encoder-form segment changes nothing: no layer there has windows",
        ),
        (
            TINY,
            ["--no-cross-attention"],
            "--diffwin-cross aw changes nothing: --no-cross-attention takes that attention out",
        ),
        (TINY, ["--encoder-attention-heads", "5"], "5 attention heads do not divide an embedding of 64 channels"),
    ],
)
def test_mistakes_are_one_clear_line(arch: str, flags: list[str], message: str) -> None:
    """The error is raised while fairseq parses the command line, before it starts processes."""
    with pytest.raises(UsageError) as error:
        parse(arch, flags)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(("flag", "value"), [("--diffwin-encoder", "max"), ("--diffwin-cross-form", "phrase")])
def test_unknown_windows_and_forms_are_refused(flag: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"{flag} {value}: there is no such value; choose from "):
        parse(TINY, [flag, value])
