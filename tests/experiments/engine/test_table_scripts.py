"""Every table: its script, its commands at each scale, and tables of each paper from raw text to their numbers."""

from __future__ import annotations

import csv
import os
import re
import subprocess
from pathlib import Path

import pytest

from corpora.mini.corpus import known_corpora
from experiments.engine import table
from experiments.measure.metrics import OF_TRAINING
from experiments.recipes.catalogue import FIGURES
from experiments.recipes.recipe import Recipe
from experiments.recipes.scales import recipe_at
from experiments.recipes.tables import SCALES, find_table, papers, tables_of
from support.paths import ROOT

PAPERS = ("csan", "diffwin", "man", "mgsa", "mma")
SCRIPTS = sorted(path for paper in PAPERS for path in (ROOT / "scripts" / paper).glob("*"))
# Each recipe is checked by fairseq's parsers; at the scale smoke, whose flags are those of the full scale, one a paper.
TABLES = [
    pytest.param(paper, name, scale, marks=[] if scale == "small" and paper in ("csan", "mma") else [pytest.mark.slow])
    for paper in papers()
    for name in tables_of(paper)
    for scale in SCALES
    if find_table(paper, name).rows(scale) and (scale != "smoke" or name in ("table1", "mechanisms"))
]


def test_each_table_of_a_paper_has_its_script() -> None:
    """It is a door: it starts table.py or figure.py on its table, with what it is given, and holds nothing else."""
    doors = {(paper, name): "table" for paper in PAPERS for name in tables_of(paper)}
    doors |= {(figure.paper, figure.name): "figure" for figure in FIGURES}
    assert {(path.parent.name, path.stem) for path in SCRIPTS} == doors.keys()
    for path in SCRIPTS:
        shebang, comment, *lines = path.read_text("utf-8").splitlines()
        words = f'{doors[path.parent.name, path.stem]} {path.parent.name} {path.stem} "$@"'
        assert lines == [f'. "$(dirname "${{BASH_SOURCE[0]}}")/../lib.sh" && start {words}'], path
        assert shebang == "#!/usr/bin/env bash" and comment.startswith("# ") and os.access(path, os.X_OK), path


def test_a_script_hands_on_its_words(tmp_path: Path) -> None:
    """From any folder; without an environment it says how to make one."""

    def start(*options: str) -> subprocess.CompletedProcess[str]:
        command, variables = [f"{ROOT}/scripts/man/table1.sh", *options], {"LOCALATTN_VENV": str(tmp_path)}
        return subprocess.run(command, env=os.environ | variables, cwd=tmp_path, capture_output=True, text=True)

    failed = start()
    assert (failed.returncode, failed.stdout, failed.stderr.count("\n")) == (2, "", 1)
    assert "table1: error: " in failed.stderr and "scripts/setup.sh" in failed.stderr
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)
    done = start("--smoke", "--rows", "a b")
    words = [str(ROOT.resolve() / "scripts/table.py"), "man", "table1", "--smoke", "--rows", "a b"]
    assert (done.returncode, done.stderr, done.stdout.splitlines()) == (0, "", words)


@pytest.mark.parametrize(("paper", "name", "scale"), TABLES)
def test_dry_run_shows_the_commands_of_each_row(
    paper: str, name: str, scale: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(table, "visible_gpus", lambda: ([], []))
    for variable in [name for name in os.environ if name.endswith("_DIR")]:
        monkeypatch.delenv(variable)
    where = ["--out", str(tmp_path / "out"), "--results", str(tmp_path / "results"), "--scale", scale, "--dry-run"]
    found = find_table(paper, name)
    rows: dict[str, Recipe] = {row: recipe_at(found, row, scale) for row in found.rows(scale)}
    options = ["--gpus", "2"] if scale == "full" else []
    if scale != "smoke":
        given = [recipe.corpus for recipe in rows.values() if "{local}" in " ".join(recipe.corpus.options)]
        options += [word for corpus in given for word in ("--local", f"{corpus.name}={tmp_path}")]
    assert table.main([paper, name, *where, *options]) == 0
    text = capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    baselines = [of for of in map(found.baseline, rows) if of is not None and of[0] is not found]
    others = {of[1]: recipe_at(*of, scale) for of in baselines}
    blocks = dict(re.findall(r"^# (.+) \(seed 1\): .*\n((?:[^#].*\n)*)", text, re.MULTILINE))
    shown = {row: commands for names, commands in blocks.items() for row in names.split(", ")}
    assert set(rows) <= set(shown) <= set(rows) | set(others)
    trainer = "scripts/train_worker.py" if scale == "full" else "fairseq_cli.train"
    for row, commands in shown.items():
        recipe = rows.get(row) or others[row]
        trains = not recipe.lead and recipe.probing != "scratch"
        averages = bool(trains and recipe.average)
        assert commands.count(trainer) == trains, row
        assert commands.count("scripts/average.py") == averages, row
        assert commands.count("\n") == (0 if recipe.lead else trains + averages + len(recipe.corpus.tests)), row
        assert recipe.lead or f"--arch {recipe.architecture} " in commands, row
        assert not recipe.lead or f"# {row} (seed 1): nothing to train; scored from the articles as soon as" in text
    assert all(recipe.corpus.prepare in text for recipe in rows.values())
    if scale == "smoke":
        corpora = {recipe.corpus.name for recipe in rows.values()}
        assert corpora <= known_corpora().keys()
        assert all(f"mini_corpus.py {each} {tmp_path}/out/mini/" in text for each in corpora)
    assert f"# scored into {tmp_path}/results/{paper}/{name}.csv" in text


# Each kind of corpus and of measure once, and a table of each paper.
SMOKE = [
    ("man", "table2", ["cnndm_man", "cnndm_lead3"]),
    ("diffwin", "table5", ["sst_aw"]),
    ("diffwin", "table6", ["mw"]),
    ("mma", "table1", ["en_ja_mma"]),
    ("mgsa", "table4", ["base_zh_en_mgsa"]),
    ("mgsa", "table5", ["scratch_ngram"]),
]


@pytest.mark.slow
@pytest.mark.usefixtures("warm_children")
@pytest.mark.parametrize(("paper", "name", "chosen"), SMOKE, ids=lambda value: value if isinstance(value, str) else "")
def test_smoke(
    paper: str,
    name: str,
    chosen: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From the raw format of the source to a line for each number that the paper has."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    status = table.main([paper, name, "--scale", "smoke", "--rows", ",".join(chosen), "--out", str(tmp_path)])
    assert status == 0, capsys.readouterr()
    with open(tmp_path / "results" / paper / f"{name}.csv", newline="") as stream:
        lines = list(csv.DictReader(stream))
    for row in chosen:
        own = {line["metric"] for line in lines if line["row"] == row}
        wanted = set(find_table(paper, name).recipe(row, "full").paper) - set(OF_TRAINING)
        assert wanted and wanted <= own, (row, own)
    assert {line["row"] for line in lines} == set(chosen) and {line["scale"] for line in lines} == {"smoke"}
    assert all(0 <= float(line["score"]) for line in lines)
