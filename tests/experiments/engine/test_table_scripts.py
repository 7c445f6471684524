"""scripts/<paper>/<table>.sh: each shows its commands, and a table of each paper runs from raw text to its numbers."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.engine import rows
from experiments.engine.table import PAPERS
from experiments.measure import row_measures
from experiments.recipes.recipe import load_recipe
from support.paths import ROOT

SCRIPTS = sorted(path for paper in PAPERS for path in (ROOT / "scripts" / paper).glob("*.sh"))


def run(script: Path, *options: object) -> subprocess.CompletedProcess[str]:
    # The interpreter of these tests, wherever its environment is.
    environment = {**os.environ, "LOCALATTN_VENV": sys.prefix, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    words = [str(word) for word in (script, *options)]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=900)


def test_each_table_has_its_script() -> None:
    expected = {(paper, table) for paper in PAPERS for table in rows.tables(paper)}
    assert {(path.parent.name, path.stem) for path in SCRIPTS} == expected


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_dry_run_shows_the_commands_of_each_row(script: Path, tmp_path: Path) -> None:
    done = run(script, "--dry-run", "--gpus", "2", "--out", tmp_path / "out", "--results", tmp_path / "results")
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []
    blocks = dict(re.findall(r"^# (.+) \(seed 1\): .*\n((?:[^#].*\n)*)", done.stdout, re.MULTILINE))
    shown = {name: commands for names, commands in blocks.items() for name in names.split(", ")}
    found = rows.load_rows(script.parent.name, script.stem, None)
    baselines = {recipe.get("baseline") for recipe in found.values()}
    assert set(found) <= set(shown) <= set(found) | baselines
    for name, commands in shown.items():
        recipe = load_recipe(ROOT / "configs" / script.parent.name / f"{name}.yaml")
        lead, scratch = recipe.get("lead"), recipe.get("probing", {}).get("training") == "scratch"
        trains = not lead and not scratch
        assert commands.count("scripts/train_worker.py") == trains, name
        assert commands.count("scripts/average.py") == bool(trains and recipe.get("average")), name
        measures = len(recipe.get("data").get("tests", {"test": 0}))
        assert commands.count("\n") == (0 if lead else trains + bool(trains and recipe.get("average")) + measures), name
        assert lead or f"--arch {recipe.get('architecture')} " in commands
    scripts = {recipe.get("data")["prepare"] for recipe in found.values()}
    assert all(script in done.stdout for script in scripts)


SMOKE = [
    ("man", "table2", ["cnndm_man", "cnndm_lead3", "cnndm_transformer"]),
    ("man", "table5", ["man"]),
    ("diffwin", "table3", ["cross_segment"]),
    ("diffwin", "table5", ["sst_aw", "imdb_mw", "sva_aw"]),
    ("diffwin", "table6", ["mw"]),
    ("csan", "table2", ["base_zh_en_2d"]),
    ("mma", "table1", ["en_ja_mma"]),
    ("mgsa", "table4", ["base_zh_en_mgsa"]),
    ("mgsa", "table5", ["pretrained_syntactic", "scratch_ngram"]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("paper", "table", "chosen"), SMOKE, ids=lambda value: value if isinstance(value, str) else "")
def test_smoke(paper: str, table: str, chosen: list[str], tmp_path: Path) -> None:
    """From the raw format of the source to a line for each number that the paper has."""
    script = ROOT / "scripts" / paper / f"{table}.sh"
    done = run(script, "--smoke", "--rows", ",".join(chosen), "--out", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    with open(tmp_path / "results" / paper / f"{table}.csv", newline="") as stream:
        lines = list(csv.DictReader(stream))
    found = rows.load_rows(paper, table, chosen)
    for name, recipe in found.items():
        own = {line["metric"] for line in lines if line["row"] == name}
        wanted = set(recipe.get("paper", {})) - set(row_measures.OF_TRAINING)
        assert wanted and wanted <= own, (name, own)
    assert {line["row"] for line in lines} == set(found)
    assert all(0 <= float(line["score"]) for line in lines)
