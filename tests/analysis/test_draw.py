"""The drawn masks of texts against their definitions, and the command that draws them."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fairseq_localattn.__main__ import main
from fairseq_localattn.analysis import masks
from fairseq_localattn.analysis.draw import draw, panels_of

LENGTH = 9
APART = torch.arange(LENGTH)[None, :] - torch.arange(LENGTH)[:, None]  # key - query


def masks_of(text: str, site: str = "encoder") -> list[list[Tensor]]:
    groups = panels_of(text, length=LENGTH, heads=4, site=site)
    return [[panel.values for panel in panels] for panels in groups.values()]


def test_a_decoder_sees_no_future() -> None:
    ((sinks, *_),) = masks_of("sinks(window=3, sinks=1)", "decoder")
    torch.testing.assert_close(sinks, ((APART <= 0) & ((APART > -3) | (torch.arange(LENGTH) == 0))).float())


def test_a_bias_falls_with_the_distance() -> None:
    """ALiBi with four heads: e^(-m·|i-j|), m = 1/4 … 1/256, within the window that shares the heads."""
    (heads,) = masks_of("local(window=4) & alibi")
    for number, got in enumerate(heads, start=1):
        wanted = torch.exp(-(2.0 ** (-2 * number)) * APART.abs()) * (APART.abs() <= 4)
        torch.testing.assert_close(got, wanted)


def test_each_attention_is_drawn_once_and_the_same_each_time() -> None:
    text = "1-2: dman > san; 3: dman > san"
    first, again = masks_of(text), masks_of(text)
    assert len(first) == 2 and not torch.equal(first[0][0], first[0][1])
    for group, same in zip(first, again, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(group, same, strict=True))


def test_command_writes_a_picture(tmp_path: Path) -> None:
    out = tmp_path / "new" / "masks.png"
    main(["draw", "2*local + 6*global > gauss(width=2)", "--out", str(out), "--length", "5"])
    assert out.read_bytes().startswith(b"\x89PNG")


def overlapping(texts: list[Any]) -> list[tuple[str, str]]:
    """Return the pairs of drawn texts of which one covers a part of the other."""
    boxes = {text.get_text(): text.get_window_extent() for text in texts}
    return [(a, b) for a, b in combinations(boxes, 2) if boxes[a].overlaps(boxes[b])]


def test_titles_are_apart() -> None:
    """A title of several lines is neither under another one nor beyond its panel, and no mechanism is broken."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    text = "1*local(window=2) + 1*sinks(window=4, sinks=1) + 2*(local(window=5) & alibi & gauss(width=2)) > dman"
    figure = draw(panels_of(text, length=5, heads=4, site="encoder"), "encoder")
    figure.canvas.draw()
    parts = figure.subfigs
    titles = [each for part in parts for each in (part._suptitle, *(axes.title for axes in part.axes))]
    assert len(titles) == 10 and overlapping(titles) == []
    assert "sinks(window=4, sinks=1)" in titles[2].get_text()
    example = masks.make_example(masks.TREE)
    figure = masks.draw(masks.all_panels(example), example.words)
    figure.canvas.draw()
    titles = [axes.title for part in figure.subfigs for axes in part.axes]
    assert len(titles) == 20 and overlapping(titles) == []
