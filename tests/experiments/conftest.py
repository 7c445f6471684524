"""A small recipe; and the bench of the engine's and the figures' tests, a small paper on the toy corpus."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from experiments.measure import measures
from experiments.recipes.recipe import Recipe
from support.corpora import prep
from support.recipes import BASE, load
from support.tables.bench import TOY, Bench


@pytest.fixture(scope="session")
def toy_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the bench's corpus, for trainings that are real."""
    folder = tmp_path_factory.mktemp("toy") / "toy"
    done = prep.prepare("toy", folder, *TOY)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def loaded(tmp_path: Path) -> Recipe:
    """Return a recipe of few lines."""
    return load(tmp_path, BASE)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


@pytest.fixture
def fake_trainings(bench: Bench) -> None:
    """Train and decode without fairseq, on a few lines in place of the corpus."""
    bench.fake()
    bench.data()


@pytest.fixture
def warm_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the commands of runs and preparations in processes that are forked from one that has imported fairseq."""
    monkeypatch.setattr(sys, "executable", prep.warm_python())
    monkeypatch.setattr(measures, "PYTHON", (sys.executable, "-m"))
