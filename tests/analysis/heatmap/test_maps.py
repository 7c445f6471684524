"""Which attentions are drawn, and their maps for a sentence pair."""

from __future__ import annotations

import pytest
import torch

from fairseq_localattn.analysis.attention_weights import Sublayer, masked_parts
from fairseq_localattn.analysis.heatmap.maps import common_layer, common_site, read_panels, select, site_attentions
from fairseq_localattn.analysis.heatmap.pairs import Pair
from fairseq_localattn.errors import UsageError
from fairseq_localattn.mechanisms.windowed import WindowAttention
from support.analysis import as_trained
from support.models import build, case, dictionary, phrases_of, sentences


@pytest.mark.parametrize("arch", [f"transformer_{name}_tiny" for name in ("localattn", "diffwin", "mgsa")])
@pytest.mark.parametrize("site", ["encoder", "decoder", "cross"])
def test_models_have_maps(arch: str, site: str) -> None:
    """T×S; rows sum to 1 unless a window multiplies the attention; head 4 differs from the mean."""
    trained = as_trained(build(arch).eval())
    pair = Pair(*sentences([9, 6]))
    if getattr(trained.model.encoder, "needs_phrases", False):
        pair = Pair(pair.source, pair.target, phrases_of(pair.source[None]))
    layer = 2 if arch == "transformer_localattn_tiny" else 1
    found = select(trained.model, site, layer, "mean", name="it")
    panels = list(read_panels(trained, pair, found, site, head="mean", name="it"))
    fourth = list(read_panels(trained, pair, found, site, head="4", name="it"))
    source, target = (tuple(dictionary()[n] for n in side.tolist()) for side in (pair.source, pair.target))
    queries, keys = {"encoder": (source, source), "decoder": (target, (target[-1], *target[:-1]))}.get(
        site, (target, source)
    )
    masked = [list(masked_parts(module)) for module in found.values()]
    drawn = [panel.what for panel in panels]
    assert (drawn.count("attention"), drawn.count("mask")) == (len(found), sum(map(bool, masked)))
    windows = any(isinstance(part, WindowAttention) for parts in masked for _, part in parts)
    assert windows == arch.startswith("transformer_diffwin")
    for panel, other in zip(panels, fourth, strict=True):
        assert (panel.queries, panel.keys) == (queries, keys)
        assert panel.values.shape == other.values.shape == (len(queries), len(keys))
        assert not torch.allclose(panel.values, other.values, atol=1e-4)
        assert (panel.site, panel.layer, panel.head, other.head) == (site, layer, "mean", "4")
        if panel.what == "attention" and panel.kind != "mw":
            torch.testing.assert_close(panel.values.sum(1), torch.ones(len(queries)), rtol=0, atol=1e-5)
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
    """Other mistakes: those of the command."""
    upper = build("transformer_diffwin_tiny", ["--diffwin-cross-layers", "2", "--diffwin-decoder", "none"])
    for site, layer, head, message in (
        ("cross", 1, "mean", "--site cross --layer 1: it has no window there, but at --site encoder --layer 1; "
                             "--site cross --layer 2"),
        ("decoder", 1, "mean", "--site decoder --layer 1: it has no window there"),
    ):  # fmt: skip
        with pytest.raises(UsageError) as error:
            select(upper, site, layer, head, name="it")
        assert str(error.value).startswith(message) and "\n" not in str(error.value)
    assert len(select(upper, "cross", 2, "4", name="it")) == 1
    none = build("transformer_localattn_tiny", ["--no-cross-attention", "--cross-self-attention"])
    with pytest.raises(UsageError, match="--site cross: it has no attention to the encoder in layer 1"):
        select(none, "cross", 1, "mean", name="it")
    with pytest.raises(UsageError, match="no layer will do"):
        common_layer([none], "cross")
