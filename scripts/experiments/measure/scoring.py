"""All scores of one output on a test set, with the difference to a baseline's output."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics.chrf import CHRF

from experiments.data.prepared import Prepared
from experiments.measure import rouge
from experiments.measure.bleu import (
    ORDERS,
    TOKENISERS,
    Counter,
    join_dashes,
    length_groups,
    of_length,
    split_compounds,
)
from experiments.measure.counts import is_counts, read_counts, save_counts
from experiments.measure.generated import (
    ScoreError,
    detokenise,
    language_of,
    pieces_of_text,
    read_as_long,
    read_generated,
    read_hypotheses,
    read_lines,
    remove_bpe,
)
from experiments.measure.significance import Measurement, measured

COMPOUNDS = ("de", "fr")  # languages whose BLEU is also counted with words split at their dashes, as papers have it


@dataclass(frozen=True)
class TestSet:
    """References of a test set, and how outputs are compared with them.

    Args:
        paths: one or several references in raw text, one sentence a line.
        language: of the reference; it decides detokenisation and sacreBLEU's tokeniser.
        bpe: how subwords of outputs are joined, of ``generated.BPE_KINDS``.
        lowercase: compare without case.
        tokenised: the same references in tokens, for tokenised BLEU.
        reference_length: which of several references the brevity penalty takes, of ``bleu.REFERENCE_LENGTHS``.
        source: source sentences in words, for BLEU by length; without it they are taken from the output.
    """

    __test__ = False  # not a pytest class

    paths: Sequence[Path]
    language: str
    bpe: str = "subword_nmt"
    lowercase: bool = False
    tokenised: Sequence[Path] = ()
    reference_length: str = "closest"
    source: Path | None = None

    @classmethod
    def of(cls, data: Prepared, subset: str = "test") -> TestSet:
        """Return what translations of a prepared test set are scored against."""
        # Pieces of raw text have no tokens.
        tokenised = data.references("tok", subset) if (data.folder / "tok").is_dir() else ()
        paths = data.references("raw", subset)
        return cls(paths, language_of(data.target), data.bpe, lowercase=data.lowercase, tokenised=tokenised)

    def raw(self) -> list[str]:
        """Return the raw reference, of several the first. Raises ScoreError where it is empty."""
        lines = read_lines(self.paths[0])
        if not lines:
            raise ScoreError(f"{self.paths[0]}: is empty")
        return lines

    def references(self) -> list[list[str]]:
        """Return all raw references. Raises ScoreError unless they have equally many lines."""
        return [self._aligned(path) for path in self.paths]

    def tokenised_references(self) -> list[list[str]]:
        """Return all tokenised references, with dashes joined as by ``words``; none without ``tokenised``.

        Raises ScoreError unless they are as many, and as long, as the raw ones.
        """
        if self.tokenised and len(self.tokenised) != len(self.paths):
            given = f"{len(self.tokenised)} tokenised references, but {len(self.paths)} raw ones"
            raise ScoreError(f"{self.tokenised[0]}: {given}: the same ones are needed of both kinds")
        return [list(map(join_dashes, self._aligned(path))) for path in self.tokenised]

    def _aligned(self, path: Path) -> list[str]:
        return read_as_long(path, self.paths[0], len(self.raw()))

    def hypotheses(self, path: str | Path) -> list[str]:
        """Return the hypotheses of fairseq-generate's output as text."""
        return self.as_text(self.tokens(path))

    @property
    def of_text(self) -> bool:
        """Whether joined subwords are text already: SentencePiece's, unless the reference in tokens is another text."""
        of_text = not self.tokenised or read_lines(self.tokenised[0]) == self.raw()
        return of_text and pieces_of_text(self.bpe, self.language)

    def as_text(self, lines: Sequence[str]) -> list[str]:
        """Return joined subwords as text: detokenised, unless they are text already."""
        return list(lines) if self.of_text else detokenise(lines, self.language)

    def tokens(self, path: str | Path) -> list[str]:
        """Return the tokenised hypotheses, with subwords joined."""
        return read_hypotheses(path, len(self.raw()), self.bpe)

    def words(self, path: str | Path) -> list[str]:
        """Return the tokenised hypotheses as tokenised BLEU counts them, with split dashes joined."""
        return list(map(join_dashes, self.tokens(path)))

    def sources(self, output: str | Path) -> list[str]:
        """Return the source sentences in words, from ``source`` or from ``output``. Raises ScoreError."""
        if self.source is not None:
            return self._aligned(self.source)
        if is_counts(output):
            raise ScoreError(f"{output}: counts have no sources: give --source with a file that has")
        lines = [remove_bpe(line, self.bpe) for line in read_generated(output, len(self.raw()), "S")]
        if not any(" " in line for line in lines):
            raise ScoreError(f"{output}: its sources have no words apart: give --source with a file that has")
        return lines


def counters_of(test: TestSet) -> dict[str, Counter]:
    """Return metric → counter for each BLEU that applies; the first is also counted by length and by n-gram.

    The metrics are ``tokenised_bleu`` with one tokenised reference or ``multi_bleu`` with several, ``compound_bleu``
    for German and French with tokenised references, and ``sacrebleu``.
    """
    found = {}
    rules: dict[str, Any] = {"lowercase": test.lowercase, "reference_length": test.reference_length}
    if references := test.tokenised_references():
        name = "multi_bleu" if len(references) > 1 else "tokenised_bleu"
        found[name] = Counter(references, tokenize="none", **rules)
        if test.language in COMPOUNDS:
            split = [list(map(split_compounds, lines)) for lines in references]
            found["compound_bleu"] = Counter(split, tokenize="none", **rules)
    rules |= {"tokenize": TOKENISERS.get(test.language, "13a"), "output": "text" if test.of_text else ""}
    found["sacrebleu"] = Counter(test.references(), **rules)
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


