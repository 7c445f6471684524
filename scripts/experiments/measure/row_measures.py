"""How the rows of the papers' tables are measured: by the key `metric` of a row, where its task alone does not say it.

A measure gives a list of Measurements: one number each, by the metric's name, with the difference to the baseline and
its significance where there is a test for it.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.measure import scoring
from experiments.measure.command import ScoreError
from experiments.measure.measures import Classification, LanguageModelling, PhraseTranslation, Translation, measure_of
from experiments.measure.scoring import Measurement
from experiments.recipes.recipe import ROOT, Recipe, RecipeError

if TYPE_CHECKING:
    from experiments.runs.run import Run

PROBE = ROOT / "scripts" / "probe.py"
ROUGE = ("rouge1", "rouge2", "rougeL", "rouge_avg")
BLEU = ("tokenised_bleu", "compound_bleu", "sacrebleu", "multi_bleu", "bleu_by_length")


class RowTranslation(Translation):
    """BLEU in all ways that apply to the test sets; their mean where there are several."""

    by_length = False
    compares = True  # against a baseline

    def measurements(self, run: Run, baseline: Run | None) -> list[Measurement]:
        """BLEU of each test set. Raises ScoreError."""
        tests = run.test_sets()
        found: list[Measurement] = []
        for name, subset in tests.items():
            against = baseline and self._output(baseline, subset)
            test = run.data.test_set(subset)
            of_set = scoring.translation(self._output(run, subset), test, against, by_length=self.by_length)
            found += of_set if len(tests) == 1 else [replace(m, metric=f"{name}/{m.metric}") for m in of_set]
        return found if len(tests) == 1 else found + _means(found)

    def _output(self, run: Run, subset: str) -> Path:
        return run.folder / f"generate-{subset}.txt"


class RowPhraseTranslation(RowTranslation, PhraseTranslation):
    """The same with phrases of the source."""


class ByLength(RowTranslation):
    """BLEU by the length of the source."""

    by_length = True


def _means(found: list[Measurement]) -> list[Measurement]:
    """average/METRIC: the mean over the test sets, as papers report it; without a test."""
    by_metric: dict[str, list[Measurement]] = {}
    for measurement in found:
        by_metric.setdefault(measurement.metric.split("/", 1)[1], []).append(measurement)
    means = []
    for metric, of_sets in by_metric.items():
        differences = [m.difference for m in of_sets if m.difference is not None]
        difference = sum(differences) / len(differences) if len(differences) == len(of_sets) else None
        mean = sum(m.score for m in of_sets) / len(of_sets)
        means.append(Measurement(f"average/{metric}", mean, of_sets[0].signature, difference))
    return means


class Summarization(Translation):
    """ROUGE of fairseq-generate's output."""

    compares = True

    def measurements(self, run: Run, baseline: Run | None) -> list[Measurement]:
        """ROUGE-1, -2, -L and their mean. Raises ScoreError."""
        reference = run.data.folder / "tok" / f"test.{run.data.target}"
        return scoring.summarization(run.output, reference, run.data.bpe, baseline and baseline.output)


class Lead(Summarization):
    """ROUGE of the first three sentences of the articles: no model, no training."""

    compares = False

    def measurements(self, run: Run, baseline: Run | None) -> list[Measurement]:
        article = run.data.folder / "raw" / f"test.{run.data.source}.sentences"
        return scoring.lead3(article, run.data.folder / "tok" / f"test.{run.data.target}")


class RowClassification(Classification):
    """Accuracy, with McNemar's test."""

    compares = True

    def measurements(self, run: Run, baseline: Run | None) -> list[Measurement]:
        return [_of_columns(self.score(run, baseline), "accuracy")]


class RowLanguageModelling(LanguageModelling):
    """Perplexity; there is no test of a difference."""

    compares = True

    def measurements(self, run: Run, baseline: Run | None) -> list[Measurement]:
        return [_of_columns(self.score(run, baseline), "perplexity")]


def _of_columns(row: dict[str, str], metric: str) -> Measurement:
    difference, p_value = row.get("difference"), row.get("p_value")
    return Measurement(
        metric,
        float(row[metric]),
        difference=float(difference) if difference else None,
        p_value=float(p_value) if p_value else None,
    )


