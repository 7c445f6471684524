"""Small tables, CSVs and pages under a root of their own, which the tests of recipes and of the report vary."""

from __future__ import annotations

from pathlib import Path

from experiments.report.results import COLUMNS
from support.recipes import write_table

FULL = """\
metric: tokenised_bleu
seeds: [1, 2]
data: {name: none, prepare: data-prep/prepare_toy.sh, source: de, target: en}
train: {max_update: 9, max_tokens: 100, lr: [0.1], dropout: 0.3}
generate: {beam: 4}
"""
SMALL = """\
description: captions, two cores
metric: sacrebleu
data: {name: captions, prepare: data-prep/prepare_toy.sh, source: de, target: en}
train: {max_update: 3, max_tokens: 10, lr: [0.2]}
generate: {beam: 2}
"""
TWO_ROWS = """\
# Table 1 of Fan et al. 2021: translation.
extends: base/full.yaml
small: base/small.yaml
baseline: transformer
rows:
  transformer: {label: Transformer, architecture: transformer_tiny, paper: {tokenised_bleu: 34.4}}
  man: {label: "DMAN | SAN", architecture: transformer_man_tiny, paper: {tokenised_bleu: 36.3}}
"""


def put(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def page(root: Path, *names: str) -> Path:
    """Write a page with empty tables."""
    blocks = (f"<!-- table {name} -->\n<!-- end of table {name} -->\n" for name in names)
    return put(root, "results/README.md", "# Results\n\n" + "between\n".join(blocks) + "\nthe end")


def table_file(root: Path, text: str = TWO_ROWS, name: str = "man/table1") -> Path:
    """Write a table, and the recipes that it extends."""
    paper = name.partition("/")[0]
    write_table(root, f"{paper}/base/full", FULL)
    write_table(root, f"{paper}/base/small", SMALL)
    return write_table(root, name, text)


def line(
    row: str, seed: int, metric: str, score: object, *, difference: str = "", p: str = "", **more: str
) -> dict[str, str]:
    """Return a line of a table's CSV: the full scale, an architecture a row, the settings aa, or as ``more`` says."""
    own = {"row": row, "seed": str(seed), "metric": metric, "score": str(score), "difference": difference, "p_value": p}
    same = {"scale": "full", "architecture": f"transformer_{row}", "settings": "aa", "parameters": "36770846"}
    return {**dict.fromkeys(COLUMNS, ""), **same, **own, **more}


def csv_of(root: Path, *lines: dict[str, str], table: str = "man/table1") -> Path:
    rows = [",".join(COLUMNS), *(",".join(each[name] for name in COLUMNS) for each in lines)]
    return put(root, f"results/{table}.csv", "\n".join(rows) + "\n")
