"""All scores of one output on a test set, with the difference to a baseline's output."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics.chrf import CHRF

from experiments.data.prepared import Prepared
from experiments.measure import rouge
from experiments.measure.bleu import (
    LENGTHS,
    ORDERS,
    Counter,
    join_dashes,
    of_length,
    split_compounds,
    tokeniser_of,
)
from experiments.measure.counts import is_counts, read_counts, save_counts
from experiments.measure.generated import (
    ScoreError,
    detokenise,
    pieces_of_text,
    read_as_long,
    read_generated,
    read_lines,
    remove_bpe,
)
from experiments.measure.significance import drawn, paired_bootstrap

COMPOUNDS = ("de", "fr")  # languages whose BLEU is also counted with words split at their dashes, as papers have it


@dataclass(frozen=True)
class Measurement:
    """One score of a system.

    ``signature`` says how it was counted, ``difference`` and ``p_value`` compare it with a baseline, ``low`` and
    ``high`` are its 95 % interval. BLEU, ROUGE and accuracy are in percent. The paired bootstrap draws 1,000 samples
    with the seed 12345, or ``$SACREBLEU_SEED``.
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


@dataclass(frozen=True)
class TestSet:
    """References of a test set, and how outputs are compared with them.

    Args:
        reference: raw text, one sentence a line.
        language: of the reference; it decides detokenisation and sacreBLEU's tokeniser.
        bpe: how subwords of outputs are joined, of ``generated.BPE_KINDS``.
        lowercase: compare without case.
        tokenised: the reference in tokens, for tokenised BLEU.
        others: more references, of several.
        others_tokenised: the other references in tokens.
        reference_length: which of several references the brevity penalty takes, of ``bleu.REFERENCE_LENGTHS``.
        source: source sentences in words, for BLEU by length; without it they are taken from the output.
    """

    __test__ = False  # not a pytest class

    reference: Path
    language: str
    bpe: str = "subword_nmt"
    lowercase: bool = False
    tokenised: Path | None = None
    others: tuple[Path, ...] = ()
    others_tokenised: tuple[Path, ...] = ()
    reference_length: str = "closest"
    source: Path | None = None

    @classmethod
    def of(cls, data: Prepared, subset: str = "test") -> TestSet:
        """Return what translations of a prepared test set are scored against."""
        raw = data.references("raw", subset)
        # Pieces of raw text have no tokens.
        tok = data.references("tok", subset) if (data.folder / "tok").is_dir() else []
        return cls(
            raw[0],
            data.target,
            data.bpe,
            lowercase=data.lowercase,
            tokenised=tok[0] if tok else None,
            others=tuple(raw[1:]),
            others_tokenised=tuple(tok[1:]),
        )

    def raw(self) -> list[str]:
        """Return the raw reference, of several the first. Raises ScoreError where it is empty."""
        lines = read_lines(self.reference)
        if not lines:
            raise ScoreError(f"{self.reference}: is empty")
        return lines

    def references(self) -> list[list[str]]:
        """Return all raw references. Raises ScoreError unless they are of one length."""
        return [self.raw(), *self._of_raw_length(*self.others)]

    def tokenised_references(self) -> list[list[str]]:
        """Return all tokenised references, with dashes joined as by ``words``; none without ``tokenised``.

        Raises ScoreError unless they are as many, and as long, as the raw ones.
        """
        if self.tokenised is None:
            return []
        if len(self.others_tokenised) != len(self.others):
            given = f"{1 + len(self.others_tokenised)} tokenised references, but {1 + len(self.others)} raw ones"
            raise ScoreError(f"{self.tokenised}: {given}: the same ones are needed of both kinds")
        return [list(map(join_dashes, lines)) for lines in self._of_raw_length(self.tokenised, *self.others_tokenised)]

    def _of_raw_length(self, *paths: Path) -> list[list[str]]:
        size = len(self.raw())
        return [read_as_long(path, self.reference, size) for path in paths]

    def hypotheses(self, path: str | Path) -> list[str]:
        """Return the hypotheses of fairseq-generate's output as text."""
        return self.as_text(self.tokens(path))

    @property
    def of_text(self) -> bool:
        """Whether joined subwords are text already: SentencePiece's, unless the reference in tokens is another text."""
        of_text = self.tokenised is None or read_lines(self.tokenised) == self.raw()
        return of_text and pieces_of_text(self.bpe, self.language)

    def as_text(self, lines: Sequence[str]) -> list[str]:
        """Return joined subwords as text: detokenised, unless they are text already."""
        return list(lines) if self.of_text else detokenise(lines, self.language)

    def tokens(self, path: str | Path) -> list[str]:
        """Return the tokenised hypotheses, with subwords joined."""
        return [remove_bpe(line, self.bpe) for line in read_generated(path, len(self.raw()))]

    def words(self, path: str | Path) -> list[str]:
        """Return the tokenised hypotheses as tokenised BLEU counts them, with split dashes joined."""
        return list(map(join_dashes, self.tokens(path)))

    def sources(self, output: str | Path) -> list[str]:
        """Return the source sentences in words, from ``source`` or from ``output``. Raises ScoreError."""
        size = len(self.raw())
        if self.source is not None:
            return read_as_long(self.source, self.reference, size)
        if is_counts(output):
            raise ScoreError(f"{output}: counts have no sources: give --source with a file that has")
        lines = [remove_bpe(line, self.bpe) for line in read_generated(output, size, "S")]
        if not any(" " in line for line in lines):
            raise ScoreError(f"{output}: its sources have no words apart: give --source with a file that has")
        return lines

    def rules(self, tokenize: str) -> dict[str, Any]:
        """Return the options of ``Counter``."""
        return {"tokenize": tokenize, "lowercase": self.lowercase, "reference_length": self.reference_length}


