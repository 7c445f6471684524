"""The rows of a paper's table: configs/<paper>/<table>_<row>.yaml, and the runs that measure them."""

from __future__ import annotations

import datetime
import functools
import hashlib
from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.engine.smoke import narrow_flags
from experiments.measure.row_measures import OF_TRAINING, Measurement, Probing, RowMeasure, row_measure
from experiments.recipes.recipe import ROOT, Recipe, RecipeError, load_recipe, nearest
from experiments.report.summary import PACKAGE, hardware, versions
from experiments.runs.checkout import commit
from experiments.runs.launch import Launch
from experiments.runs.machines import Leader
from experiments.runs.run import Prepared, Run, settings_hash
from experiments.runs.steps import TRAIN, Step

CONFIGS = ROOT / "configs"
KEY = ("row", "seed", "settings", "metric")
COLUMNS = (
    "row", "architecture", "baseline", "seed", "metric", "score", "difference", "p_value", "signature",
    "updates", "parameters", "averaged", "gpus", "batch_tokens", "precision",
    "words_per_second", "steps_per_second", "train_minutes", "settings", "scoring", "commit", "hardware",
    "torch", "fairseq", "package", "date",
)  # fmt: skip


def tables(paper: str) -> list[str]:
    """The tables and figures of a paper that have rows."""
    return sorted({path.stem.split("_", 1)[0] for path in (CONFIGS / paper).glob("*_*.yaml")})


def load_rows(paper: str, table: str, chosen: list[str] | None) -> dict[str, Recipe]:
    """Name → recipe of the rows of a table, or of the `chosen` ones; baselines first. Raises RecipeError.

    A name is that of the file, with or without the table's.
    """
    if table not in tables(paper):
        raise RecipeError(f"{paper} {table}: no such table; {paper} has {', '.join(tables(paper)) or 'none'}")
    paths = sorted((CONFIGS / paper).glob(f"{table}_*.yaml"))
    found = {path.stem: load_recipe(path) for path in paths}
    for name, recipe in found.items():
        check_row(name, recipe)
    ordered = dict(sorted(found.items(), key=lambda item: item[1].get("baseline") is not None))
    if chosen is None:
        return ordered
    full = [name if name in found else f"{table}_{name}" for name in chosen]
    for name, given in zip(full, chosen, strict=True):
        if name not in found:
            raise RecipeError(f"--rows {given}: {paper} {table} has {', '.join(found)}{nearest(name, found)}")
    return {name: recipe for name, recipe in ordered.items() if name in full}


def check_row(name: str, recipe: Recipe) -> None:
    """Raise RecipeError where a row lacks what every row has, or names a baseline that is not there."""
    needed = ("label", "metric", "data", *(() if recipe.get("lead") else ("architecture", "gpus")))
    for key in needed:
        if recipe.get(key) is None:
            raise RecipeError(f"{recipe.path}: a row of a table needs the key {key!r}")
    for key in ("name", "prepare"):
        if key not in recipe.get("data"):
            raise RecipeError(f"{recipe.path}: data needs the key {key!r}")
    tests = recipe.get("data").get("tests", {"test": "test"})
    if not isinstance(tests, dict) or not tests:
        raise RecipeError(f"{recipe.path}: tests must be a mapping, {{name: fairseq's subset}}, not {tests!r}")
    if not isinstance(recipe.flag("train", "max_update"), int):
        raise RecipeError(f"{recipe.path}: train needs max_update (beside max_epoch: for the time left)")
    baseline = recipe.get("baseline")
    if baseline is not None and not recipe.path.with_name(f"{baseline}.yaml").is_file():
        raise RecipeError(f"{recipe.path}: baseline {baseline}: there is no {baseline}.yaml beside it")
    row_measure(recipe)


