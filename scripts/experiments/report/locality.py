"""Tables of the locality of trained models: results/locality/<name>.csv."""

from __future__ import annotations

from pathlib import Path

from experiments.measure.csv_files import read_lines
from experiments.measure.generated import ScoreError
from experiments.report.text import markdown

WINDOW = "2"  # of the locality that is shown: w, in positions; the CSV has others
STACK = "encoder"


def locality_table(root: Path, name: str) -> str:
    """Return the percentage of attention within WINDOW positions in the encoder, sublayers of checkpoints by layers."""
    path = root / "results" / "locality" / f"{name}.csv"
    needed = ("checkpoint", "stack", "layer", "sublayer", "kind", "window", "share")
    lines = read_lines(path, needed, needed[:-1])
    lines = [line for line in lines if line["stack"] == STACK and line["window"] == WINDOW]
    if not lines:
        raise ScoreError(f"{path}: has no rows of the {STACK} with the window {WINDOW}")
    layers = list(dict.fromkeys(line["layer"] for line in lines))
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
