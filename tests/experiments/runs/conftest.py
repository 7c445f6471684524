"""Fixtures of the tests of runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.recipes.recipe import Recipe, load_recipe
from experiments.runs import schedule
from support.recipes import BASE, write


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a schedule look at its runs every 20 ms."""
    monkeypatch.setattr(schedule, "POLL_SECONDS", 0.02)


@pytest.fixture
def loaded(tmp_path: Path) -> Recipe:
    """Return a recipe of few lines."""
    return load_recipe(write(tmp_path, BASE))
