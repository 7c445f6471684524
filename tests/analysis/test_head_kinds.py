"""Figure 3 of Cui et al. 2019: weights by layer and kind of head."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch

from fairseq_localattn.analysis.attention_weights import collect_weights, self_attentions
from fairseq_localattn.analysis.head_kinds import draw, kinds_of_heads, main, panels_of
from fairseq_localattn.analysis.head_names import phrase_names
from fairseq_localattn.analysis.heatmap.pairs import Pair
from support.analysis import as_trained
from support.cli import call, fairseq, train_flags
from support.models import build, sentences

pytestmark = pytest.mark.filterwarnings("ignore:'pin_memory' argument:UserWarning")  # fairseq's loader, without a GPU
KINDS = ("global", "local", "forward", "backward")


def kinds(arch: str, *flags: str) -> list[tuple[str, ...]]:
    model = build(arch, list(flags))
    attentions = self_attentions(model, ["encoder"]).values()
    return [tuple(kinds_of_heads(module, phrase_names(model))) for module in attentions]


def test_kinds_of_heads() -> None:
    """MMA's heads have their own kinds, groups those of their mechanisms; several windows are told apart."""
    assert kinds("transformer_mma_tiny") == [KINDS, KINDS]
    assert kinds("transformer_mma_tiny", "--mma-heads", "global:1,local:3") == [("global", *["local"] * 3)] * 2
    assert ("words", "2-grams", "3-grams", "4-grams") in kinds("transformer_mgsa_ngram_tiny")
    assert ("words", "tree, level 1", "tree, level 2", "tree, level 3") in kinds("transformer_mgsa_tiny")
    assert kinds("transformer_localattn_tiny") == [("global",) * 4] * 2
    text = "1-2: 1*(local(window=2) & alibi) + 2*backward + 1*san > ffn"
    found = kinds("transformer_hybrid_tiny", "--localattn-encoder", text)
    assert found == [("local & alibi", "backward", "backward", "global")] * 2
    found = kinds("transformer_hybrid_tiny", "--localattn-encoder", "1-2: 2*local(window=1) + 2*local(window=5)")
    assert found == [("local(window=1)", "local(window=1)", "local(window=5)", "local(window=5)")] * 2
    assert kinds("transformer_local_hard_tiny")[0] == ("global", "global", "gauss", "gauss")


def test_panels_are_the_means_of_the_heads() -> None:
    trained = as_trained(build("transformer_mma_tiny", ["--mma-heads", "global:1,local:2,backward:1"]).eval())
    pair = Pair(*sentences([9, 6]))
    panels = panels_of(trained, pair, "encoder", "it")
    assert [(panel.layer, panel.head) for panel in panels] == [
        (layer, kind) for layer in (1, 2) for kind in ("global", "local", "backward")
    ]
    attentions = self_attentions(trained.model, ["encoder"])
    with collect_weights(attentions, by_head=True) as weights, torch.no_grad():
        trained.model(pair.source[None], torch.tensor([len(pair.source)]), pair.read[None])
    for layer, (_, heads) in enumerate(weights.items()):
        expected = [heads[0, 0], heads[0, 1:3].mean(0), heads[0, 3]]
        for panel, values in zip(panels[3 * layer : 3 * layer + 3], expected, strict=True):
            torch.testing.assert_close(panel.values, values, rtol=0, atol=1e-6)
    (first, second) = panels_of(as_trained(build("transformer_mma_tiny").eval()), pair, "decoder", "it")
    assert first.head == second.head == "global" and first.values.triu(1).max() == 0


def test_the_picture_has_layers_by_kinds() -> None:
    """A kind that a layer lacks leaves its place empty; a row has its layer's name, a column its kind's."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    model = build("transformer_mma_tiny", ["--mma-encoder-layers", "1", "--mma-heads", "local,forward"]).eval()
    panels = panels_of(as_trained(model), Pair(*sentences([5, 4])), "encoder", "it")
    figure = draw(panels, "title")
    axes = figure.axes[:-1]  # the last is the colour bar
    assert [each.get_title() for each in axes[:3]] == ["local", "forward", "global"]
    assert [each.get_ylabel() for each in axes[::3]] == ["layer 1", "layer 2"]
    assert [len(each.images) for each in axes] == [1, 1, 0, 0, 0, 1]
    drawn = [each.images[0].get_array() for each in axes if each.images]
    assert all((a == p.values.numpy()).all() for a, p in zip(drawn, panels, strict=True))
    words = [label.get_text() for label in axes[3].get_yticklabels()]
    assert words == list(panels[0].queries) and [t.get_text() for t in axes[3].get_xticklabels()] == words


@pytest.mark.slow
def test_the_command(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    fairseq("train", *train_flags(data, "transformer_mma_tiny", tmp_path, updates=1, disable_validation=True))
    file, picture = tmp_path / "new" / "weights.csv", tmp_path / "new" / "weights.png"
    flags = ("--name", "MMA", "--sentence", 4, "--cpu", "--plot", picture, "--csv", file)
    told = call(main, data, "--path", tmp_path / "checkpoint_last.pt", *flags).stdout
    words = [*(data.parent / "test.xx").read_text().splitlines()[4].split(), "</s>"]
    rows = list(csv.DictReader(file.read_text("utf-8").splitlines()))
    assert len(rows) == 2 * 4 * len(words) ** 2
    assert [row["key_token"] for row in rows[: len(words)]] == words
    assert list(dict.fromkeys(row["head"] for row in rows)) == list(KINDS)
    assert told.startswith("test, sentence 4: the strongest key of each query") and "encoder layer 2\n" in told
    assert all(f"{kind} heads: attention (MMA)" in told for kind in KINDS)
    assert picture.read_bytes().startswith(b"\x89PNG")