def counters_of(test: TestSet) -> dict[str, Counter]:
    """Return metric → counter for each BLEU that applies; the first is also counted by length and by n-gram.

    The metrics are ``tokenised_bleu`` with one tokenised reference or ``multi_bleu`` with several, ``compound_bleu``
    for German and French with tokenised references, and ``sacrebleu``.
    """
    found = {}
    if references := test.tokenised_references():
        name = "multi_bleu" if len(references) > 1 else "tokenised_bleu"
        found[name] = Counter(references, **test.rules("none"))
        if test.language in COMPOUNDS:
            split = [list(map(split_compounds, lines)) for lines in references]
            found["compound_bleu"] = Counter(split, **test.rules("none"))
    rules = test.rules(tokeniser_of(test.language))
    found["sacrebleu"] = Counter(test.references(), **rules, output="text" if test.of_text else "")
    return found


def counts_of(path: str | Path, test: TestSet, counters: Mapping[str, Counter]) -> dict[str, np.ndarray]:
    """Return metric → counts of fairseq-generate's output, or those in a file of counts. Raises ScoreError."""
    if is_counts(path):
        return read_counts(path, counters)
    words = test.words(path)
    texts = {"compound_bleu": list(map(split_compounds, words)), "sacrebleu": test.as_text(words)}
    return {name: counter.counts(texts.get(name, words)) for name, counter in counters.items()}


def keep_counts(output: str | Path, test: TestSet, path: Path) -> None:
    """Write the counts of fairseq-generate's output, for tests where the output is gone. Raises ScoreError, OSError."""
    counters = counters_of(test)
    save_counts(path, counts_of(output, test, counters), counters)


def _tested(
    metric: str,
    score: Callable[[np.ndarray], float],
    signature: str,
    *,
    system: np.ndarray,
    baseline: np.ndarray | None,
) -> Measurement:
    """Return a score that follows from sums of counts, with its test against a baseline's counts."""
    found = score(system.sum(0))
    if baseline is None:
        return Measurement(metric, found, signature)
    tested = paired_bootstrap(system, baseline, score)
    return Measurement(metric, found, signature, difference=tested.difference, p_value=tested.p_value)


def translation(
    output: str | Path, test: TestSet, baseline: str | Path | None = None, **more: bool
) -> list[Measurement]:
    """Return :func:`pooled` of one output, tested against a baseline's if given."""
    return pooled([output], test, [] if baseline is None else [baseline], **more)


def pooled(
    outputs: Sequence[str | Path],
    test: TestSet,
    baselines: Sequence[str | Path],
    *,
    by_length: bool = False,
    by_ngram: bool = False,
) -> list[Measurement]:
    """Return every BLEU that applies (``counters_of``), each tested against a baseline's if given.

    ``outputs`` and ``baselines`` are fairseq-generate's, or files of counts, one a seed. The score is that of all
    outputs as one corpus. Sentences are resampled, each with all its outputs, because the outputs of one sentence are
    not independent. The trainings stay as they are: p says nothing of other seeds.

    Of one output, with ``by_length`` the first metric is also counted by the number of source words, as ``bleu_0_10``
    to ``bleu_50``, for the lengths that there are; with ``by_ngram`` for the n-grams of each order alone, as
    ``bleu_ngram_1`` to ``bleu_ngram_8``. Raises ScoreError.
    """
    counters = counters_of(test)
    ours, theirs = (_summed([counts_of(path, test, counters) for path in paths]) for paths in (outputs, baselines))
    found = [
        _tested(name, counter.bleu, counter.signature + split, system=ours[name], baseline=theirs.get(name))
        for name, counter in counters.items()
        for split in ("|compounds:split" if name == "compound_bleu" else "",)
    ]
    name, counter = next(iter(counters.items()))
    system, other = ours[name], theirs.get(name)
    if by_length:
        sources = test.sources(outputs[0])
        for above, up_to in LENGTHS:
            if numbers := of_length(sources, above, up_to):
                part = f"bleu_{above}" if up_to is None else f"bleu_{above}_{up_to}"
                note = f"{counter.signature}|sentences:{len(numbers)}"
                than = None if other is None else other[numbers]
                found.append(_tested(part, counter.bleu, note, system=system[numbers], baseline=than))
    for order in ORDERS if by_ngram else ():
        score = functools.partial(counter.bleu_of_order, order=order)
        note = f"{counter.signature_by_order}|order:{order}"
        found.append(_tested(f"bleu_ngram_{order}", score, note, system=system, baseline=other))
    return found


