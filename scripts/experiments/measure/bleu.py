"""BLEU by sacreBLEU: its tokeniser by language, several references, compound splitting, significance."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from experiments.measure.generated import ScoreError
from experiments.measure.significance import SAMPLES, Significance

REFERENCE_LENGTHS = ("closest", "shortest")
TOKENISERS = {"zh": "zh", "ja": "ja-mecab"}  # all other languages: 13a
# Groups by the source's words, (above, up to), as in Figure 2 of Cui et al. 2019.
LENGTHS = ((0, 10), (10, 20), (20, 30), (30, 40), (40, 50), (50, None))


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


def _metric(lowercase: bool, tokenize: str, reference_length: str) -> BLEU:
    kind = _ShortestBLEU if reference_length == "shortest" else BLEU
    try:
        return kind(lowercase=lowercase, tokenize=tokenize, force=tokenize == "none")
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
