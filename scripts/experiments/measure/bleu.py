"""BLEU by sacreBLEU: its tokeniser by language, several references, compound splitting, significance."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from experiments.measure.bootstrap import SAMPLES, Significance
from experiments.measure.generated import ScoreError

REFERENCE_LENGTHS = ("closest", "shortest")
TOKENISERS = {"zh": "zh", "ja": "ja-mecab"}  # all other languages: 13a
# Source words of a sentence: above the first, up to the second (the last: above it alone), as in Figure 2 of MMA.
LENGTHS = ((0, 10), (10, 20), (20, 30), (30, 40), (40, 50), (50, None))


@dataclass(frozen=True)
class Bleu:
    """A corpus BLEU (0-100) and the sacreBLEU signature that says how it was counted."""

    score: float
    signature: str


class _ShortestBLEU(BLEU):
    """The brevity penalty looks at the shortest reference of each sentence, as in NIST's mteval before version 12."""

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[int]:
        shortest = {**ref_kwargs, "ref_lens": [min(ref_kwargs["ref_lens"])]}
        return super()._compute_segment_statistics(hypothesis, shortest)


def tokeniser_of(language: str) -> str:
    """sacreBLEU's tokeniser for a target language."""
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
    """sacreBLEU of a corpus against one or more reference documents. tokenize='none': the tokens as they are.

    reference_length: which reference of several the brevity penalty looks at, by sentence (REFERENCE_LENGTHS).
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
    """sacreBLEU's paired bootstrap test of `system` against `baseline` (Koehn 2004); SACREBLEU_SEED sets its seed.

    Where there is no difference, as of a system with itself, p is 1: sacreBLEU itself has 1 / (1 + samples) there.
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
    """Words that Moses' -a has split at their dashes, as it leaves them without: X @-@ Y is X-Y.

    WMT's training text is split so; papers' BLEU is on tokens that are not (and split_compounds() on these).
    """
    return line.replace(" @-@ ", "-")


def split_compounds(line: str) -> str:
    """Parts of compounds as tokens of their own, as Perl's s{(\\S)-(\\S)}{$1 ##AT##-##AT## $2}g has them.

    In a-b-c it splits only the first, for the b is used up. Perl sees bytes: in a-é-b the é is two, and both are split.
    """
    return re.sub(rb"(\S)-(\S)", rb"\1 ##AT##-##AT## \2", line.encode()).decode()


def of_length(sources: Sequence[str], above: int, up_to: int | None) -> list[int]:
    """The numbers of the sentences that have more than `above` words, and no more than `up_to`."""
    sizes = [len(line.split()) for line in sources]
    return [number for number, size in enumerate(sizes) if above < size and (up_to is None or size <= up_to)]
