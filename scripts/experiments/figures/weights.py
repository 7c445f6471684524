"""Pictures of attention weights and soft masks: a command of fairseq_localattn.analysis on finished trainings."""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path

from experiments.engine.plan import Plan, Row
from experiments.measure import generated
from experiments.measure.csv_files import csv_text, read_lines
from experiments.recipes.catalogue import Figure
from experiments.recipes.nodes import RecipeError
from experiments.recipes.scales import recipe_at
from experiments.recipes.tables import find_table
from experiments.runs.run import Run
from fairseq_localattn.files import write_whole

SUBSET = "test"
LENGTHS = range(8, 13)  # in words: short enough to be read in a picture
COLUMNS = ("scale", "row", "architecture", "seed", "commit", "data", "split", "sentence")


def rows_of(figure: Figure, scale: str) -> list[Row]:
    """Return the rows whose models are drawn. Raises RecipeError for a scale that one does not have."""
    found = []
    for key in figure.rows:
        name, _, row = key.partition("/")
        table = find_table(figure.paper, name)
        found.append(Row(table, row, recipe_at(table, row, scale)))
    return found


def runs_of(plan: Plan) -> list[Run]:
    """Return for each row its finished training with the first seed. Raises RecipeError for one that is not there."""
    found = []
    for row in plan.rows:
        run = next(run for run in plan.runs if row.key in run.rows)
        if not run.model.is_file() or run.other_data():
            script = f"scripts/{row.table.paper}/{row.table.name}.sh --scale {plan.choice.scale} --rows {row.name}"
            raise RecipeError(f"{run.model}: no such checkpoint; train it with {script}, or name its folder by --out")
        found.append(run)
    return found


def choose_sentence(run: Run) -> int:
    """Return the number of the first sentence of the test set with a length in LENGTHS. Raises RecipeError."""
    tokens = run.data.folder / "tok" / f"{SUBSET}.{run.data.source}"
    for number, line in enumerate(generated.read_lines(tokens)):
        if len(line.split()) in LENGTHS:
            return number
    raise RecipeError(f"{tokens}: no sentence of {LENGTHS[0]} to {LENGTHS[-1]} words: choose one by --sentence")


def draw(figure: Figure, plan: Plan, sentence: int | None, picture: Path) -> Path:
    """Draw the weights of the rows' models for one sentence; return the path of their numbers, beside the picture.

    Raises RecipeError for what the user can mend.
    """
    runs = runs_of(plan)
    if len({run.data.bin for run in runs}) > 1:
        raise RecipeError(f"{figure.paper} {figure.name}: its rows do not read the same data")
    number = choose_sentence(runs[0]) if sentence is None else sentence
    labels = [row.stated.label.rpartition(": ")[2].removeprefix("+ ") for row in plan.rows]
    names = [f"{label}, seed {run.seed}" for label, run in zip(labels, runs, strict=True)]
    module = importlib.import_module(f"fairseq_localattn.analysis.{figure.command}")
    with tempfile.TemporaryDirectory() as folder:
        numbers = Path(folder) / "weights.csv"
        argv = [str(runs[0].data.bin), "--sentence", str(number), "--gen-subset", SUBSET, *figure.options]
        for run, name in zip(runs, names, strict=True):
            argv += ["--path", str(run.model), "--name", name]
        argv += ["--plot", str(picture), "--csv", str(numbers), *(["--cpu"] if runs[0].on_cpu else [])]
        module.main(argv)
        lines = read_lines(numbers, ("checkpoint",))
    facts = {}
    for name, row, run in zip(names, plan.rows, runs, strict=True):
        of_run = (run.arch, str(run.seed), run.commit(), row.stated.description)
        facts[name] = [plan.choice.scale, row.key, *of_run, SUBSET, str(number)]
    beside = picture.with_suffix(".csv")
    rows = [[*facts[line["checkpoint"]], *line.values.values()] for line in lines]
    write_whole(beside, csv_text([*COLUMNS, *lines[0].values], rows))
    return beside
