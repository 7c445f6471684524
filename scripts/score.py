#!/usr/bin/env python
"""BLEU of a translation that fairseq-generate has written.

    python scripts/score.py GENERATE.txt --reference raw/test.en [--target en] [--baseline OTHER.txt]
                            [--tokenised tok/test.en] [--bpe subword_nmt|sentencepiece|none] [--lowercase] [--json]

BLEU is sacreBLEU on detokenised text against the raw reference, with its signature; with --tokenised also BLEU on the
tokens as they are (as multi-bleu.perl counts); with --baseline also the paired bootstrap against that system. A file in
which a sentence is missing or comes twice is an error.
"""

from __future__ import annotations

import needs  # noqa: F401  first: the other imports need what it looks for

# isort: split
import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest
from sacremoses import MosesDetokenizer

BPE_KINDS = ("subword_nmt", "sentencepiece", "none")


class ScoreError(ValueError):
    """Output or reference that cannot be scored; the message names the file and what is wrong with it."""


@dataclass(frozen=True)
class Bleu:
    """A corpus BLEU (0-100) and the sacreBLEU signature that says how it was counted."""

    score: float
    signature: str


@dataclass(frozen=True)
class Significance:
    """Paired bootstrap of a system against a baseline: p is the probability of such a difference if there were none."""

    p_value: float
    difference: float
    signature: str


def read_lines(path: str | Path) -> list[str]:
    """The lines of a text file, split at newlines only (as Moses and fairseq do)."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ScoreError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ScoreError(f"{path}: not UTF-8: {error}") from None
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def read_generated(path: str | Path, size: int, kind: str = "H") -> list[str]:
    """The `size` hypotheses (kind H; S: sources) of fairseq-generate's output as they are, in the data set's order.

    Every sentence 0..size-1 must be there exactly once, and so must the line that fairseq writes last: otherwise
    ScoreError, which names what is missing, twice or unexpected.
    """
    found: dict[int, str] = {}
    finished = False
    marker = re.compile(rf"{kind}-(\d+)\t")
    for number, line in enumerate(read_lines(path), start=1):
        finished = finished or line.startswith("Generate ") and " with beam=" in line
        match = marker.match(line)
        if match is None:
            continue
        index = int(match.group(1))
        fields = line.split("\t")
        if len(fields) != (3 if kind == "H" else 2):
            raise ScoreError(
                f"{path}:{number}: sentence {index}: a line {kind}-{index} that is cut off or not fairseq-generate's"
            )
        if index in found:
            raise ScoreError(
                f"{path}:{number}: sentence {index} comes twice (was the output appended to, or --nbest above 1?)"
            )
        if index >= size:
            raise ScoreError(
                f"{path}:{number}: sentence {index}, but the reference has only {size} lines: another test set?"
            )
        found[index] = fields[-1]
    missing = [index for index in range(size) if index not in found]
    if missing:
        shown = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
        raise ScoreError(
            f"{path}: {len(missing)} of {size} sentences are missing ({shown}): truncated; run fairseq-generate again"
        )
    if not finished:
        raise ScoreError(
            f"{path}: the final line 'Generate ... with beam=...' is missing: truncated; run fairseq-generate again"
        )
    return [found[index] for index in range(size)]


def remove_bpe(line: str, bpe: str = "subword_nmt") -> str:
    """Joins sub-words: '@@ ' of subword-nmt, or SentencePiece's word marks."""
    if bpe == "subword_nmt":
        return (line + " ").replace("@@ ", "").rstrip()
    if bpe == "sentencepiece":
        return line.replace(" ", "").replace("\u2581", " ").strip()
    return line


def detokenise(lines: Sequence[str], language: str) -> list[str]:
    """Moses detokenisation (sacremoses), entities unescaped."""
    moses = MosesDetokenizer(lang=language)
    return [moses.detokenize(line.split()) for line in lines]


def sacre_bleu(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, lowercase: bool = False, tokenize: str = "13a"
) -> Bleu:
    """sacreBLEU of a corpus against one or more reference documents. tokenize='none': the tokens as they are."""
    metric = _metric(lowercase, tokenize)
    score = metric.corpus_score(list(hypotheses), [list(r) for r in references])
    return Bleu(score.score, str(metric.get_signature()))


def _metric(lowercase: bool, tokenize: str) -> BLEU:
    return BLEU(lowercase=lowercase, tokenize=tokenize, force=tokenize == "none")


