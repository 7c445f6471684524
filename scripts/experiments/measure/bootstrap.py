"""Paired bootstrap of any score that follows from sums over sentences (Koehn 2004), as sacreBLEU counts it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

SAMPLES = 1000


@dataclass(frozen=True)
class Significance:
    """Paired bootstrap of a system against a baseline: p is the probability of such a difference if there were none."""

    p_value: float
    difference: float
    signature: str


def seed() -> int | None:
    """SACREBLEU_SEED, by default sacreBLEU's 12345; None where it is 'none' (or 0: so sacreBLEU reads it)."""
    value = os.environ.get("SACREBLEU_SEED", "12345")
    return None if value.lower() == "none" else int(value) or None


def paired_bootstrap(
    system: np.ndarray, baseline: np.ndarray, score: Callable[[np.ndarray], float], samples: int = SAMPLES
) -> Significance:
    """Tests a system against a baseline on the same sentences.

    system, baseline: (sentences, k), the statistics of each sentence; score: of their sum, (k,). With d the difference
    of the two scores on a resampled test set, p = (1 + how often |d| - mean |d| > |difference|) / (1 + samples); and
    1 where there is no difference.
    """
    difference = score(system.sum(0)) - score(baseline.sum(0))
    drawn = np.random.default_rng(seed()).choice(len(system), size=(samples, len(system)), replace=True)
    sizes = np.array([abs(score(system[rows].sum(0)) - score(baseline[rows].sum(0))) for rows in drawn])
    as_far = int(np.sum(sizes - sizes.mean() > abs(difference)))
    p_value = (as_far + 1) / (samples + 1) if difference else 1.0
    return Significance(p_value, difference, f"bs:{samples}|seed:{str(seed()).lower()}")
