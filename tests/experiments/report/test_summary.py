"""The summary of the quick start: its examples, and speeds that are not known."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from experiments.measure.scoring import Measurement
from experiments.recipes.recipe import Recipe
from experiments.report import summary
from experiments.runs.checkpoints import training_facts
from experiments.system.processes import write_stamp
from support.engine.outputs import write_lines, write_output
from support.engine.runs import fake_run, save_checkpoint


def test_a_training_shorter_than_a_log_interval(loaded: Recipe, tmp_path: Path) -> None:
    """No speed is known: '-' for reading."""
    run = fake_run(loaded, tmp_path, "a")
    save_checkpoint(run.folder, 3, model={"encoder.version": torch.ones(1), "embed_tokens.weight": torch.ones(2, 617)})
    write_stamp(run.folder / "trained.json", training_facts(run.folder))
    row = summary._row(run, Measurement("sacrebleu", 30.0, "nrefs:1"))
    assert (row["updates"], row["words_per_second"], row["train_minutes"]) == (3, None, None)
    facts = {
        "systems": [row], "examples": [], "baseline": "a", "test": "", "sentences": 3,
        "hardware": "", "versions": {}, "commit": "", "difference": 1.5,
    }  # fmt: skip
    text = summary.as_markdown("t", facts)
    assert "| a | 30.00 | 3 | 1,234 | - | - |" in text and "\ngain: +1.50 BLEU\n" in text


@pytest.mark.parametrize(("size", "expected"), [(5, [0, 1, 2, 3, 4]), (100, [10, 30, 50, 70, 90])])
def test_examples_are_spread_and_come_once(size: int, expected: list[int], loaded: Recipe, tmp_path: Path) -> None:
    run = fake_run(loaded, tmp_path, "a")
    for folder in (run.data.folder / "raw", run.folder):
        folder.mkdir(parents=True)
    for language, letter in (("de", "s"), ("en", "r")):
        write_lines(run.data.folder / "raw" / f"test.{language}", [f"{letter}{n}" for n in range(size)])
    write_output(run.output, [f"h{n}" for n in range(size)])
    assert summary.examples([run]) == [{"source": f"s{n}", "reference": f"r{n}", "a": f"h{n}"} for n in expected]