def paired_bootstrap(
    system: Sequence[str],
    baseline: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    lowercase: bool = False,
    tokenize: str = "13a",
    samples: int = 1000,
) -> Significance:
    """sacreBLEU's paired bootstrap test of `system` against `baseline` (Koehn 2004); SACREBLEU_SEED sets its seed."""
    named: list[tuple[str, Sequence[str]]] = [("baseline", list(baseline)), ("system", list(system))]
    metrics = {"BLEU": _metric(lowercase, tokenize)}
    test = PairedTest(named, metrics, [list(r) for r in references], test_type="bs", n_samples=samples)
    signatures, scores = test()
    before, after = scores["BLEU"]
    p_value = after.p_value  # type: ignore[union-attr]
    difference = after.score - before.score  # type: ignore[union-attr]
    return Significance(float(p_value if p_value is not None else 1.0), float(difference), str(signatures["BLEU"]))


@dataclass(frozen=True)
class TestSet:
    """What outputs are scored against: the raw reference, its language, how the output is to be joined and compared."""

    __test__ = False  # not a pytest class

    reference: Path
    language: str
    bpe: str = "subword_nmt"
    lowercase: bool = False
    tokenised: Path | None = None

    def raw(self) -> list[str]:
        """The raw reference; ScoreError where it is empty."""
        lines = read_lines(self.reference)
        if not lines:
            raise ScoreError(f"{self.reference}: is empty")
        return lines

    def hypotheses(self, path: str | Path) -> list[str]:
        """The detokenised hypotheses of fairseq-generate's output `path`."""
        return detokenise(self.tokens(path), self.language)

    def tokens(self, path: str | Path) -> list[str]:
        """The tokenised hypotheses, sub-words joined."""
        return [remove_bpe(line, self.bpe) for line in read_generated(path, len(self.raw()))]


@dataclass(frozen=True)
class Report:
    """All that score_output() measures; what was not asked for is None."""

    output: str
    sentences: int
    bleu: Bleu
    tokenised: Bleu | None = None
    baseline: Bleu | None = None
    significance: Significance | None = None


def score_output(output: str | Path, test: TestSet, baseline: str | Path | None = None) -> Report:
    """Scores fairseq-generate's `output`, and tests it against the output of a baseline. Raises ScoreError."""
    raw = test.raw()
    hypotheses = test.hypotheses(output)
    tokenised = None
    if test.tokenised is not None:
        tokens = read_lines(test.tokenised)
        if len(tokens) != len(raw):
            raise ScoreError(f"{test.tokenised}: {len(tokens)} lines, but {test.reference} has {len(raw)}")
        tokenised = sacre_bleu(test.tokens(output), [tokens], lowercase=test.lowercase, tokenize="none")
    bleu = sacre_bleu(hypotheses, [raw], lowercase=test.lowercase)
    if baseline is None:
        return Report(str(output), len(raw), bleu, tokenised)
    other = test.hypotheses(baseline)
    significance = paired_bootstrap(hypotheses, other, [raw], lowercase=test.lowercase)
    return Report(
        str(output), len(raw), bleu, tokenised, sacre_bleu(other, [raw], lowercase=test.lowercase), significance
    )


def as_text(report: Report) -> str:
    """The report as lines for reading."""
    lines = [f"{report.output}: {report.sentences} sentences", f"BLEU {report.bleu.score:.2f}  {report.bleu.signature}"]
    if report.tokenised:
        lines.append(f"tokenised BLEU {report.tokenised.score:.2f}  {report.tokenised.signature}")
    if report.baseline and report.significance:
        lines.append(f"baseline BLEU {report.baseline.score:.2f}, difference {report.significance.difference:+.2f}")
        lines.append(f"paired bootstrap p = {report.significance.p_value:.4f}  {report.significance.signature}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="BLEU of a translation that fairseq-generate has written")
    parser.add_argument("output", help="fairseq-generate's output (generate-test.txt)")
    parser.add_argument("--reference", required=True, type=Path, help="raw reference, one sentence a line")
    parser.add_argument("--target", default="en", help="language of the reference, for detokenisation (default: en)")
    parser.add_argument("--baseline", help="output of the system to test against")
    parser.add_argument("--tokenised", type=Path, help="tokenised reference: gives tokenised BLEU as well")
    parser.add_argument("--bpe", choices=BPE_KINDS, default="subword_nmt")
    parser.add_argument("--lowercase", action="store_true", help="compare without case")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    test = TestSet(args.reference, args.target, args.bpe, args.lowercase, args.tokenised)
    try:
        report = score_output(args.output, test, args.baseline)
    except ScoreError as error:
        print(f"score: {error}", file=sys.stderr)
        return 2
    print(json.dumps(asdict(report), indent=2) if args.json else as_text(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
