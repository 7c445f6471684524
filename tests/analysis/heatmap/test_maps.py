"""Which attentions are drawn, and their maps for a sentence pair."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fairseq_localattn.analysis.attention_weights import Sublayer
from fairseq_localattn.analysis.heatmap.maps import common_layer, common_site, read_panels, select, site_attentions
from fairseq_localattn.analysis.heatmap.pairs import Pair, tokens_of
from fairseq_localattn.errors import UsageError
from support.analysis import as_trained
from support.models import build, case, phrases_of, sentences


@pytest.mark.parametrize("arch", [f"transformer_{name}_tiny" for name in ("localattn", "diffwin", "mgsa")])
@pytest.mark.parametrize("site", ["encoder", "decoder", "cross"])
def test_models_have_maps(arch: str, site: str) -> None:
    """T×S; rows sum to 1 unless a window multiplies the attention; head 4 differs from the mean."""
    trained = as_trained(build(arch).eval())
    pair = Pair(*sentences([9, 6]))
    if arch == "transformer_mgsa_tiny":
        pair = replace(pair, phrases=phrases_of(pair.source[None]))
    layer = 2 if arch == "transformer_localattn_tiny" else 1
    found = select(trained.model, site, layer, "mean", name="it")
    panels = list(read_panels(trained, pair, found, site, head="mean", name="it"))
    fourth = list(read_panels(trained, pair, found, site, head="4", name="it"))
    masks = 1 if arch == "transformer_diffwin_tiny" else 0
    assert [panel.what for panel in panels] == ["mask"] * masks + ["attention"] * len(found)
    for panel, other in zip(panels, fourth, strict=True):
        assert (panel.queries, panel.keys) == tokens_of(trained, pair, site)
        assert panel.values.shape == other.values.shape == (len(panel.queries), len(panel.keys))
        assert not torch.allclose(panel.values, other.values, atol=1e-4)
        assert (panel.site, panel.layer, panel.head, other.head) == (site, layer, "mean", "4")
        if panel.what == "attention" and panel.kind != "mw":
            torch.testing.assert_close(panel.values.sum(1), torch.ones(len(panel.queries)), rtol=0, atol=1e-5)
        if site == "decoder":
            assert panel.values.triu(1).abs().max() < 1e-6, "a key after the query"


def test_the_layer_that_is_taken() -> None:
    """The highest with windows in all models that have some; else the highest of all."""
    plain, first, both = build("transformer_localattn_tiny"), case("diffwin-segments"), case("diffwin-all-layers")
    upper = build("transformer_diffwin_tiny", ["--diffwin-cross-layers", "2"])
    assert common_layer([plain], "cross") == common_layer([both, plain], "cross") == 2
    assert common_layer([plain, first, both], "cross") == 1
    assert common_layer([first], "encoder") == 1
    composed = build("transformer_hybrid_tiny", ["--localattn-encoder", "1: 2*aw + 2*san; 2: global"])
    assert common_layer([composed], "encoder") == 1
    with pytest.raises(UsageError, match="--site cross: no layer will do for all checkpoints"):
        common_layer([first, upper], "cross")
    assert list(site_attentions(upper, "cross")) == [
        Sublayer("decoder", 1, "encoder_attn", "san"),
        Sublayer("decoder", 2, "encoder_attn", "aw"),
    ]


def test_the_site_that_is_taken() -> None:
    """Where a mechanism is: windows first, and the attention to the encoder before the others."""
    plain, mma = build("transformer_localattn_tiny"), build("transformer_mma_tiny", ["--mma-encoder-layers", "1"])
    assert common_site([plain]) == "cross" and common_site([plain, mma]) == "encoder"
    assert common_layer([plain, mma], "encoder") == 1
    assert common_site([build("transformer_hybrid_tiny", ["--localattn-decoder", "2: local"])]) == "decoder"
    assert common_site([build("transformer_diffwin_tiny")]) == "cross"
    windows = ["--localattn-encoder", "1: aw", "--localattn-decoder", "local"]
    assert common_site([build("transformer_hybrid_tiny", windows)]) == "encoder"


def test_where_there_is_nothing_to_draw() -> None:
    upper = build("transformer_diffwin_tiny", ["--diffwin-cross-layers", "2", "--diffwin-decoder", "none"])
    there = "--site encoder --layer 1; --site cross --layer 2"
    for site in ("cross", "decoder"):
        with pytest.raises(UsageError, match=f"^--site {site} --layer 1: it has no window there, but at {there}$"):
            select(upper, site, 1, "mean", name="it")
    assert len(select(upper, "cross", 2, "4", name="it")) == 1
    none = build("transformer_localattn_tiny", ["--no-cross-attention", "--cross-self-attention"])
    with pytest.raises(UsageError, match="--site cross: it has no attention to the encoder in layer 1"):
        select(none, "cross", 1, "mean", name="it")
    with pytest.raises(UsageError, match="no layer will do"):
        common_layer([none], "cross")
