"""Tables of the analyses of trained models: results/probing/<name>.csv and results/locality/<name>.csv."""

from __future__ import annotations

from pathlib import Path

from experiments.report.csv_lines import Line, TableError, distinct, markdown, mean_and_sd, read_lines

WINDOW = "2"  # of the locality that is shown: w, in positions; the CSV has others
STACK = "encoder"
TASKS = {"tss": "TSS", "spc": "SPC", "pos": "POS"}


def probing_table(root: Path, name: str) -> str:
    """Return accuracies in percent, encoders by tasks, and those of the most frequent class."""
    path = root / "results" / "probing" / f"{name}.csv"
    lines = read_lines(path, ("name", "task", "seed", "accuracy", "majority"), ("name", "task", "seed"))
    tasks = distinct(lines, "task")
    if not tasks:
        raise TableError(f"{path}: has no rows")
    rows = []
    for encoder in distinct(lines, "name"):
        values = [[line.number("accuracy") for line in lines if _is(line, encoder, task)] for task in tasks]
        rows.append([f"`{encoder}`", *(mean_and_sd(of) if of else "" for of in values)])
    majority = {line["task"]: f"{line.number('majority'):.2f}" for line in lines}
    rows.append(["most frequent class", *(majority[task] for task in tasks)])
    return markdown(["encoder", *(TASKS.get(task, task) for task in tasks)], rows)


def _is(line: Line, encoder: str, task: str) -> bool:
    return line["name"] == encoder and line["task"] == task


def locality_table(root: Path, name: str) -> str:
    """Return the percentage of attention within WINDOW positions in the encoder, sublayers of checkpoints by layers."""
    path = root / "results" / "locality" / f"{name}.csv"
    needed = ("checkpoint", "stack", "layer", "sublayer", "kind", "window", "share")
    lines = read_lines(path, needed, needed[:-1])
    lines = [line for line in lines if line["stack"] == STACK and line["window"] == WINDOW]
    if not lines:
        raise TableError(f"{path}: has no rows of the {STACK} with the window {WINDOW}")
    layers = distinct(lines, "layer")
    of: dict[tuple[str, ...], dict[str, str]] = {}
    for line in lines:
        key = (line["checkpoint"], line["kind"], line["sublayer"])
        of.setdefault(key, {})[line["layer"]] = f"{line.number('share'):.1f}"
    # Two seeds of a sublayer stand together.
    ordered = sorted(of, key=lambda key: (key[0].partition(".seed")[0], *key[1:], key[0]))
    rows = [
        [f"`{checkpoint}`", kind.upper(), *(of[checkpoint, kind, sublayer].get(layer, "") for layer in layers)]
        for checkpoint, kind, sublayer in ordered
    ]
    return markdown(["checkpoint", "sublayer", *(f"layer {layer}" for layer in layers)], rows)
