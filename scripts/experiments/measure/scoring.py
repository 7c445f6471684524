"""All scores of one output on a test set, with the difference to a baseline's output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments.measure import rouge
from experiments.measure.bleu import (
    LENGTHS,
    Bleu,
    bleu_by_order,
    join_dashes,
    of_length,
    paired_bootstrap,
    pooled_bleu,
    sacre_bleu,
    split_compounds,
    tokeniser_of,
)
from experiments.measure.generated import ScoreError, detokenise, read_as_long, read_generated, read_lines, remove_bpe
from experiments.measure.significance import Significance
from experiments.measure.significance import paired_bootstrap as bootstrap_of_statistics


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
        """Return the detokenised hypotheses of fairseq-generate's output."""
        return detokenise(self.tokens(path), self.language)

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
        lines = [remove_bpe(line, self.bpe) for line in read_generated(output, size, "S")]
        if not any(" " in line for line in lines):
            raise ScoreError(f"{output}: its sources have no words apart: give --source with a file that has")
        return lines

    def rules(self, tokenize: str) -> dict[str, Any]:
        """Return the options of ``sacre_bleu`` and ``paired_bootstrap``."""
        return {"tokenize": tokenize, "lowercase": self.lowercase, "reference_length": self.reference_length}


@dataclass(frozen=True)
class Report:
    """Scores of one output; None where references or a baseline were not given."""

    output: str
    sentences: int
    bleu: Bleu
    tokenised: Bleu | None = None
    baseline: Bleu | None = None
    significance: Significance | None = None


@dataclass(frozen=True)
class _View:
    """Texts that one metric compares: of the system, the baseline (or None) and the references; and its tokeniser."""

    metric: str
    system: list[str]
    baseline: list[str] | None
    references: list[list[str]]
    tokenize: str

    @property
    def note(self) -> str:
        """What is added to the signature of the whole test set."""
        return "|compounds:split" if self.metric == "compound_bleu" else ""

    def only(self, numbers: Sequence[int], metric: str) -> _View:
        """Return the view of the sentences with these numbers, under another metric's name."""

        def chosen(lines: list[str]) -> list[str]:
            return [lines[number] for number in numbers]

        baseline = None if self.baseline is None else chosen(self.baseline)
        return _View(metric, chosen(self.system), baseline, list(map(chosen, self.references)), tokenize=self.tokenize)

    def measure(self, test: TestSet, note: str = "") -> Measurement:
        """Return BLEU with its test against the baseline; ``note`` is added to the signature."""
        rules = test.rules(self.tokenize)
        found = sacre_bleu(self.system, self.references, **rules)
        if self.baseline is None:
            return Measurement(self.metric, found.score, found.signature + note)
        tested = paired_bootstrap(self.system, self.baseline, self.references, **rules)
        return Measurement(
            self.metric,
            found.score,
            found.signature + note,
            difference=tested.difference,
            p_value=tested.p_value,
        )

    def by_order(self, test: TestSet) -> list[Measurement]:
        """Return BLEU of the n-grams of each order, as ``bleu_ngram_1`` to ``bleu_ngram_8``."""
        found = bleu_by_order(self.system, self.baseline, self.references, **test.rules(self.tokenize))
        return [
            Measurement(
                f"bleu_ngram_{each.order}",
                each.score,
                each.signature,
                difference=None if each.against is None else each.against.difference,
                p_value=None if each.against is None else each.against.p_value,
            )
            for each in found
        ]


def _views(output: str | Path, test: TestSet, baseline: str | Path | None) -> list[_View]:
    """Return a view for each metric that applies; the first one is also counted by length and by n-gram."""
    system, other = test.words(output), None if baseline is None else test.words(baseline)
    found = []
    if references := test.tokenised_references():
        name = "multi_bleu" if len(references) > 1 else "tokenised_bleu"
        found.append(_View(name, system, other, references, tokenize="none"))
        if test.language == "de":
            apart = [list(map(split_compounds, lines)) for lines in (system, other or [], *references)]
            found.append(
                _View("compound_bleu", apart[0], None if other is None else apart[1], apart[2:], tokenize="none")
            )
    whole = [None if lines is None else detokenise(lines, test.language) for lines in (system, other)]
    found.append(_View("sacrebleu", whole[0] or [], whole[1], test.references(), tokenize=tokeniser_of(test.language)))
    return found


def translation(
    output: str | Path,
    test: TestSet,
    baseline: str | Path | None = None,
    *,
    by_length: bool = False,
    by_ngram: bool = False,
) -> list[Measurement]:
    """Return every BLEU that applies to fairseq-generate's output, each tested against a baseline's output if given.

    The metrics are ``tokenised_bleu`` with one tokenised reference or ``multi_bleu`` with several, ``compound_bleu``
    for German with tokenised references, and ``sacrebleu``. With ``by_length`` the first of these is also counted by
    the number of source words, as ``bleu_0_10`` to ``bleu_50``, for the lengths that there are; with ``by_ngram`` for
    the n-grams of each order alone, as ``bleu_ngram_1`` to ``bleu_ngram_8``. Raises ScoreError.
    """
    views = _views(output, test, baseline)
    found = [view.measure(test, view.note) for view in views]
    if by_length:
        sources = test.sources(output)
        for above, up_to in LENGTHS:
            if numbers := of_length(sources, above, up_to):
                name = f"bleu_{above}" if up_to is None else f"bleu_{above}_{up_to}"
                found.append(views[0].only(numbers, name).measure(test, f"|sentences:{len(numbers)}"))
    return found + (views[0].by_order(test) if by_ngram else [])


def pooled(outputs: Sequence[str | Path], test: TestSet, baselines: Sequence[str | Path]) -> list[Measurement]:
    """Return every BLEU of :func:`translation` for the outputs of several seeds together, tested against a baseline's.

    Raises ScoreError.
    """
    ours, theirs = ([_views(path, test, None) for path in paths] for paths in (outputs, baselines))
    found = []
    for at, view in enumerate(ours[0]):
        system, baseline = ([views[at].system for views in of] for of in (ours, theirs))
        bleu, tested = pooled_bleu(system, baseline, view.references, **test.rules(view.tokenize))
        found.append(
            Measurement(
                view.metric,
                bleu.score,
                bleu.signature + view.note,
                difference=None if tested is None else tested.difference,
                p_value=None if tested is None else tested.p_value,
            )
        )
    return found


def score_output(output: str | Path, test: TestSet, baseline: str | Path | None = None) -> Report:
    """Return sacreBLEU and tokenised BLEU of fairseq-generate's output, and the test of the first against a baseline's.

    Raises ScoreError.
    """
    raw, rules = test.references(), test.rules(tokeniser_of(test.language))
    hypotheses = test.hypotheses(output)
    tokenised = None
    if references := test.tokenised_references():
        tokenised = sacre_bleu(test.words(output), references, **test.rules("none"))
    report = Report(str(output), len(raw[0]), sacre_bleu(hypotheses, raw, **rules), tokenised)
    if baseline is None:
        return report
    other = test.hypotheses(baseline)
    significance = paired_bootstrap(hypotheses, other, raw, **rules)
    return replace(report, baseline=sacre_bleu(other, raw, **rules), significance=significance)


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
        tested = bootstrap_of_statistics(
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
