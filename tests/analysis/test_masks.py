"""The drawn masks against the papers' definitions, and the command that draws them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from fairseq_localattn.analysis import masks


@pytest.fixture(scope="module")
def panels() -> dict[str, dict[str, Tensor]]:
    groups = masks.all_panels(masks.make_example())
    return {name.partition(":")[0]: {panel.title: panel.values for panel in group} for name, group in groups.items()}


def test_hard_windows_are_those_of_the_papers(panels):
    assert {name: len(group) for name, group in panels.items()} == dict.fromkeys(
        ("MMA", "CSAN", "MAN", "DiffWin", "MG-SA"), 4
    )
    words = torch.arange(10)
    apart = words[None, :] - words[:, None]  # key - query
    wanted = {
        "MMA": {"global": apart < 10, "local": apart.abs() <= 1, "forward": apart >= 0, "backward": apart <= 0},
        "CSAN": dict.fromkeys(("1D: own head h", "2D: head h-1", "2D: head h", "2D: head h+1"), apart.abs() <= 2),
        "MAN": {"static, b = 2": apart.abs() <= 2, "static, b = √L/2": apart.abs() <= math.sqrt(10) / 2},
    }
    for paper, windows in wanted.items():
        for title, seen in windows.items():
            assert torch.equal(panels[paper][title], seen.float()), title


def test_words_of_a_phrase_are_seen_alike(panels):
    """Weights of phrases, and soft masks of segments, are equal within each of them."""
    phrases = {
        ("MG-SA", "2-grams"): [2, 2, 2, 2, 2],
        ("MG-SA", "tree, level 1"): [3, 7],
        ("MG-SA", "tree, level 2"): [1, 1, 1, 1, 2, 4],
        ("DiffWin", "segments of 3, head 1"): [3, 3, 3, 1],
        ("DiffWin", "segments of 3, head 2"): [3, 3, 3, 1],
    }
    for (mechanism, title), lengths in phrases.items():
        parts = panels[mechanism][title].split(lengths, dim=1)
        for part in parts:
            torch.testing.assert_close(part, part[:, :1].expand_as(part))
        for left, right in zip(parts, parts[1:], strict=False):
            assert not torch.allclose(left[:, 0], right[:, 0]), title


def test_soft_masks_are_soft_and_differ_between_heads(panels):
    for mechanism, kind in (("MAN", "dynamic"), ("DiffWin", "tokens")):
        first, second = (panels[mechanism][f"{kind}, head {head}"] for head in (1, 2))
        assert ((first > 0.01) & (first < 0.99)).any()
        assert not torch.equal(first, second)


@pytest.mark.slow
def test_command_writes_the_picture_of_another_sentence(tmp_path: Path):
    out = tmp_path / "new" / "masks.png"
    masks.main(["--out", str(out), "--tree", "(S (NP (NN $x_1$)) (VP (VBZ sleeps)) (. .))"])
    assert out.read_bytes().startswith(b"\x89PNG")