@dataclass
class RowRun(Run):
    """The run of a row with one seed. `recipe` is what runs here; `stated` is the row's own, which names the settings.

    A row of probing from scratch has no training of its own, and one of leading sentences no step at all.
    """

    stated: Recipe | None = None
    narrow: bool = False  # of a smoke run
    trees: Path | None = None  # of probing
    leader: Leader | None = None  # of several machines
    rows: list[str] = field(default_factory=list)  # that this run measures

    @property
    def settings(self) -> str:
        return row_settings(self.stated or self.recipe, self.data)

    @functools.cached_property
    def row_measure(self) -> RowMeasure:
        return row_measure(self.recipe)

    @property
    def measure(self) -> RowMeasure:  # type: ignore[override]
        return self.row_measure

    def steps(self) -> list[Step]:
        if self.recipe.get("lead"):
            return []
        steps = super().steps()
        scratch = self.recipe.get("probing", {}).get("training") == "scratch"
        return [step for step in steps if step.name == Probing.step] if scratch else steps

    def _start(self) -> None:
        super()._start()
        if self._step == TRAIN and self.leader is not None:
            self.leader.announce(self.folder)

    def _trained(self) -> dict[str, Any]:
        return {**super()._trained(), "machine": machine(self.recipe, self.launch, self.threads)}

    def plan(self) -> str:
        if TRAIN in self.steps() or self.done():
            return super().plan()
        return f"{self.label}: no training before it is measured, in {self.folder}"

    def train_argv(self) -> list[str]:
        return super().train_argv() + (narrow_flags(self.arch) if self.narrow else [])

    def encoder_flags(self) -> list[str]:
        """The flags of the variant and dropout, as probing from scratch takes them."""
        variant = self.arch.removeprefix("transformer_").split("_")[0] + "_"
        flags = self.recipe.sections["train"].items()
        own = [(key, entry.value) for key, entry in flags if key.startswith(variant) or key == "dropout"]
        words = [(f"--{key.replace('_', '-')}", value) for key, value in own]
        found = [word for option, value in words for word in ([option] if value is True else [option, str(value)])]
        narrow = narrow_flags(self.arch, ("encoder",)) if self.narrow else []
        return found + narrow

    def measurements(self, baseline: Run | None, wanted: Container[str] = ()) -> list[Measurement]:
        """What the row's measure finds, and of the training what is `wanted`."""
        found = self.row_measure.measurements(self, baseline)
        facts = self.facts()
        for metric in OF_TRAINING:
            if metric in wanted and facts.get(metric) is not None:
                found.append(Measurement(metric, float(facts[metric])))
        return found


def row_settings(stated: Recipe, data: Prepared) -> str:
    """settings_hash() of a row: how many sentences are decoded at once changes nothing."""
    aside = dict.fromkeys(("max_tokens", "batch_size", "num_workers"))
    for section in ("generate", "eval_lm"):
        if section in stated.sections:
            stated = stated.with_flags(section, aside, "")
    return settings_hash(stated, data.fingerprint_for(stated))


def machine(recipe: Recipe, launch: Launch, threads: int) -> dict[str, Any]:
    """Where a training runs, and with what: columns of its lines. `recipe`: as it runs there."""
    found = versions()
    batch = {"batch_tokens": ""}
    if not recipe.get("lead"):
        size = recipe.flag("train", "max_tokens") or recipe.flag("train", "batch_size")
        batch = {"batch_tokens": launch.world * size * recipe.flag("train", "update_freq")[0]}
    return {
        "gpus": 0 if launch.cpu else launch.world,
        **batch,
        "precision": launch.precision,
        "hardware": hardware("cpu" if launch.cpu else "gpu", threads),
        "torch": found["torch"],
        "fairseq": found["fairseq"],
        "package": found[PACKAGE],
    }


def scoring_of(recipe: Recipe, baseline: RowRun | None) -> str:
    """Eight hex digits that change with how a row is scored, and against what: it is scored again then, not trained."""
    spec = recipe.get("data")
    facts = [recipe.get("architecture"), recipe.get("baseline"), baseline and baseline.folder.name]
    facts += [type(row_measure(recipe)).__name__, sorted(set(recipe.get("paper", {})) & set(OF_TRAINING))]
    facts += [spec.get(key) for key in ("source", "target", "lowercase", "bpe", "tests")]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:8]


def lines_of(row: str, recipe: Recipe, run: RowRun, scoring: str, baseline: RowRun | None) -> list[dict[str, str]]:
    """The lines of the results file for a finished run: one a metric. Raises ScoreError."""
    trained: dict[str, Any] = run.facts()
    same: dict[str, Any] = {
        "row": row,
        "architecture": recipe.get("architecture", ""),
        "baseline": recipe.get("baseline") or "",
        "seed": run.seed,
        **{key: trained.get(key) for key in ("updates", "parameters", "words_per_second", "steps_per_second")},
        "train_minutes": trained.get("train_minutes"),
        "averaged": " ".join(f"{which} {count}" for which, count in (recipe.get("average") or {}).items()),
        # Of the training; what is only measured has this machine.
        **(trained.get("machine") or machine(run.recipe, run.launch, run.threads)),
        "settings": run.settings,
        "scoring": scoring,
        "commit": run.commit() or commit(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    lines = []
    for m in run.measurements(baseline, recipe.get("paper", {})):
        own = {"metric": m.metric, "score": _number(m.score), "signature": m.signature}
        own |= {"difference": _number(m.difference), "p_value": _number(m.p_value, 4)}
        lines.append({name: _text({**same, **own}.get(name)) for name in COLUMNS})
    return lines


def _number(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _text(value: Any) -> str:
    return "" if value is None else str(value)
