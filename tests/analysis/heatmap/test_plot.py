"""Plot, table and CSV file of the heat maps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_localattn.analysis.heatmap.plot import Panel, draw, table, write_csv


def panel(values: list[list[float]], **changes: Any) -> Panel:
    standard = dict(checkpoint="a.pt", site="cross", layer=1, sublayer="encoder_attn", kind="aw", head="mean",
                    what="mask", queries=("fr@@", "ères"), keys=("Bro@@", "$x$", "</s>"))  # fmt: skip
    return Panel(**{**standard, **changes}, values=torch.tensor(values))


PANELS = [
    panel([[0.25, 1.75, 0.0], [1.0, -1e-9, 0.5]]),
    panel([[0.2, 0.7, 0.1], [0.1, 0.3, 0.6]], checkpoint="b.pt", what="attention", kind="dman", sublayer="dman2"),
]


def test_table_and_csv(tmp_path: Path) -> None:
    """The table has the strongest key of each query, the CSV every value without clipping."""
    assert table(PANELS) == (
        "query  a.pt: soft mask (AW)  b.pt: attention (DMAN dman2)\n"
        "fr@@   $x$ 1.75              $x$ 0.70\n"
        "ères   Bro@@ 1.00            </s> 0.60"
    )
    write_csv(PANELS, tmp_path / "a.csv")
    lines = (tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "checkpoint,site,layer,sublayer,head,what,query,key,query_token,key_token,value"
    assert lines[2] == "a.pt,cross,1,encoder_attn,mean,mask,1,2,fr@@,$x$,1.750000"
    assert lines[5] == "a.pt,cross,1,encoder_attn,mean,mask,2,2,ères,$x$,0.000000"
    assert len(lines) == 1 + 2 * 6 and lines[-1] == "b.pt,cross,1,dman2,mean,attention,2,3,ères,</s>,0.600000"


def test_figure() -> None:
    """Panels side by side on one scale, with sub-words as labels (a $ is no formula) and a note of clipped values."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    figure = draw(PANELS, "a title")
    figure.canvas.draw()
    first, second, bar = figure.axes
    for axes, drawn in zip((first, second), PANELS, strict=True):
        (image,) = axes.images
        assert image.get_clim() == (0, 1) and image.cmap(1.0)[:3] < image.cmap(0.5)[:3] < image.cmap(0.0)[:3]
        assert torch.equal(torch.tensor(image.get_array().tolist()), drawn.values)
        assert [label.get_text() for label in axes.get_xticklabels()] == list(drawn.keys)
        assert not any(label.get_parse_math() for label in axes.get_xticklabels())
    assert [label.get_text() for label in first.get_yticklabels()] == list(PANELS[0].queries)
    assert first.get_position().x1 <= second.get_position().x0
    assert "values above 1 are drawn as 1" in bar.get_ylabel()
    assert draw(PANELS[1:], "one").axes[-1].get_ylabel() == "attention weight"
    long = tuple(f"w{n}" for n in range(400))
    huge = draw([panel(torch.rand(400, 400).tolist(), queries=long, keys=long)], "long")
    assert max(huge.get_size_inches()) < 25, "a picture of a long sentence can still be opened"
