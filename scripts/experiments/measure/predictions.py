"""Accuracy of the predictions that analysis/accuracy.py writes, and perplexity from the log of fairseq-eval-lm."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scipy.stats import binomtest

from experiments.measure.generated import ScoreError, read_lines
from experiments.measure.significance import mcnemar


@dataclass(frozen=True)
class Accuracy:
    """Accuracy in percent with its 95 % interval (Wilson); the difference to a baseline and its p by McNemar's test."""

    score: float
    low: float
    high: float
    sentences: int
    difference: float | None = None
    p_value: float | None = None


def read_predictions(path: Path) -> list[bool]:
    """Return for each line, ``label<TAB>prediction``, whether both are the same. Raises ScoreError for another file."""
    right = []
    for number, line in enumerate(read_lines(path), start=1):
        match = re.fullmatch(r"(\d+)\t(\d+)", line)
        if match is None:
            raise ScoreError(f"{path}:{number}: not label, tab, prediction")
        right.append(match[1] == match[2])
    if not right:
        raise ScoreError(f"{path}: is empty")
    return right


def accuracy(output: Path, baseline: Path | None = None) -> Accuracy:
    """Return the accuracy of a file of predictions, compared with a baseline's file if given. Raises ScoreError."""
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
    """Return ``{tokens, loss}``, the loss in bits a token, from fairseq-eval-lm's log or the JSON that a run keeps.

    Raises ScoreError where the last lines of the log are missing, or the loss is not finite.
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
    """Return the perplexity, 2^loss, of what ``read_perplexity`` found."""
    return 2 ** facts["loss"]
