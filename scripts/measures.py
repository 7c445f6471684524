"""How a trained model is measured, by fairseq's task: the command, what it leaves, and the columns of the score.

A measure knows: `task`, and whether that reads phrases of the source (`reads_phrases`); `section`, that of a recipe
with the flags of its command (None: it takes none); `columns` of a results file; `headline`, the column that is
compared, and its `title` for reading.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recipe import SECTIONS, USER_DIR, Recipe, RecipeError
from score import ScoreError, read_lines, score_output
from training import last_validation

if TYPE_CHECKING:
    from runs import Run


class Translation:
    """BLEU of fairseq-generate's output."""

    task = "translation"
    section: str | None = "generate"
    data_keys = ("source", "target")
    columns = ("bleu", "signature", "tokenised_bleu", "difference", "p_value")
    headline, title = "bleu", "BLEU"
    output = "generate-test.txt"
    reads_phrases = False

    def train_flags(self, run: Run) -> list[str]:
        """What training needs beside the recipe's flags."""
        return ["--source-lang", run.data.source, "--target-lang", run.data.target]

    def argv(self, run: Run, folder: Path) -> list[str]:
        """The command without the interpreter. It writes into `folder`, or what collect() needs into its log."""
        return [
            "-m", "fairseq_cli.generate", str(run.data.bin),
            "--user-dir", str(USER_DIR), "--path", str(run.model),
            "--source-lang", run.data.source, "--target-lang", run.data.target, "--gen-subset", "test",
            "--results-path", str(folder),
            *run.flags("generate"),
        ]  # fmt: skip

    def collect(self, folder: Path, log: Path) -> Path:
        """The file that is kept."""
        return folder / self.output

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

    def argv(self, run: Run, folder: Path) -> list[str]:
        return [*super().argv(run, folder), "--task", self.task]

    def score(self, run: Run, baseline: Run | None) -> dict[str, str]:
        return {**super().score(run, baseline), "tag_accuracy": last_validation(run.folder, "tag_accuracy") or ""}


class Classification:
    """Accuracy by analysis/accuracy.py; against the baseline McNemar's exact test."""

    task = "sentence_prediction"
    section: str | None = None
    data_keys: tuple[str, ...] = ()
    columns = ("accuracy", "low", "high", "sentences", "difference", "p_value")
    headline = title = "accuracy"
    reads_phrases = False
    output = "predictions-test.txt"

    def train_flags(self, run: Run) -> list[str]:
        return []

    def argv(self, run: Run, folder: Path) -> list[str]:
        cpu = ["--cpu"] if run.recipe.flag("train", "cpu") else []
        written = ["--path", str(run.model), "--gen-subset", "test", "--predictions", str(folder / self.output)]
        return ["-m", "fairseq_localattn.analysis.accuracy", str(run.data.bin), *written, *cpu]

    def collect(self, folder: Path, log: Path) -> Path:
        return folder / self.output

    def score(self, run: Run, baseline: Run | None) -> dict[str, str]:
        from fairseq_localattn.analysis.accuracy import wilson_interval

        right = read_predictions(run.output)
        low, high = wilson_interval(sum(right), len(right))
        row = {
            "accuracy": f"{100 * sum(right) / len(right):.2f}",
            "low": f"{100 * low:.2f}",
            "high": f"{100 * high:.2f}",
            "sentences": str(len(right)),
            "difference": "",
            "p_value": "",
        }
        if baseline is not None:
            others = read_predictions(baseline.output)
            if len(others) != len(right):
                raise ScoreError(f"{baseline.output}: {len(others)} lines, but {run.output} has {len(right)}")
            row["difference"] = f"{100 * (sum(right) - sum(others)) / len(right):.2f}"
            row["p_value"] = f"{mcnemar(right, others):.4f}"
        return row


def read_predictions(path: Path) -> list[bool]:
    """Whether each line's label is its prediction. Raises ScoreError for another file."""
    right = []
    for number, line in enumerate(read_lines(path), start=1):
        match = re.fullmatch(r"(\d+)\t(\d+)", line)
        if match is None:
            raise ScoreError(f"{path}:{number}: not label, tab, prediction")
        right.append(match[1] == match[2])
    if not right:
        raise ScoreError(f"{path}: is empty")
    return right


def mcnemar(system: Sequence[bool], baseline: Sequence[bool]) -> float:
    """McNemar's exact test, two-sided: p of such a difference between two systems if there were none.

    Of the sentences that one of them has right and the other has wrong, each would then be the better one by chance.
    """
    won = sum(a and not b for a, b in zip(system, baseline, strict=True))
    lost = sum(b and not a for a, b in zip(system, baseline, strict=True))
    tail = sum(math.comb(won + lost, k) for k in range(min(won, lost) + 1))
    return min(1.0, 2 * tail / 2 ** (won + lost))


class LanguageModelling:
    """Perplexity by fairseq-eval-lm."""

    task = "language_modeling"
    section: str | None = "eval_lm"
    data_keys: tuple[str, ...] = ()
    columns = ("perplexity", "loss", "tokens", "difference")
    headline = title = "perplexity"
    reads_phrases = False
    output = "perplexity-test.json"

    def train_flags(self, run: Run) -> list[str]:
        return []

    def argv(self, run: Run, folder: Path) -> list[str]:
        where = ["--user-dir", str(USER_DIR), "--path", str(run.model), "--gen-subset", "test"]
        return ["-m", "fairseq_cli.eval_lm", str(run.data.bin), *where, *run.flags("eval_lm")]

    def collect(self, folder: Path, log: Path) -> Path:
        """What fairseq-eval-lm has logged, as JSON. Raises ScoreError where its last lines are not there."""
        text = log.read_text(encoding="utf-8", errors="replace")
        counts = re.findall(r"Evaluated ([\d,]+) tokens", text)
        losses = re.findall(r"Loss \(base 2\): (\S+), Perplexity: ", text)
        if not counts or not losses:
            raise ScoreError(f"{log}: fairseq-eval-lm has not logged a perplexity")
        facts = {"tokens": int(counts[-1].replace(",", "")), "loss": float(losses[-1])}
        if not math.isfinite(facts["loss"]):
            raise ScoreError(f"{log}: the loss is {losses[-1]}: the training has diverged; lower its learning rate")
        (folder / self.output).write_text(json.dumps(facts) + "\n", encoding="utf-8")
        return folder / self.output

    def score(self, run: Run, baseline: Run | None) -> dict[str, str]:
        facts = json.loads(run.output.read_text(encoding="utf-8"))
        perplexity = 2 ** facts["loss"]
        row = {"perplexity": f"{perplexity:.2f}", "loss": f"{facts['loss']:.4f}", "tokens": str(facts["tokens"])}
        difference = ""
        if baseline is not None:
            difference = f"{perplexity - 2 ** json.loads(baseline.output.read_text(encoding='utf-8'))['loss']:.2f}"
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
