"""Measures of a finished training: the command, the file that it leaves, and the numbers that follow from the file.

The measure of a recipe follows from its ``metric``, or else from fairseq's task.
"""

from __future__ import annotations

import abc
import json
import shlex
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from experiments.data.prepared import PHRASE_TASK, Prepared, trees_fingerprint
from experiments.measure import scoring
from experiments.measure.bleu import LENGTHS
from experiments.measure.counts import SUFFIX
from experiments.measure.csv_files import Line, read_lines
from experiments.measure.generated import ScoreError
from experiments.measure.metrics import METRICS
from experiments.measure.predictions import accuracy, perplexity, read_perplexity
from experiments.measure.rouge import METRICS as ROUGE
from experiments.measure.rouge import SWAPPED
from experiments.measure.scoring import TestSet
from experiments.measure.significance import Measurement
from experiments.recipes.flags import expand
from experiments.recipes.recipe import SECTIONS, Recipe, RecipeError
from experiments.system.checkout import ROOT, USER_DIR
from experiments.system.logs import last_validation

PREPARE_PROBING = ROOT / "data-prep" / "prepare_probing.sh"
PYTHON = (sys.executable, "-m")


class Measured(Protocol):
    """A run as a measure sees it."""

    recipe: Recipe
    seed: int
    data: Prepared
    kept: Path | None
    trees: Path | None
    narrow: bool

    @property
    def arch(self) -> str: ...

    @property
    def folder(self) -> Path: ...

    @property
    def key(self) -> str: ...  # what the results call it

    @property
    def model(self) -> Path: ...  # the checkpoint that is measured

    @property
    def on_cpu(self) -> bool: ...

    def encoder_flags(self) -> list[str]: ...  # of an encoder of its own, in probing from scratch


class Measure(abc.ABC):
    """What is measured of a finished training, by one command a test set.

    Attributes:
        step: name of the run's step that measures.
        stamp: name of the file that says the step is done.
        section: section of a recipe with the flags of the command; None where it takes none.
        data_keys: keys of the recipe's data that the measure needs.
        compares: whether there is a difference to a baseline.
    """

    step, stamp = "generate", "generated"
    section: str | None = None
    data_keys: tuple[str, ...] = ()
    compares = True

    @abc.abstractmethod
    def output(self, subset: str = "test") -> str:
        """Return the name of the file that is kept of a test set."""

    @abc.abstractmethod
    def argv(self, run: Measured, folder: Path, subset: str) -> list[str]:
        """Return the command. It writes into ``folder``, or a log that ``collect`` reads."""

    @abc.abstractmethod
    def measurements(self, run: Measured, baseline: Measured | None) -> list[Measurement]:
        """Return the scores of a measured run. Raises ScoreError."""

    def outputs(self, *runs: Measured | None) -> list[Path]:
        """Return the paths of the files that are kept of runs, as far as there are such runs."""
        return [run.folder / self.output() for run in runs if run is not None]

    def variant(self, run: Measured) -> str:
        """Return the part of a file's name that tells two measures of one kind apart."""
        return ""

    def train_flags(self, run: Measured) -> list[str]:
        """Return the flags of the training that are not the recipe's."""
        return ["--source-lang", run.data.source, "--target-lang", run.data.target] if self.data_keys else []

    def collect(self, folder: Path, log: Path, subset: str) -> Path:
        """Return the path in ``folder`` of the file that is kept. Raises ScoreError where there is none."""
        return folder / self.output(subset)

    def counts_files(self, run: Measured) -> dict[str, Path]:
        """Return test set → path of the file with what BLEU counts in a run's output; none where it is not kept."""
        return {}


