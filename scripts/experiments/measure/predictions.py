"""Accuracy from the predictions that analysis/accuracy.py has written, against another system's; perplexity."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scipy.stats import binomtest

from experiments.measure.generated import ScoreError, read_lines


@dataclass(frozen=True)
class Accuracy:
    """Shares in percent: of what is right, its 95 % interval, the difference to a baseline and McNemar's p of it."""

    score: float
    low: float
    high: float
    sentences: int
    difference: float | None = None
    p_value: float | None = None


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
    return float(binomtest(won, won + lost).pvalue) if won + lost else 1.0


def accuracy(output: Path, baseline: Path | None = None) -> Accuracy:
    """The accuracy of a file of predictions, and its difference to that of a baseline's. Raises ScoreError."""
    right = read_predictions(output)
    interval = binomtest(sum(right), len(right)).proportion_ci(method="wilson")
    found = (100 * sum(right) / len(right), 100 * interval.low, 100 * interval.high, len(right))
    if baseline is None:
        return Accuracy(*found)
    others = read_predictions(baseline)
    if len(others) != len(right):
        raise ScoreError(f"{baseline}: {len(others)} lines, but {output} has {len(right)}")
    return Accuracy(*found, 100 * (sum(right) - sum(others)) / len(right), mcnemar(right, others))


def read_perplexity(path: Path) -> dict[str, float]:
    """{tokens, loss}, the loss in bits, of fairseq-eval-lm's log, or of the JSON file that a runner made of it.

    Raises ScoreError where the lines that it writes last are not there, or the loss is no number.
    """
    text = "\n".join(read_lines(path, errors="replace"))
    if text.startswith("{") and "\n" not in text:
        try:
            stated = json.loads(text)
            facts = {"tokens": int(stated["tokens"]), "loss": float(stated["loss"])}
        except (ValueError, KeyError, TypeError):
            raise ScoreError(f"{path}: not JSON with tokens and loss") from None
    else:
        counts = re.findall(r"Evaluated ([\d,]+) tokens", text)
        losses = re.findall(r"Loss \(base 2\): (\S+), Perplexity: ", text)
        if not counts or not losses:
            raise ScoreError(f"{path}: fairseq-eval-lm has not logged a perplexity")
        facts = {"tokens": int(counts[-1].replace(",", "")), "loss": float(losses[-1])}
    if not math.isfinite(facts["loss"]):
        raise ScoreError(f"{path}: the loss is {facts['loss']}: the training has diverged; lower its learning rate")
    return facts


def perplexity(facts: Mapping[str, float]) -> float:
    """2 to the loss, as fairseq has it, of what read_perplexity() found."""
    return 2 ** facts["loss"]
