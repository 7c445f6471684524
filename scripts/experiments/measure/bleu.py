"""BLEU by sacreBLEU: its tokeniser by language, several references, compound splitting, significance."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from experiments.measure.generated import ScoreError
from experiments.measure.significance import SAMPLES, Significance
from experiments.measure.significance import paired_bootstrap as bootstrap_of_statistics

REFERENCE_LENGTHS = ("closest", "shortest")
TOKENISERS = {"zh": "zh", "ja": "ja-mecab"}  # all other languages: 13a
# Groups by the source's words, (above, up to), as in Figure 2 of Cui et al. 2019.
LENGTHS = ((0, 10), (10, 20), (20, 30), (30, 40), (40, 50), (50, None))
# Orders of n-grams, as in Figure 3 of Yang et al. 2019 and Figure 2 of Hao et al. 2019.
ORDERS = range(1, 9)


@dataclass(frozen=True)
class Bleu:
    """A corpus BLEU, 0 to 100, and the sacreBLEU signature that says how it was counted."""

    score: float
    signature: str


class _ShortestBLEU(BLEU):
    """BLEU whose brevity penalty takes the shortest reference of each sentence, as NIST's mteval before version 12."""

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[int]:
        shortest = {**ref_kwargs, "ref_lens": [min(ref_kwargs["ref_lens"])]}
        return super()._compute_segment_statistics(hypothesis, shortest)


def tokeniser_of(language: str) -> str:
    """Return sacreBLEU's tokeniser for a target language."""
    return TOKENISERS.get(language, "13a")


def _metric(lowercase: bool, tokenize: str, reference_length: str, **more: Any) -> BLEU:
    kind = _ShortestBLEU if reference_length == "shortest" else BLEU
    try:
        return kind(lowercase=lowercase, tokenize=tokenize, force=tokenize == "none", **more)
    except RuntimeError:  # sacreBLEU found no MeCab
        raise ScoreError(
            f"sacreBLEU's tokeniser {tokenize} needs MeCab, which is not installed: pip install -e '.[ja]'"
        ) from None


def _signature(text: object, references: Sequence[Sequence[str]], reference_length: str) -> str:
    return f"{text}|reflen:{reference_length}" if len(references) > 1 else str(text)


def sacre_bleu(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    lowercase: bool = False,
    tokenize: str = "13a",
    reference_length: str = "closest",
) -> Bleu:
    """Return sacreBLEU of a corpus against one or more reference documents.

    Args:
        tokenize: sacreBLEU's tokeniser; 'none' takes the tokens as they are.
        reference_length: which of several references the brevity penalty takes, by sentence (``REFERENCE_LENGTHS``).
    """
    metric = _metric(lowercase, tokenize, reference_length)
    score = metric.corpus_score(list(hypotheses), [list(r) for r in references])
    return Bleu(score.score, _signature(metric.get_signature(), references, reference_length))


def paired_bootstrap(
    system: Sequence[str],
    baseline: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    lowercase: bool = False,
    tokenize: str = "13a",
    reference_length: str = "closest",
    samples: int = SAMPLES,
) -> Significance:
    """Test ``system`` against ``baseline`` by sacreBLEU's paired bootstrap (Koehn 2004), with ``$SACREBLEU_SEED``.

    Without a difference, as of a system and itself, p is 1, where sacreBLEU has 1 / (1 + samples).
    """
    named: list[tuple[str, Sequence[str]]] = [("baseline", list(baseline)), ("system", list(system))]
    metrics = {"BLEU": _metric(lowercase, tokenize, reference_length)}
    test = PairedTest(named, metrics, [list(r) for r in references], test_type="bs", n_samples=samples)
    signatures, scores = test()
    before, after = scores["BLEU"]
    difference = after.score - before.score  # type: ignore[union-attr]
    p_value = after.p_value if difference else 1.0  # type: ignore[union-attr]
    signature = _signature(signatures["BLEU"], references, reference_length)
    return Significance(float(p_value if p_value is not None else 1.0), float(difference), signature)