class Generated(Measure):
    """Scores of fairseq-generate's output."""

    section = "generate"
    data_keys = ("source", "target")

    def output(self, subset: str = "test") -> str:
        return f"generate-{subset}.txt"

    def argv(self, run: Measured, folder: Path, subset: str) -> list[str]:
        with_phrases = run.recipe.flag("train", "task") == PHRASE_TASK
        return [
            *PYTHON, "fairseq_cli.generate", str(run.data.bin),
            "--user-dir", str(USER_DIR), "--path", str(run.model),
            "--source-lang", run.data.source, "--target-lang", run.data.target, "--gen-subset", subset,
            "--results-path", str(folder),
            *expand(run.recipe, "generate"),
            *(["--task", PHRASE_TASK] if with_phrases else []),
        ]  # fmt: skip


class Translation(Generated):
    """BLEU on each test set, and the mean where there are several. What it counts is kept.

    Attributes:
        by_length: count BLEU by the number of source words as well, in groups up to these and longer.
        by_ngram: count BLEU of the n-grams of each order alone as well.
    """

    by_length: Sequence[int] = ()
    by_ngram = False

    def counts_files(self, run: Measured) -> dict[str, Path]:
        tests = run.recipe.corpus.tests.values()
        return {subset: run.kept / f"{run.key}.{subset}{SUFFIX}" for subset in tests if run.kept}

    def measurements(self, run: Measured, baseline: Measured | None) -> list[Measurement]:
        tests = run.recipe.corpus.tests
        found: list[Measurement] = []
        for name, subset in tests.items():
            against = None if baseline is None else baseline.folder / self.output(subset)
            if baseline is not None and against is not None and not against.exists():
                against = self.counts_files(baseline).get(subset, against)
            test, output = TestSet.of(run.data, subset), run.folder / self.output(subset)
            of_set = scoring.translation(output, test, against, by_length=self.by_length, by_ngram=self.by_ngram)
            found += of_set if len(tests) == 1 else [replace(m, metric=f"{name}/{m.metric}") for m in of_set]
        return found if len(tests) == 1 else found + _means(found)


class PhraseTranslation(Translation):
    """BLEU of translations of sources with phrases, and a last model's accuracy of their tags on the validation set."""

    def measurements(self, run: Measured, baseline: Measured | None) -> list[Measurement]:
        found = super().measurements(run, baseline)
        is_last = run.recipe.checkpoint == "last" and not run.recipe.average
        tags = last_validation(run.folder, "tag_accuracy") if is_last else None
        return found if tags is None else [*found, Measurement("tag_accuracy", float(tags))]


class ByLength(Translation):
    by_length = LENGTHS


class ByNgram(Translation):
    by_ngram = True


def _means(found: list[Measurement]) -> list[Measurement]:
    """Return ``average/METRIC``, the mean over the test sets, as papers report it; it has no p."""
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


class Summarization(Generated):
    """ROUGE-1, -2, -L, their mean, and ROUGE-L with its arguments swapped."""

    def measurements(self, run: Measured, baseline: Measured | None) -> list[Measurement]:
        return scoring.summarization(self.outputs(run, baseline), run.data.references("tok", "test")[0], run.data.bpe)


class Lead(Summarization):
    """ROUGE of the first sentences of the articles, without a model."""

    compares = False

    def measurements(self, run: Measured, baseline: Measured | None) -> list[Measurement]:
        article = run.data.folder / "raw" / f"test.{run.data.source}.sentences"
        return scoring.lead3(article, run.data.references("tok", "test")[0], sentences=run.recipe.lead)


class Classification(Measure):
    """Accuracy by analysis/accuracy.py with its 95 % interval, and McNemar's exact test against the baseline."""

    def output(self, subset: str = "test") -> str:
        return f"predictions-{subset}.txt"

    def argv(self, run: Measured, folder: Path, subset: str) -> list[str]:
        written = ["--path", str(run.model), "--gen-subset", subset, "--predictions", str(folder / self.output(subset))]
        cpu = ["--cpu"] if run.on_cpu else []
        return [*PYTHON, "fairseq_localattn.analysis.accuracy", str(run.data.bin), *written, *cpu]

    def measurements(self, run: Measured, baseline: Measured | None) -> list[Measurement]:
        return [accuracy(*self.outputs(run, baseline))]


