"""Significance of a difference: the paired bootstrap of Koehn 2004, as sacreBLEU counts it, and McNemar's test."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest

from experiments.measure.generated import ScoreError

SAMPLES = 1000


@dataclass(frozen=True)
class Measurement:
    """One score of a system.

    ``signature`` says how it was counted, ``difference`` and ``p_value`` compare it with a baseline, ``low`` and
    ``high`` are its 95 % interval. BLEU, ROUGE and accuracy are in percent.
    """

    metric: str
    score: float
    signature: str = ""
    difference: float | None = None
    p_value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def tested(self) -> str:
        """How the score is counted and samples are drawn, where a paired bootstrap compares it with a baseline's."""
        return f"{self.signature}|{drawn()}"


def seed() -> int | None:
    """Return ``$SACREBLEU_SEED`` (default: sacreBLEU's 12345); None for 'none' or 0, as sacreBLEU reads it.

    Raises ScoreError for another word.
    """
    value = os.environ.get("SACREBLEU_SEED", "12345")
    if value.lower() != "none" and not value.isdecimal():
        raise ScoreError(f"$SACREBLEU_SEED is {value!r}: set it to a whole number from 0, or none")
    return None if value.lower() == "none" else int(value) or None


def drawn() -> str:
    """Return how the bootstrap draws its samples, as sacreBLEU's signatures say it."""
    return f"bs:{SAMPLES}|seed:{str(seed()).lower()}"


def paired_bootstrap(
    system: np.ndarray, baseline: np.ndarray, score: Callable[[np.ndarray], float], samples: int = SAMPLES
) -> tuple[float, float]:
    """Return the difference of a system's score to a baseline's, and its p; the score follows from sums over sentences.

    Args:
        system, baseline: statistics of the same sentences, of shape (sentences, k).
        score: score of a sum of statistics, of shape (k,).
        samples: number of resampled test sets.

    With d the difference of the two scores on a resampled test set,
    p = (1 + number of samples with |d| − mean |d| > |difference|) / (1 + samples), and 1 without a difference.
    This is about half of a two-sided p where the difference is clear, and near .4 where there is hardly one.
    """
    difference = score(system.sum(0)) - score(baseline.sum(0))
    resampled = np.random.default_rng(seed()).choice(len(system), size=(samples, len(system)), replace=True)
    sizes = np.array([abs(score(system[rows].sum(0)) - score(baseline[rows].sum(0))) for rows in resampled])
    as_far = int(np.sum(sizes - sizes.mean() > abs(difference)))
    return difference, (as_far + 1) / (samples + 1) if difference else 1.0


def measured(
    metric: str,
    signature: str,
    score: Callable[[np.ndarray], float],
    *,
    system: np.ndarray,
    baseline: np.ndarray | None,
) -> Measurement:
    """Return a score that follows from sums over sentences, with its test against a baseline's statistics."""
    tested = (None, None) if baseline is None else paired_bootstrap(system, baseline, score)
    return Measurement(metric, score(system.sum(0)), signature, *tested)


def mcnemar(system: Sequence[bool], baseline: Sequence[bool]) -> float:
    """Return p of McNemar's exact test, two-sided; each argument says which sentences a system has right.

    The test counts the sentences that one system has right and the other wrong: without a difference between the
    systems, each of these is won by either with probability 1/2. p is 1 where there are none.
    """
    won = sum(a and not b for a, b in zip(system, baseline, strict=True))
    lost = sum(b and not a for a, b in zip(system, baseline, strict=True))
    return float(binomtest(won, won + lost).pvalue) if won + lost else 1.0