class Locality(Translation):
    """How much attention lies within w positions of the query (analysis/locality.py)."""

    step, stamp = "locate", "located"
    compares = False
    windows = (1, 2, 4)

    def argv(self, run: Run, folder: Path, subset: str = "test") -> list[str]:
        cpu = ["--cpu"] if run.launch.cpu else []
        windows = ",".join(map(str, self.windows))
        return [
            "-m", "fairseq_localattn.analysis.locality", str(run.data.bin), "--path", str(run.model),
            "--gen-subset", subset, "--windows", windows, "--csv", str(folder / "locality.csv"), *cpu,
        ]  # fmt: skip

    def collect(self, folder: Path, log: Path, subset: str = "test") -> Path:
        return folder / "locality.csv"

    def measurements(self, run: Run, baseline: Run | None) -> list[Measurement]:
        """wW_layerN: percent of the attention within W positions in layer N, of mask attention where there is some."""
        rows = _read_csv(run.folder / "locality.csv")
        kind = "dman" if any(row["kind"] == "dman" for row in rows) else "san"
        rows = [row for row in rows if row["kind"] == kind]
        return [Measurement(f"w{row['window']}_layer{row['layer']}", float(row["share"])) for row in rows]


class Probing(Translation):
    """What the encoder knows: accuracies of classifiers on its states (analysis/probing.py)."""

    step, stamp = "probe", "probed"
    compares = False

    def argv(self, run: Run, folder: Path, subset: str = "test") -> list[str]:
        spec = run.recipe.get("probing", {})
        if spec.get("training") not in ("pre-trained", "scratch"):
            raise RecipeError(f"{run.recipe.path}: probing needs {{training: pre-trained}} or {{training: scratch}}")
        words = [str(PROBE), "--data", str(run.data.folder), "--lang", run.data.source]
        words += ["--out", str(folder), "--work", str(run.folder / "probing"), "--seed", str(run.seed)]
        if spec["training"] == "scratch":
            words += ["--arch", run.arch, *(f"--flag={word}" for word in run.encoder_flags())]
        else:
            words += ["--encoder", str(run.model)]
        words += ["--trees", str(run.trees)] if run.trees else []
        words += ["--epochs", "1"] if run.narrow else []
        return [*words, *(["--cpu"] if run.launch.cpu else [])]

    def collect(self, folder: Path, log: Path, subset: str = "test") -> Path:
        return folder / "probing.csv"

    def measurements(self, run: Run, baseline: Run | None) -> list[Measurement]:
        """The accuracy of each task in percent, by its name, and probing_avg, their mean."""
        found = [Measurement(row["task"], float(row["accuracy"])) for row in _read_csv(run.folder / "probing.csv")]
        return [*found, Measurement("probing_avg", statistics.mean(m.score for m in found))]


def _read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a file. Raises ScoreError where there is none."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    except OSError as error:
        raise ScoreError(f"{path}: cannot be read: {error.strerror}") from None
    if not rows:
        raise ScoreError(f"{path}: has no rows")
    return rows


RowMeasure = RowTranslation | Summarization | RowClassification | RowLanguageModelling | Locality | Probing
BY_TASK: dict[str, Callable[[], RowMeasure]] = {
    "translation": RowTranslation,
    "translation_with_phrases": RowPhraseTranslation,
    "sentence_prediction": RowClassification,
    "language_modeling": RowLanguageModelling,
}
BY_METRIC: dict[str, Callable[[], RowMeasure]] = {
    **dict.fromkeys(ROUGE, Summarization),
    "bleu_by_length": ByLength,
    "locality": Locality,
    "probing": Probing,
}
OF_TRAINING = ("steps_per_second", "parameters")  # of any row, from its training
METRICS = (*BLEU, *ROUGE, "locality", "probing", "accuracy", "perplexity", *OF_TRAINING)


def row_measure(recipe: Recipe) -> RowMeasure:
    """The measure of a row. Raises RecipeError for an unknown metric or task."""
    metric = str(recipe.get("metric")).rpartition("/")[2]  # of several test sets: average/METRIC
    if metric not in METRICS:
        raise RecipeError(f"{recipe.path}: metric must be one of {', '.join(METRICS)}, not {recipe.get('metric')!r}")
    if recipe.get("lead"):
        return Lead()
    return BY_METRIC.get(metric, BY_TASK[measure_of(recipe).task])()
