"""What a test set's outputs are scored against, and all scores of an output: for score.py and the runners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments.measure import rouge
from experiments.measure.bleu import (
    LENGTHS,
    Bleu,
    join_dashes,
    of_length,
    paired_bootstrap,
    sacre_bleu,
    split_compounds,
    tokeniser_of,
)
from experiments.measure.bootstrap import Significance
from experiments.measure.bootstrap import paired_bootstrap as bootstrap_of_statistics
from experiments.measure.generated import ScoreError, detokenise, read_as_long, read_generated, read_lines, remove_bpe


@dataclass(frozen=True)
class Measurement:
    """One score of a system; `difference` and `p_value` against a baseline, `low` and `high` its 95 % interval.

    BLEU, ROUGE and accuracy are in percent. The signature says how the score was counted; the paired bootstrap draws
    1,000 times, with the seed 12345 unless SACREBLEU_SEED says otherwise.
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
    """What outputs are scored against: the raw reference, its language, how the output is to be joined and compared.

    `others` are further references beside `reference`, `others_tokenised` beside `tokenised`; `reference_length` says
    which of several the brevity penalty looks at (bleu.REFERENCE_LENGTHS). For BLEU by length the words are counted of
    the sentences in the file `source`, or without it of those in fairseq-generate's output.
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
        """The raw reference, the first of several; ScoreError where it is empty."""
        lines = read_lines(self.reference)
        if not lines:
            raise ScoreError(f"{self.reference}: is empty")
        return lines

    def references(self) -> list[list[str]]:
        """All raw references. Raises ScoreError where they are not of one length."""
        return [self.raw(), *self._beside(*self.others)]

    def tokenised_references(self) -> list[list[str]]:
        """All tokenised references, as words() has them; none without `tokenised`.

        ScoreError where they are not as long as the raw.
        """
        if self.tokenised is None:
            return []
        if len(self.others_tokenised) != len(self.others):
            given = f"{1 + len(self.others_tokenised)} tokenised references, but {1 + len(self.others)} raw ones"
            raise ScoreError(f"{self.tokenised}: {given}: the same ones are needed of both kinds")
        return [list(map(join_dashes, lines)) for lines in self._beside(self.tokenised, *self.others_tokenised)]

    def _beside(self, *paths: Path) -> list[list[str]]:
        size = len(self.raw())
        return [read_as_long(path, self.reference, size) for path in paths]

    def hypotheses(self, path: str | Path) -> list[str]:
        """The detokenised hypotheses of fairseq-generate's output `path`."""
        return detokenise(self.tokens(path), self.language)

    def tokens(self, path: str | Path) -> list[str]:
        """The tokenised hypotheses, sub-words joined."""
        return [remove_bpe(line, self.bpe) for line in read_generated(path, len(self.raw()))]

    def words(self, path: str | Path) -> list[str]:
        """The same with dashes joined that the tokenisation has split: what tokenised BLEU is counted on."""
        return list(map(join_dashes, self.tokens(path)))

    def sources(self, output: str | Path) -> list[str]:
        """The source sentences in words: from `source`, or from fairseq-generate's `output`, sub-words joined."""
        size = len(self.raw())
        if self.source is not None:
            return read_as_long(self.source, self.reference, size)
        lines = [remove_bpe(line, self.bpe) for line in read_generated(output, size, "S")]
        if not any(" " in line for line in lines):
            raise ScoreError(f"{output}: its sources have no words apart: give --source with a file that has")
        return lines

    def rules(self, tokenize: str) -> dict[str, Any]:
        """How sacre_bleu() and paired_bootstrap() are to count."""
        return {"tokenize": tokenize, "lowercase": self.lowercase, "reference_length": self.reference_length}


@dataclass(frozen=True)
class Report:
    """All that score_output() measures; what was not asked for is None."""

    output: str
    sentences: int
    bleu: Bleu
    tokenised: Bleu | None = None
    baseline: Bleu | None = None
    significance: Significance | None = None


