"""The drawn masks against the papers' definitions, and the command that draws them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from fairseq_localattn.analysis import masks
from fairseq_localattn.errors import UsageError

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def example() -> masks.Example:
    return masks.make_example()


@pytest.fixture(scope="module")
def panels(example: masks.Example) -> dict[str, dict[str, Tensor]]:
    groups = masks.all_panels(example)
    return {name.partition(":")[0]: {panel.title: panel.values for panel in group} for name, group in groups.items()}


def distances(length: int) -> Tensor:
    """j - i for query i and key j."""
    return torch.arange(length)[None, :] - torch.arange(length)[:, None]


def test_hard_windows_are_those_of_the_papers(example, panels):
    assert {name: len(group) for name, group in panels.items()} == dict.fromkeys(
        ("MMA", "CSAN", "MAN", "DiffWin", "MG-SA"), 4
    )
    apart = distances(len(example.words))
    mma, csan, man = panels["MMA"], panels["CSAN"], panels["MAN"]
    wanted = {
        "global": (mma, torch.ones_like(apart)),
        "local": (mma, apart.abs() <= 1),
        "forward": (mma, apart >= 0),
        "backward": (mma, apart <= 0),
        "1D: own head h": (csan, apart.abs() <= 2),
        "2D: head h-1": (csan, apart.abs() <= 2),
        "2D: head h": (csan, apart.abs() <= 2),
        "2D: head h+1": (csan, apart.abs() <= 2),
        "static, b = 2": (man, apart.abs() <= 2),
        "static, b = √L/2": (man, apart.abs() <= math.sqrt(len(example.words)) / 2),
    }
    for title, (group, values) in wanted.items():
        assert torch.equal(group[title], values.float()), title


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
    for mechanism, titles in {"MAN": ("dynamic, head 1", "dynamic, head 2"),
                              "DiffWin": ("tokens, head 1", "tokens, head 2")}.items():  # fmt: skip
        first, second = (panels[mechanism][title] for title in titles)
        assert ((first > 0.01) & (first < 0.99)).any()
        assert not torch.equal(first, second)


@pytest.mark.slow
def test_command_writes_the_picture_of_another_sentence(tmp_path: Path):
    out = tmp_path / "new" / "masks.png"
    masks.main(["--out", str(out), "--tree", "(S (NP (NN $x_1$)) (VP (VBZ sleeps)) (. .))"])
    assert out.read_bytes().startswith(b"\x89PNG")
    assert (REPO / "docs" / "images" / "masks.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--out", "."], "cannot be written"),
        (["--out", "x.png", "--tree", "(S"], "--tree: unbalanced brackets"),
        (["--out", "x.png", "--tree", "(S " + "(NN a)" * 31 + ")"], "has 31 words; give one of at most 30"),
    ],
)
def test_mistakes_end_in_one_line(flags, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(masks, "draw", None)  # mistakes are found before anything is drawn
    with pytest.raises(UsageError, match=message) as error:
        masks.main(flags)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())
