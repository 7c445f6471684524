"""Runs whose steps are one-line Python programs: what is tested is what goes on around them."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from experiments.data.prepared import Prepared
from experiments.recipes.recipe import Recipe
from experiments.runs.checkpoints import LAST
from experiments.runs.launch import Launch
from experiments.runs.run import Run
from support.paths import ROOT, SCRIPTS


class FakeRun(Run):
    """A run that trains and measures by ``train_code`` and ``measure_code``, where {folder} is its folder."""

    train_code = "print('trained')"
    measure_code = "open('{folder}/generating/generate-test.txt', 'w')"

    @property
    def folder(self) -> Path:
        return self.out / self.arch

    @property
    def settings(self) -> str:
        return "aaaaaaaa"

    def train_argv(self) -> list[str]:
        return self._program(self.train_code)

    def measure_argv(self, subset: str = "test") -> list[str]:
        return self._program(self.measure_code)

    def _program(self, code: str) -> list[str]:
        return [sys.executable, "-S", "-c", code.replace("{folder}", str(self.folder))]


def fake_run(recipe: Recipe, folder: Path, name: str) -> FakeRun:
    """Return a run of seed 1 in ``folder / name``, of a recipe that need not state its metric."""
    recipe = replace(recipe, architecture=name, metric=recipe.metric or "sacrebleu")
    data = Prepared(folder / "data", "de", "en")
    return FakeRun(recipe, seed=1, data=data, stated=recipe, out=folder, launch=Launch(cpu=True))


def save_checkpoint(folder: Path, updates: int, **more: Any) -> Path:
    """Write a checkpoint_last.pt with what the runs read of fairseq's."""
    path = folder / LAST
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"optimizer_history": [{"num_updates": updates}], **more}, path)
    return path


def torchrun(folder: Path, cli_main: str) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment of two processes of a training whose fairseq-train is this function."""
    module = folder / "fairseq_cli"
    module.mkdir()
    (module / "__init__.py").touch()
    (module / "train.py").write_text(cli_main)
    paths = os.pathsep.join(map(str, (folder, SCRIPTS, ROOT)))
    return Launch(gpus=2).command(folder / "errors"), {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