@dataclass(frozen=True)
class _View:
    """What one metric compares: lines of the system, of the baseline (or None), the references, the tokeniser."""

    metric: str
    system: list[str]
    baseline: list[str] | None
    references: list[list[str]]
    tokenize: str

    def only(self, numbers: Sequence[int], metric: str) -> _View:
        """The same of some sentences."""

        def chosen(lines: list[str]) -> list[str]:
            return [lines[number] for number in numbers]

        baseline = None if self.baseline is None else chosen(self.baseline)
        return _View(metric, chosen(self.system), baseline, list(map(chosen, self.references)), self.tokenize)

    def measure(self, test: TestSet, note: str = "") -> Measurement:
        rules = test.rules(self.tokenize)
        found = sacre_bleu(self.system, self.references, **rules)
        if self.baseline is None:
            return Measurement(self.metric, found.score, found.signature + note)
        tested = paired_bootstrap(self.system, self.baseline, self.references, **rules)
        return Measurement(self.metric, found.score, found.signature + note, tested.difference, tested.p_value)


def _views(output: str | Path, test: TestSet, baseline: str | Path | None) -> list[_View]:
    """One for each metric that applies; of those that are not by length the first is the paper's kind."""
    system, other = test.words(output), None if baseline is None else test.words(baseline)
    found = []
    if references := test.tokenised_references():
        name = "multi_bleu" if len(references) > 1 else "tokenised_bleu"
        found.append(_View(name, system, other, references, "none"))
        if test.language == "de":
            apart = [list(map(split_compounds, lines)) for lines in (system, other or [], *references)]
            found.append(_View("compound_bleu", apart[0], None if other is None else apart[1], apart[2:], "none"))
    whole = [None if lines is None else detokenise(lines, test.language) for lines in (system, other)]
    found.append(_View("sacrebleu", whole[0] or [], whole[1], test.references(), tokeniser_of(test.language)))
    return found


def translation(
    output: str | Path, test: TestSet, baseline: str | Path | None = None, by_length: bool = False
) -> list[Measurement]:
    """Every BLEU that applies to fairseq-generate's `output`, and the paired bootstrap against a baseline's.

    tokenised_bleu with one tokenised reference, multi_bleu with several; compound_bleu beside it where the target is
    German; sacrebleu. by_length: the first of these also by the words of the source, bleu_0_10 to bleu_50; a length
    that no sentence has is left out. Raises ScoreError.
    """
    views = _views(output, test, baseline)
    found = [view.measure(test, "|compounds:split" if view.metric == "compound_bleu" else "") for view in views]
    if by_length:
        sources = test.sources(output)
        for above, up_to in LENGTHS:
            if numbers := of_length(sources, above, up_to):
                name = f"bleu_{above}" if up_to is None else f"bleu_{above}_{up_to}"
                found.append(views[0].only(numbers, name).measure(test, f"|sentences:{len(numbers)}"))
    return found


def score_output(output: str | Path, test: TestSet, baseline: str | Path | None = None) -> Report:
    """sacreBLEU and tokenised BLEU of fairseq-generate's `output`, the first with its test against a baseline's.

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
    """rouge1, rouge2, rougeL and rouge_avg of the summaries in fairseq-generate's `output`; F1 in percent.

    The paired bootstrap against a baseline's output needs the scorer python: the others tell no summary's score.
    scorer: one of rouge.SCORERS. Raises ScoreError.
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
        found.append(Measurement(name, score, rouge.signature(), tested.difference, tested.p_value))
    return found


def lead3(article: Path, reference: Path, scorer: str = "python") -> list[Measurement]:
    """What summarization() measures, of the first three sentences of each article. Raises ScoreError."""
    references = _summaries(reference)
    articles = read_as_long(article, reference, len(references))
    return _unpaired([rouge.lead(text) for text in articles], references, scorer)


def _summaries(reference: Path) -> list[str]:
    """The reference summaries. Raises ScoreError where there are none, or one is empty."""
    lines = read_lines(reference)
    if not lines:
        raise ScoreError(f"{reference}: is empty")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            raise ScoreError(f"{reference}:{number}: an empty summary; nothing can be compared with it")
    return lines


def _unpaired(summaries: Sequence[str], references: Sequence[str], scorer: str) -> list[Measurement]:
    scores = rouge.rouge(summaries, references, scorer)
    return [Measurement(name, score, rouge.signature(scorer)) for name, score in scores.items()]