def translation(
    output: str | Path, test: TestSet, baseline: str | Path | None = None, **more: Any
) -> list[Measurement]:
    """Return :func:`pooled` of one output, tested against a baseline's if given."""
    return pooled([output], test, [] if baseline is None else [baseline], **more)


def pooled(
    outputs: Sequence[str | Path],
    test: TestSet,
    baselines: Sequence[str | Path],
    *,
    by_length: Sequence[int] = (),
    by_ngram: bool = False,
) -> list[Measurement]:
    """Return every BLEU that applies (``counters_of``), each tested against a baseline's if given.

    ``outputs`` and ``baselines`` are fairseq-generate's, or files of counts, one a seed. The score is that of all
    outputs as one corpus. Sentences are resampled, each with all its outputs, because the outputs of one sentence are
    not independent. The trainings stay as they are: p says nothing of other seeds.

    With ``by_length``, bounds in ascending order, the first metric is also counted by the number of source words, as
    ``bleu_0_10`` to ``bleu_50``, for the lengths that there are; with ``by_ngram`` for the n-grams of each order alone,
    as ``bleu_ngram_1`` to ``bleu_ngram_8``. Raises ScoreError.
    """
    counters = counters_of(test)
    ours, theirs = (_summed([counts_of(path, test, counters) for path in paths]) for paths in (outputs, baselines))
    found = [
        measured(name, counter.signature + split, counter.bleu, system=ours[name], baseline=theirs.get(name))
        for name, counter in counters.items()
        for split in ("|compounds:split" if name == "compound_bleu" else "",)
    ]
    name, counter = next(iter(counters.items()))
    system, other = ours[name], theirs.get(name)
    if by_length:
        sources = test.sources(outputs[0])
        for part, bounds in length_groups(by_length).items():
            if numbers := of_length(sources, *bounds):
                note = f"{counter.signature}|sentences:{len(numbers)}"
                than = None if other is None else other[numbers]
                found.append(measured(part, note, counter.bleu, system=system[numbers], baseline=than))
    for order in ORDERS if by_ngram else ():
        score = functools.partial(counter.bleu_of_order, order=order)
        note = f"{counter.signature_by_order}|order:{order}"
        found.append(measured(f"bleu_ngram_{order}", note, score, system=system, baseline=other))
    return found


def _summed(counts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.sum([each[name] for each in counts], axis=0) for name in (counts[0] if counts else ())}


def chrf(outputs: Sequence[str | Path], test: TestSet, baselines: Sequence[str | Path] = ()) -> list[Measurement]:
    """Return sacreBLEU's chrF of the outputs' text, of several seeds together, tested against a baseline's as BLEU is.

    Files of BLEU's counts hold no text: such an output has no chrF, and against such a baseline there is no test.
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
    return [measured("chrf", str(metric.get_signature()), score, system=counts(outputs), baseline=baseline)]


def summarization(outputs: Sequence[str | Path], reference: Path, bpe: str = "subword_nmt") -> list[Measurement]:
    """Return ROUGE of the summaries in fairseq-generate's output, each tested against that of a baseline, if given.

    The metrics are those of ``rouge.METRICS``, F1 in percent, and ``rouge.SWAPPED``, for comparison with scores that
    were counted so; it is not tested. Raises ScoreError.
    """
    references = _summaries(reference)
    found = [read_hypotheses(path, len(references), bpe) for path in outputs]
    return _rouge(found[0], references, *found[1:])


def lead3(article: Path, reference: Path, sentences: int = 3) -> list[Measurement]:
    """Return ROUGE of the first sentences of each article as its summary. Raises ScoreError."""
    references = _summaries(reference)
    articles = read_as_long(article, reference, len(references))
    return _rouge([rouge.lead(text, sentences) for text in articles], references)


def _summaries(reference: Path) -> list[str]:
    """Return the reference summaries. Raises ScoreError where there are none, or one is empty."""
    lines = read_lines(reference)
    if not lines:
        raise ScoreError(f"{reference}: is empty")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            raise ScoreError(f"{reference}:{number}: an empty summary; nothing can be compared with it")
    return lines


def _rouge(summaries: Sequence[str], references: Sequence[str], *others: Sequence[str]) -> list[Measurement]:
    """Return all metrics of summaries, tested against ``others``, a baseline's, if given."""
    system, *baseline = (rouge.rouge_by_summary(each, references) for each in (summaries, *others))

    def mean(sums: np.ndarray) -> float:
        return float(sums[0]) / len(references)

    found = []
    for at, name in enumerate(rouge.METRICS):
        than = baseline[0][:, [at]] if baseline else None
        found.append(measured(name, rouge.signature(), mean, system=system[:, [at]], baseline=than))
    # With summaries and references in each other's place ROUGE-1 and -2 would not change.
    swapped = rouge.rouge_by_summary(references, summaries)[:, rouge.METRICS.index("rougeL")]
    return [*found, Measurement(rouge.SWAPPED, float(swapped.mean()), f"{rouge.signature()}|arguments:swapped")]