class LanguageModelling(Measure):
    """Perplexity by fairseq-eval-lm; a difference has no p."""

    section = "eval_lm"

    def argv(self, run: Measured, folder: Path, subset: str) -> list[str]:
        where = ["--user-dir", str(USER_DIR), "--path", str(run.model), "--gen-subset", subset]
        return [*PYTHON, "fairseq_cli.eval_lm", str(run.data.bin), *where, *expand(run.recipe, "eval_lm")]

    def output(self, subset: str = "test") -> str:
        return f"perplexity-{subset}.json"

    def collect(self, folder: Path, log: Path, subset: str) -> Path:
        """Write what fairseq-eval-lm has logged as JSON. Raises ScoreError where the log is cut off."""
        path = folder / self.output(subset)
        path.write_text(json.dumps(read_perplexity(log)) + "\n", encoding="utf-8")
        return path

    def measurements(self, run: Measured, baseline: Measured | None) -> list[Measurement]:
        return [perplexity(*self.outputs(run, baseline))]


class Locality(Measure):
    """Share of the attention within w positions of the query, by analysis/locality."""

    step, stamp = "locate", "located"
    data_keys = ("source", "target")
    compares = False
    windows = (1, 2, 4)

    def output(self, subset: str = "test") -> str:
        return "locality.csv"

    def argv(self, run: Measured, folder: Path, subset: str) -> list[str]:
        windows = ",".join(map(str, self.windows))
        return [
            *PYTHON, "fairseq_localattn.analysis.locality", str(run.data.bin), "--path", str(run.model),
            "--gen-subset", subset, "--windows", windows, "--csv", str(folder / self.output()),
            *(["--cpu"] if run.on_cpu else []),
        ]  # fmt: skip

    def measurements(self, run: Measured, baseline: Measured | None) -> list[Measurement]:
        """Return ``wW_layerN``, percent of the attention within W positions in layer N: DMAN's where there is one."""
        rows = _lines(run.folder / self.output(), "kind", "window", "layer", "share")
        kind = "dman" if any(row["kind"] == "dman" for row in rows) else "san"
        rows = [row for row in rows if row["kind"] == kind]
        return [Measurement(f"w{row['window']}_layer{row['layer']}", row.number("share")) for row in rows]


class Probing(Measure):
    """Accuracies of classifiers on the encoder's states by analysis/probing, on tasks in the encoder's own subwords."""

    step, stamp = "probe", "probed"
    data_keys = ("source", "target")
    compares = False

    def variant(self, run: Measured) -> str:
        return f".{trees_fingerprint(run.trees)}" if run.trees else ""

    def output(self, subset: str = "test") -> str:
        return "probing.csv"

    def work(self, run: Measured) -> Path:
        """Return the folder of the tasks that are made of the run's trees, and of the numbers."""
        return run.folder / f"probing{self.variant(run)}"

    def argv(self, run: Measured, folder: Path, subset: str) -> list[str]:
        """Prepare the tasks, of which those that are there are kept, probe, and keep the numbers."""
        work, data = self.work(run), run.data
        own = ["--codes", str(data.folder / "bpe" / "codes"), "--dict", str(data.bin / f"dict.{data.source}.txt")]
        trees = [word for split in ("train", "valid", "test") for word in (f"--{split}", _tree_file(run.trees, split))]
        # The translation data have Moses' entities.
        prepare = ["bash", str(PREPARE_PROBING), str(work / "data"), "--lang", data.source, *trees, *own, "--escape"]
        probe = [*PYTHON, "fairseq_localattn.analysis.probing", str(work / "data" / "bin")]
        if run.recipe.probing == "scratch":
            probe += ["--arch", run.arch, *run.encoder_flags()]
        else:
            probe += ["--encoder", str(run.model), "--encoder-data", str(data.bin)]
        probe += [*(["--epochs", "1"] if run.narrow else []), *(["--cpu"] if run.on_cpu else [])]
        numbers = str(work / self.output())
        probe += ["--balance", "--seed", str(run.seed), "--out", numbers]
        return ["bash", "-c", " && ".join(map(shlex.join, (prepare, probe, ["cp", numbers, str(folder)])))]

    def measurements(self, run: Measured, baseline: Measured | None) -> list[Measurement]:
        """Return the accuracy of each task in percent, and ``probing_avg``, the mean."""
        rows = _lines(self.work(run) / self.output(), "task", "accuracy", "low", "high", "total", "majority")
        found = [
            Measurement(
                row["task"],
                row.number("accuracy"),
                f"examples:{row['total']}|majority:{row['majority']}|interval:wilson",
                low=row.number("low"),
                high=row.number("high"),
            )
            for row in rows
        ]
        return [*found, Measurement("probing_avg", statistics.mean(m.score for m in found))]


