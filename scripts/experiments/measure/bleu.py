"""BLEU by sacreBLEU: counts by sentence, tokeniser by language, several references, groups by length, compounds."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from experiments.measure.generated import ScoreError

REFERENCE_LENGTHS = ("closest", "shortest")
TOKENISERS = {"zh": "zh", "ja": "ja-mecab"}  # sacreBLEU's, by language; of all others 13a
LENGTHS = (10, 20, 30, 40, 50)  # upper bounds in words of the groups by source length but the last; Cui et al. 2019
FEWEST = 10  # sentences of a group whose BLEU is shown; the CSV has all groups
# Orders of n-grams, as in Figure 3 of Yang et al. 2019 and Figure 2 of Hao et al. 2019.
ORDERS = range(1, 9)
OF_BLEU = [0, 1, *range(2, 6), *range(2 + len(ORDERS), 6 + len(ORDERS))]  # the counts of BLEU itself, orders 1 to 4


class _ShortestBLEU(BLEU):
    """BLEU whose brevity penalty takes the shortest reference of each sentence, as NIST's mteval before version 12."""

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[int]:
        shortest = {**ref_kwargs, "ref_lens": [min(ref_kwargs["ref_lens"])]}
        return super()._compute_segment_statistics(hypothesis, shortest)


def _metric(lowercase: bool, tokenize: str, reference_length: str, **more: Any) -> BLEU:
    kind = _ShortestBLEU if reference_length == "shortest" else BLEU
    try:
        return kind(lowercase=lowercase, tokenize=tokenize, force=tokenize == "none", **more)
    except RuntimeError:  # sacreBLEU found no MeCab
        raise ScoreError(
            f"sacreBLEU's tokeniser {tokenize} needs MeCab, which is not installed: pip install -e '.[ja]'"
        ) from None


class Counter:
    """Counts of BLEU by sentence against given references, and the scores that follow from their sums.

    The counts of a sentence are its length, its reference's length, then for each order of ``ORDERS`` the n-grams that
    match, clipped as BLEU does, and then for each order all n-grams of the sentence.

    Args:
        references: one or more reference documents.
        tokenize: sacreBLEU's tokeniser; 'none' takes the tokens as they are.
        reference_length: which of several references the brevity penalty takes, by sentence (``REFERENCE_LENGTHS``).
        output: ``text`` where joined subwords are counted without detokenisation; a part of ``identity``.
    """

    def __init__(
        self,
        references: Sequence[Sequence[str]],
        *,
        lowercase: bool = False,
        tokenize: str = "13a",
        reference_length: str = "closest",
        output: str = "",
    ):
        documents = [list(reference) for reference in references]
        rules: dict[str, Any] = {"lowercase": lowercase, "tokenize": tokenize, "reference_length": reference_length}
        self._bleu = _metric(references=[document[:1] for document in documents], **rules)  # for scores and signature
        self._by_order = _metric(references=documents, max_ngram_order=max(ORDERS), smooth_method="none", **rules)
        self._length = f"|reflen:{reference_length}" if len(documents) > 1 else ""
        self._output = f"|output:{output}" if output else ""
        self._texts = hashlib.sha256(json.dumps(documents).encode()).hexdigest()[:16]
        self.sentences = len(documents[0])

    @property
    def signature(self) -> str:
        """sacreBLEU's signature, which says how BLEU is counted."""
        return f"{self._bleu.get_signature()}{self._length}"

    @property
    def signature_by_order(self) -> str:
        """Signature of BLEU by order, which is not smoothed."""
        return f"{self._by_order.get_signature()}{self._length}"

    @property
    def identity(self) -> str:
        """Rules and references: counts of counters with equal identities can be compared."""
        return re.sub(r"\|version:[^|]*", "", self.signature_by_order) + f"{self._output}|references:{self._texts}"

    def counts(self, lines: Sequence[str]) -> np.ndarray:
        """Return the counts of a document, of shape (sentences, 2 + 2 · orders)."""
        return np.array(self._by_order._extract_corpus_statistics(list(lines), None))

    def bleu(self, sums: np.ndarray) -> float:
        """Return sacreBLEU, 0 to 100, from the sums of counts over sentences."""
        return float(self._bleu._compute_score_from_stats(sums[OF_BLEU].tolist()).score)

    def bleu_of_order(self, sums: np.ndarray, order: int) -> float:
        """Return the BLEU of the n-grams of one order alone, ``100 · BP · m_n / t_n``.

        m_n of the output's t_n n-grams match, and BP is the brevity penalty. It is the "individual n-gram score"
        of NIST's mteval; BLEU itself is the geometric mean of those of 1 to 4, with one BP. Nothing is smoothed: where
        nothing matches, the score is 0.
        """
        size, expected, matches, total = sums[[0, 1, 1 + order, 1 + len(ORDERS) + order]].tolist()
        penalty = min(1.0, math.exp(1 - expected / size)) if size else 0.0
        return 100 * penalty * matches / total if total else 0.0


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


def length_groups(bounds: Sequence[int]) -> dict[str, tuple[int, int | None]]:
    """Return metric → (above, up to) of each group by length, in words; None: any number."""
    pairs = list(zip((0, *bounds), (*bounds, None), strict=True))
    return {f"bleu_{above}" + ("" if up_to is None else f"_{up_to}"): (above, up_to) for above, up_to in pairs}


def of_length(sources: Sequence[str], above: int, up_to: int | None) -> list[int]:
    """Return the numbers of the sentences with more than ``above`` words, and at most ``up_to`` (None: any)."""
    sizes = [len(line.split()) for line in sources]
    return [number for number, size in enumerate(sizes) if above < size and (up_to is None or size <= up_to)]


def group_size(signature: str) -> int | None:
    """Return how many sentences a score's signature ends with, '…|sentences:45'; None for others."""
    number = signature.rpartition("sentences:")[2]
    return int(number) if number.isdigit() else None