def pooled_bleu(
    systems: Sequence[Sequence[str]],
    baselines: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    *,
    lowercase: bool = False,
    tokenize: str = "13a",
    reference_length: str = "closest",
) -> tuple[Bleu, Significance | None]:
    """Return BLEU of the outputs of several trainings together, and its paired bootstrap against those of a baseline.

    The score is that of all outputs as one corpus. Sentences are resampled, each with all its outputs, because the
    outputs of one sentence are not independent. The trainings stay as they are: p says nothing of other seeds. Without
    ``baselines`` there is no test.
    """
    metric = _metric(lowercase, tokenize, reference_length)
    documents = [list(reference) for reference in references]

    def statistics(outputs: Sequence[Sequence[str]]) -> np.ndarray:
        """Return of each sentence the sums of what BLEU counts over all outputs."""
        return sum(np.array(metric._extract_corpus_statistics(list(lines), documents)) for lines in outputs)  # type: ignore[return-value]

    def score(sums: np.ndarray) -> float:
        return float(metric._compute_score_from_stats(sums.tolist()).score)

    ours = statistics(systems)
    found = Bleu(score(ours.sum(0)), _signature(metric.get_signature(), references, reference_length))
    return found, bootstrap_of_statistics(ours, statistics(baselines), score) if baselines else None


@dataclass(frozen=True)
class NgramBleu:
    """BLEU of the n-grams of one order alone, 0 to 100, and its test against a baseline's where there is one."""

    order: int
    score: float
    signature: str
    against: Significance | None = None


def bleu_by_order(
    system: Sequence[str],
    baseline: Sequence[str] | None,
    references: Sequence[Sequence[str]],
    *,
    lowercase: bool = False,
    tokenize: str = "13a",
    reference_length: str = "closest",
) -> list[NgramBleu]:
    """Return for each n of ``ORDERS`` the BLEU of n-grams alone, with its paired bootstrap against a baseline's.

    ``BLEU_n = 100 · BP · m_n / t_n``: of the t_n n-grams of the system's output m_n are in the references, clipped as
    BLEU does, and BP is the brevity penalty. It is the "individual n-gram score" of NIST's mteval; BLEU itself is the
    geometric mean of those of 1 to 4, with one BP. Nothing is smoothed: without a match the score is 0.
    """
    metric = _metric(lowercase, tokenize, reference_length, max_ngram_order=max(ORDERS), smooth_method="none")
    documents = [list(reference) for reference in references]

    def statistics(lines: Sequence[str]) -> np.ndarray:
        """Return of each sentence its length, its reference's, then matches and totals of each order."""
        return np.array(metric._extract_corpus_statistics(list(lines), documents))

    ours = statistics(system)
    theirs = None if baseline is None else statistics(baseline)
    signature = _signature(metric.get_signature(), references, reference_length)
    found = []
    for order in ORDERS:

        def score(sums: np.ndarray, order: int = order) -> float:
            size, expected, matches, total = sums[[0, 1, 1 + order, 1 + len(ORDERS) + order]].tolist()
            penalty = min(1.0, math.exp(1 - expected / size)) if size else 0.0
            return 100 * penalty * matches / total if total else 0.0

        against = None if theirs is None else bootstrap_of_statistics(ours, theirs, score)
        found.append(NgramBleu(order, score(ours.sum(0)), f"{signature}|order:{order}", against))
    return found


def join_dashes(line: str) -> str:
    """Return a line with the words joined that Moses' option ``-a`` splits at dashes: ``X @-@ Y`` becomes ``X-Y``.

    WMT's training text is split this way; the papers' BLEU is on tokens that are not.
    """
    return line.replace(" @-@ ", "-")


def split_compounds(line: str) -> str:
    """Return a line with compounds split, as Perl's ``s{(\\S)-(\\S)}{$1 ##AT##-##AT## $2}g`` does.

    Matches do not overlap: a-b-c is split at the first dash only. Perl reads bytes: a-é-b, where é is two, at both.
    """
    return re.sub(rb"(\S)-(\S)", rb"\1 ##AT##-##AT## \2", line.encode()).decode()


def of_length(sources: Sequence[str], above: int, up_to: int | None) -> list[int]:
    """Return the numbers of the sentences with more than ``above`` words, and at most ``up_to`` (None: any)."""
    sizes = [len(line.split()) for line in sources]
    return [number for number, size in enumerate(sizes) if above < size and (up_to is None or size <= up_to)]
