"""The table and the plot of locality."""

from __future__ import annotations

from typing import Any

import pytest

from fairseq_localattn.analysis.locality.report import Row, draw, table


def row(**changes: Any) -> Row:
    standard = dict(checkpoint="a.pt", architecture="x", split="test", stack="encoder", layer=1, sublayer="self_attn",
                    kind="san", window=1, share=50.0, sentences=1234, tokens=56789)  # fmt: skip
    return Row(**{**standard, **changes})


def test_table_with_holes_and_two_sublayers_of_a_kind() -> None:
    rows = [row(share=12.345), row(sublayer="dman", kind="dman", share=100.0, layer=3)]
    assert table([*rows, row(sublayer="dman2", kind="dman", share=7.0, layer=3)]) == (
        "a.pt (x), test: 1,234 sentences\n"
        "encoder, 56,789 tokens: % of attention within w\n"
        "               w      #1      #3\n"
        "SAN            1   12.35       -\n"
        "DMAN dman      1       -  100.00\n"
        "DMAN dman2     1       -    7.00\n"
    )


def test_lines_of_the_plot_are_the_rows() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    rows = [row(window=w, share=s, kind=k, sublayer=k) for k in ("dman", "san") for w, s in ((0, 10.0), (4, 60.0))]
    figure = draw([*rows, row(checkpoint="b.pt", stack="decoder", share=30.0)])
    panels = [{line.get_label(): line.get_xydata().tolist() for line in axes.lines} for axes in figure.axes]
    points = [[0, 10], [4, 60]]
    assert panels == [{"DMAN #1": points, "SAN #1": points}, {}, {}, {"SAN #1": [[1, 30]]}]
