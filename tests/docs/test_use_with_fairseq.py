"""The numbers and the lines of Python in docs/use-with-fairseq.md."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.recipes.recipe import load_recipe
from support.paths import ROOT

PAGE = (ROOT / "docs" / "use-with-fairseq.md").read_text("utf-8")
ROWS = re.findall(r"^\|([^|]+)\|([^|]+)\| ([\d.]+) \| (\d+) \| (\d+) \| ([\d.]+) \| (`configs/[^|]+) \|$", PAGE, re.M)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}{row[1]}".strip())
def test_learning_rates_are_those_of_the_recipes(row: tuple[str, ...]) -> None:
    papers = [re.sub("[^a-z]", "", name.lower()) for name in row[0].split(",")]
    for paper, path in zip(papers, row[6].replace("`", "").strip().split(", "), strict=True):
        assert path.startswith(f"configs/{paper}/")
        recipe = load_recipe(ROOT / path)
        values = {key: entry.value for key, entry in recipe.train.items()}
        tokens = recipe.gpus * values["max_tokens"] * values["update_freq"][0]
        wanted = [values["lr"][0], values["warmup_updates"], tokens, values["dropout"]]
        assert [float(number) for number in row[2:6]] == wanted
        assert values["optimizer"] == "adam" and values["lr_scheduler"] == "inverse_sqrt"


def test_every_paper_has_a_learning_rate() -> None:
    assert {name.strip() for row in ROWS for name in row[0].split(",")} == {"MMA", "CSAN", "MAN", "DiffWin", "MG-SA"}


def test_weights_are_read_without_fairseq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last lines of the page, with a file as fairseq-train writes it."""
    program = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)[-1]
    (tmp_path / "runs" / "shipped").mkdir(parents=True)
    state = {"model": {"weight": torch.ones(2)}, "cfg": {"model": argparse.Namespace(arch="transformer")}}
    torch.save(state, tmp_path / "runs" / "shipped" / "model.pt")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    allowed = torch.serialization.get_safe_globals()
    try:
        exec(program, names)
    finally:
        torch.serialization.add_safe_globals(allowed)  # torch forgets the class that the lines name
    assert torch.equal(names["weights"]["weight"], torch.ones(2))
