"""How a trained model is measured, by fairseq's task: the command, what it leaves, and the columns of the score.

A measure knows: `task`, and whether that reads phrases of the source (`reads_phrases`); `section`, that of a recipe
with the flags of its command (None: it takes none); `columns` of a results file; `headline`, the column that is
compared, and its `title` for reading. A run's step that measures is called `step`, and `stamp` when it is done.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.measure.command import score_output
from experiments.measure.predictions import accuracy, perplexity, read_perplexity
from experiments.recipes.recipe import SECTIONS, USER_DIR, Recipe, RecipeError
from experiments.runs.checkpoints import last_validation

if TYPE_CHECKING:
    from experiments.runs.run import Run


class Translation:
    """BLEU of fairseq-generate's output."""

    task = "translation"
    step, stamp = "generate", "generated"
    section: str | None = "generate"
    data_keys = ("source", "target")
    columns = ("bleu", "signature", "tokenised_bleu", "difference", "p_value")
    headline, title = "bleu", "BLEU"
    output = "generate-test.txt"
    reads_phrases = False

    def train_flags(self, run: Run) -> list[str]:
        """What training needs beside the recipe's flags."""
        return ["--source-lang", run.data.source, "--target-lang", run.data.target]

    def argv(self, run: Run, folder: Path, subset: str = "test") -> list[str]:
        """The command without the interpreter. It writes into `folder`, or what collect() needs into its log."""
        return [
            "-m", "fairseq_cli.generate", str(run.data.bin),
            "--user-dir", str(USER_DIR), "--path", str(run.model),
            "--source-lang", run.data.source, "--target-lang", run.data.target, "--gen-subset", subset,
            "--results-path", str(folder),
            *run.flags("generate"),
        ]  # fmt: skip

    def collect(self, folder: Path, log: Path, subset: str = "test") -> Path:
        """The file that is kept."""
        return folder / f"generate-{subset}.txt"

    def score(self, run: Run, baseline: Run | None) -> dict[str, str]:
        """The columns; those that compare are empty for the baseline itself. Raises ScoreError."""
        report = score_output(run.output, run.data.test_set(), baseline and baseline.output)
        test = report.significance
        return {
            "bleu": f"{report.bleu.score:.2f}",
            "signature": report.bleu.signature,
            "tokenised_bleu": "" if report.tokenised is None else f"{report.tokenised.score:.2f}",
            "difference": "" if test is None else f"{test.difference:.2f}",
            "p_value": "" if test is None else f"{test.p_value:.4f}",
        }


class PhraseTranslation(Translation):
    """The same, with phrases of the source; besides, the accuracy of the phrases' tags on the validation set."""

    task = "translation_with_phrases"
    columns = (*Translation.columns, "tag_accuracy")
    reads_phrases = True

    def argv(self, run: Run, folder: Path, subset: str = "test") -> list[str]:
        return [*super().argv(run, folder, subset), "--task", self.task]

    def score(self, run: Run, baseline: Run | None) -> dict[str, str]:
        return {**super().score(run, baseline), "tag_accuracy": last_validation(run.folder, "tag_accuracy") or ""}


class Classification:
    """Accuracy by analysis/accuracy.py; against the baseline McNemar's exact test."""

    task = "sentence_prediction"
    step, stamp = "generate", "generated"
    section: str | None = None
    data_keys: tuple[str, ...] = ()
    columns = ("accuracy", "low", "high", "sentences", "difference", "p_value")
    headline = title = "accuracy"
    reads_phrases = False
    output = "predictions-test.txt"

    def train_flags(self, run: Run) -> list[str]:
        return []

    def argv(self, run: Run, folder: Path, subset: str = "test") -> list[str]:
        cpu = ["--cpu"] if run.recipe.flag("train", "cpu") else []
        written = ["--path", str(run.model), "--gen-subset", subset, "--predictions", str(folder / self.output)]
        return ["-m", "fairseq_localattn.analysis.accuracy", str(run.data.bin), *written, *cpu]

    def collect(self, folder: Path, log: Path, subset: str = "test") -> Path:
        return folder / self.output

    def score(self, run: Run, baseline: Run | None) -> dict[str, str]:
        found = accuracy(run.output, baseline and baseline.output)
        return {
            "accuracy": f"{found.score:.2f}",
            "low": f"{found.low:.2f}",
            "high": f"{found.high:.2f}",
            "sentences": str(found.sentences),
            "difference": "" if found.difference is None else f"{found.difference:.2f}",
            "p_value": "" if found.p_value is None else f"{found.p_value:.4f}",
        }


class LanguageModelling:
    """Perplexity by fairseq-eval-lm."""

    task = "language_modeling"
    step, stamp = "generate", "generated"
    section: str | None = "eval_lm"
    data_keys: tuple[str, ...] = ()
    columns = ("perplexity", "loss", "tokens", "difference")
    headline = title = "perplexity"
    reads_phrases = False
    output = "perplexity-test.json"

    def train_flags(self, run: Run) -> list[str]:
        return []

    def argv(self, run: Run, folder: Path, subset: str = "test") -> list[str]:
        where = ["--user-dir", str(USER_DIR), "--path", str(run.model), "--gen-subset", subset]
        return ["-m", "fairseq_cli.eval_lm", str(run.data.bin), *where, *run.flags("eval_lm")]

    def collect(self, folder: Path, log: Path, subset: str = "test") -> Path:
        """What fairseq-eval-lm has logged, as JSON. Raises ScoreError where its last lines are not there."""
        facts = read_perplexity(log)
        (folder / self.output).write_text(json.dumps(facts) + "\n", encoding="utf-8")
        return folder / self.output

    def score(self, run: Run, baseline: Run | None) -> dict[str, str]:
        facts = read_perplexity(run.output)
        found = perplexity(facts)
        row = {"perplexity": f"{found:.2f}", "loss": f"{facts['loss']:.4f}", "tokens": str(facts["tokens"])}
        difference = "" if baseline is None else f"{found - perplexity(read_perplexity(baseline.output)):.2f}"
        return {**row, "difference": difference}


Measure = Translation | Classification | LanguageModelling
MEASURES: dict[str, Measure] = {
    measure.task: measure for measure in (Translation(), PhraseTranslation(), Classification(), LanguageModelling())
}


def measure_of(recipe: Recipe) -> Measure:
    """That of the recipe's task (flag `task` of train; translation where it is not given). Raises RecipeError."""
    entry = recipe.sections.get("train", {}).get("task")
    if entry is None:
        return MEASURES["translation"]
    if entry.value not in MEASURES:
        raise RecipeError(f"{entry.where}: no measure for the task {entry.value}: there are {', '.join(MEASURES)}")
    return MEASURES[entry.value]


def measures_of(recipe: Recipe) -> list[Measure]:
    """Those of the recipe and of its systems, each once."""
    of_systems = [measure_of(recipe.system(name)[1]) for name in recipe.get("systems", {})]
    return list(dict.fromkeys([measure_of(recipe), *of_systems]))


def check_sections(recipe: Recipe) -> None:
    """Raise RecipeError for a section whose flags no command of the recipe's task would get."""
    measure = measure_of(recipe)
    for section in set(SECTIONS) - {"train", measure.section}:
        for key, entry in recipe.sections.get(section, {}).items():
            raise RecipeError(f"{entry.where}: {section}: {key} changes nothing: the task is {measure.task}")