def _summed(counts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.sum([each[name] for each in counts], axis=0) for name in (counts[0] if counts else ())}


def chrf(outputs: Sequence[str | Path], test: TestSet, baselines: Sequence[str | Path] = ()) -> list[Measurement]:
    """Return sacreBLEU's chrF of the outputs' text, of several seeds together, tested against a baseline's as BLEU is.

    It has no test where a baseline is a file of BLEU's counts, and is not there for such an output: these hold no text.
    Raises ScoreError.
    """
    if any(map(is_counts, outputs)):
        return []
    metric = CHRF(lowercase=test.lowercase, references=test.references())

    def counts(paths: Sequence[str | Path]) -> np.ndarray:
        texts = (test.as_text(test.words(path)) for path in paths)
        return np.sum([metric._extract_corpus_statistics(text, None) for text in texts], axis=0)

    def score(sums: np.ndarray) -> float:
        return float(metric._compute_score_from_stats(sums.tolist()).score)

    baseline = counts(baselines) if baselines and not any(map(is_counts, baselines)) else None
    system = counts(outputs)
    return [_tested("chrf", score, str(metric.get_signature()), system=system, baseline=baseline)]


def summarization(
    output: str | Path,
    reference: Path,
    bpe: str = "subword_nmt",
    baseline: str | Path | None = None,
    scorer: str = "python",
) -> list[Measurement]:
    """Return ROUGE of the summaries in fairseq-generate's output, by ``rouge.METRICS``: F1 in percent.

    The last one is ``rouge.SWAPPED``, for comparison with scores that were counted so; it is not tested. ``scorer`` is
    one of ``rouge.SCORERS``. The paired bootstrap against a baseline's output needs the scorer 'python': the others
    score no single summary. Raises ScoreError.
    """
    references = _summaries(reference)

    def joined(path: str | Path) -> list[str]:
        return [remove_bpe(line, bpe) for line in read_generated(path, len(references))]

    if baseline is None:
        return _unpaired(joined(output), references, scorer)
    if scorer != "python":
        raise ScoreError(f"--scorer {scorer} scores no single summary, which the test against a baseline needs")
    system, other = (rouge.rouge_by_summary(joined(path), references) for path in (output, baseline))
    found = []
    for column, name in enumerate(rouge.METRICS):
        tested = paired_bootstrap(
            system[:, [column]], other[:, [column]], lambda sums: float(sums[0]) / len(references)
        )
        score = float(system[:, column].mean())
        found.append(Measurement(name, score, rouge.signature(), difference=tested.difference, p_value=tested.p_value))
    return [*found, _swapped(joined(output), references, scorer)]


def lead3(article: Path, reference: Path, scorer: str = "python", sentences: int = 3) -> list[Measurement]:
    """Return ROUGE of the first sentences of each article as its summary. Raises ScoreError."""
    references = _summaries(reference)
    articles = read_as_long(article, reference, len(references))
    return _unpaired([rouge.lead(text, sentences) for text in articles], references, scorer)


def _summaries(reference: Path) -> list[str]:
    """Return the reference summaries. Raises ScoreError where there are none, or one is empty."""
    lines = read_lines(reference)
    if not lines:
        raise ScoreError(f"{reference}: is empty")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            raise ScoreError(f"{reference}:{number}: an empty summary; nothing can be compared with it")
    return lines


def _unpaired(summaries: Sequence[str], references: Sequence[str], scorer: str) -> list[Measurement]:
    scores = rouge.rouge(summaries, references, scorer)
    found = [Measurement(name, score, rouge.signature(scorer)) for name, score in scores.items()]
    return [*found, _swapped(summaries, references, scorer)]


def _swapped(summaries: Sequence[str], references: Sequence[str], scorer: str) -> Measurement:
    """Return ROUGE-L with summaries and references in each other's place; ROUGE-1 and -2 would not change."""
    score = rouge.rouge(references, summaries, scorer)["rougeL"]
    return Measurement(rouge.SWAPPED, score, f"{rouge.signature(scorer)}|arguments:swapped")
