"""Small recipes, CSVs and pages under a root of their own, which the tests of the tables vary."""

from __future__ import annotations

from pathlib import Path

PLAIN = "transformer_localattn_small"
RECIPE = """\
description: Captions, two cores
architectures: [transformer_mma_small]
systems:
  narrow: {arch: transformer_mma_small, mma_window: 2}
train: {max_update: 3}
"""
PAPER = f"""\
label: Cui et al. 2019, IWSLT14
paper:
  {PLAIN}: {{score: 34.40}}
  transformer_mma_small: {{label: "MMA | all", score: 35.41}}
  narrow: {{label: w = 2}}
"""
BLEU = f"""\
system,baseline,seed,parameters,bleu,difference,p_value,settings
transformer_mma_small,{PLAIN},2,2450000,36.00,1.50,0.0001,aa
{PLAIN},{PLAIN},1,1914880,35.00,,,aa
{PLAIN},{PLAIN},2,1914880,34.50,,,aa
transformer_mma_small,{PLAIN},1,2450000,34.80,-0.20,0.2507,aa
"""
HEADER = "row,seed,metric,score,difference,p_value,parameters,steps_per_second,gpus,precision,settings,commit,hardware"


def put(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def comparison(root: Path, text: str = BLEU, recipe: str = RECIPE + PAPER) -> Path:
    """A comparison `own` under a root; its CSV."""
    put(root, "configs/compare/own.yaml", recipe)
    return put(root, "results/own.csv", text)


def page(root: Path, *names: str) -> Path:
    """A README with empty tables."""
    blocks = (f"<!-- table {name} -->\n<!-- end of table {name} -->\n" for name in names)
    return put(root, "results/README.md", "# Results\n\n" + "between\n".join(blocks) + "\nthe end")


def rows(root: Path, **recipes: str) -> None:
    """Rows of the paper man: name and recipe."""
    for name, text in recipes.items():
        put(root, f"configs/man/{name}.yaml", text + "\ntrain: {max_update: 3}\n")


def line(row: str, seed: int, metric: str, score: object, difference: str = "", p: str = "", *, settings="aa") -> str:
    """A line of a row's CSV."""
    run = "36770846,2.5,8,bf16"
    return f"{row},{seed},{metric},{score},{difference},{p},{run},{settings},a735e07abc..b12345678d,NVIDIA H100"


def csv_of(root: Path, *lines: str, table: str = "table1") -> Path:
    """The CSV of one of its tables."""
    return put(root, f"results/man/{table}.csv", "\n".join((HEADER, *lines)) + "\n")


def two_rows(root: Path) -> None:
    """Its Table 1: a Transformer and DMAN, which is tested against it."""
    rows(
        root,
        table1_man="label: DMAN\nbaseline: table1_transformer\nmetric: tokenised_bleu\npaper: {tokenised_bleu: 36.3}",
        table1_transformer="label: Transformer\nmetric: tokenised_bleu\npaper: {tokenised_bleu: 34.4}",
    )
