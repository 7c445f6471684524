"""Accuracy of the predictions that analysis/accuracy.py writes, and perplexity from the log of fairseq-eval-lm."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from scipy.stats import binomtest

from experiments.measure.generated import ScoreError, read_lines
from experiments.measure.significance import Measurement, mcnemar


def read_predictions(path: Path) -> tuple[list[str], list[bool]]:
    """Return of lines ``label<TAB>prediction`` the labels, and whether both are the same. Raises ScoreError."""
    labels, right = [], []
    for number, line in enumerate(read_lines(path), start=1):
        match = re.fullmatch(r"(\d+)\t(\d+)", line)
        if match is None:
            raise ScoreError(f"{path}:{number}: not label, tab, prediction")
        labels.append(match[1])
        right.append(match[1] == match[2])
    if not right:
        raise ScoreError(f"{path}: is empty")
    return labels, right


def accuracy(output: Path, baseline: Path | None = None) -> Measurement:
    """Return the accuracy of a file of predictions in percent, with its 95 % interval (Wilson).

    It is compared with a baseline's file, if given, by McNemar's test. Raises ScoreError.
    """
    labels, right = read_predictions(output)
    interval = binomtest(sum(right), len(right)).proportion_ci(method="wilson")
    difference = p_value = None
    if baseline is not None:
        theirs, others = read_predictions(baseline)
        if len(others) != len(right):
            raise ScoreError(f"{baseline}: {len(others)} lines, but {output} has {len(right)}")
        if theirs != labels:
            number = next(n for n, pair in enumerate(zip(theirs, labels, strict=True), start=1) if len(set(pair)) > 1)
            raise ScoreError(f"{baseline}:{number}: another label than in {output}: another test set?")
        difference = 100 * (sum(right) - sum(others)) / len(right)
        p_value = mcnemar(right, others)
    return Measurement(
        "accuracy",
        100 * sum(right) / len(right),
        f"sentences:{len(right)}|interval:wilson|test:mcnemar",
        difference=difference,
        p_value=p_value,
        low=100 * interval.low,
        high=100 * interval.high,
    )


def read_perplexity(path: Path) -> dict[str, float]:
    """Return ``{tokens, loss}``, the loss in bits a token, from fairseq-eval-lm's log or the JSON that a run keeps.

    Raises ScoreError where the last lines of the log are missing, or the perplexity is not finite.
    """
    text = "\n".join(read_lines(path, errors="replace"))
    if text.startswith("{") and "\n" not in text:
        try:
            stated = json.loads(text)
            facts = {"tokens": int(stated["tokens"]), "loss": float(stated["loss"])}
        except (ValueError, KeyError, TypeError, OverflowError):
            raise ScoreError(f"{path}: not JSON with tokens and loss") from None
    else:
        counts = re.findall(r"Evaluated ([\d,]+) tokens", text)
        losses = re.findall(r"Loss \(base 2\): (\S+), Perplexity: ", text)
        if not counts or not losses:
            raise ScoreError(f"{path}: fairseq-eval-lm has not logged a perplexity")
        facts = {"tokens": int(counts[-1].replace(",", "")), "loss": float(losses[-1])}
    if not abs(facts["loss"]) < sys.float_info.max_exp:
        raise ScoreError(f"{path}: the loss is {facts['loss']}: the training has diverged; lower its learning rate")
    return facts


def perplexity(output: Path, baseline: Path | None = None) -> Measurement:
    """Return the perplexity, 2^loss, in what ``read_perplexity`` reads; a difference has no p. Raises ScoreError."""
    facts = read_perplexity(output)
    found = 2 ** facts["loss"]
    difference = None
    if baseline is not None:
        other = read_perplexity(baseline)
        if other["tokens"] != facts["tokens"]:
            counts = f"{other['tokens']} tokens, but {output} has {facts['tokens']}"
            raise ScoreError(f"{baseline}: {counts}: another test set or vocabulary?")
        difference = found - 2 ** other["loss"]
    return Measurement("perplexity", found, f"tokens:{facts['tokens']}|loss:{facts['loss']:.4f}", difference)