def _tree_file(folder: Path | None, split: str) -> str:
    """Return the trees of a split: train.mrg, or NAME.train.mrg (of valid dev, too), plain or .gz; else the first."""
    folder = folder or Path("TREES")
    words = ("valid", "dev") if split == "valid" else (split,)
    names = (f"{prefix}{word}.mrg{ending}" for word in words for prefix in ("", "*.") for ending in ("", ".gz"))
    return str(next((path for name in names for path in sorted(folder.glob(name))), folder / f"{split}.mrg"))


def _lines(path: Path, *needed: str) -> list[Line]:
    """Return the lines of a CSV file with these columns. Raises ScoreError, also where there are none."""
    lines = read_lines(path, needed)
    if not lines:
        raise ScoreError(f"{path}: has no rows")
    return lines


BY_TASK: Mapping[str, Callable[[], Measure]] = {
    "translation": Translation,
    PHRASE_TASK: PhraseTranslation,
    "sentence_prediction": Classification,
    "language_modeling": LanguageModelling,
}
BY_METRIC: Mapping[str, Callable[[], Measure]] = {
    **dict.fromkeys((*ROUGE, SWAPPED), Summarization),
    "bleu_by_length": ByLength,
    "bleu_by_ngram": ByNgram,
    "locality": Locality,
    "probing": Probing,
}


def measure_of(recipe: Recipe) -> Measure:
    """Return the measure of a row.

    Raises RecipeError for an unknown metric or task, for missing data, and for sections that the task does not use.
    """
    metric = recipe.metric.rpartition("/")[2]  # of several test sets: average/METRIC
    if metric not in METRICS:
        raise RecipeError(f"{recipe.where}: metric must be one of {', '.join(METRICS)}, not {recipe.metric!r}")
    task: Any = recipe.flag("train", "task", "translation")
    if task not in BY_TASK:
        where = recipe.train["task"].where
        raise RecipeError(f"{where}: no measure for the task {task}: there are {', '.join(BY_TASK)}")
    found = Lead() if recipe.lead else BY_METRIC.get(metric, BY_TASK[task])()
    tests = recipe.corpus.tests
    if list(tests.values()) != ["test"] and not isinstance(found, Translation):
        raise RecipeError(f"{recipe.where}: {metric} is measured on the test set alone, not on {', '.join(tests)}")
    if recipe.lead:
        return found
    for key in found.data_keys:
        if not getattr(recipe.corpus, key):
            raise RecipeError(f"{recipe.where}: data needs the key {key!r}")
    for section in set(SECTIONS) - {"train", BY_TASK[task]().section}:
        for key, entry in recipe.section(section).items():
            raise RecipeError(f"{entry.where}: {section}: {key} changes nothing: the task is {task}")
    if isinstance(found, Probing) and not recipe.probing:
        raise RecipeError(f"{recipe.where}: the metric probing needs probing: pre-trained, or probing: scratch")
    return found
