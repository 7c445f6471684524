"""Score what a model has written: BLEU, ROUGE, accuracy or perplexity, also against a baseline's output.

    python scripts/score.py GENERATE.txt --reference raw/test.en [--target en] [--tokenised tok/test.en]
                            [--bpe subword_nmt|sentencepiece|wordpiece|none] [--lowercase]
                            [--by-length [WORDS] [--source FILE]] [--by-ngram]
    python scripts/score.py GENERATE.txt --reference raw/test.en.ref0 --reference raw/test.en.ref1 ... \\
                            [--tokenised tok/test.en.ref0 ...] [--reference-length closest|shortest]
    python scripts/score.py SEED1.txt SEED2.txt ... --reference raw/test.en
                            [--baseline OTHER1.txt --baseline OTHER2.txt ...]
    python scripts/score.py GENERATE.txt --metric rouge --reference tok/test.summary --bpe wordpiece
    python scripts/score.py --metric lead3 --source raw/test.article.sentences --reference tok/test.summary
    python scripts/score.py PREDICTIONS --metric accuracy        (from analysis/accuracy.py --predictions)
    python scripts/score.py LOG --metric perplexity              (from fairseq-eval-lm)

OUTPUT is that of fairseq-generate, or of fairseq-interactive for the lines of the test set; text files may be .gz.
BLEU is sacreBLEU on detokenised text against the raw reference, with its signature (tokeniser 13a; zh, ja: their own).
chrF is sacreBLEU's on the same text. COMET is not included: it needs a trained model of its own.
Pieces of SentencePiece join to text, and are not detokenised unless --tokenised is another text than --reference.
--tokenised adds BLEU on the tokens as they are (as multi-bleu.perl counts), with --target de or fr also after
compound splitting. --by-length adds BLEU by the number of source words (10,20 makes three groups: up to 10, up to 20,
longer), --by-ngram BLEU of the n-grams of each order from 1 to 8 alone. --baseline tests against another system: BLEU,
chrF, ROUGE by paired bootstrap, accuracy by McNemar's test. Several outputs are those of several seeds, whose BLEU is
counted and tested over all of them together: sentences are resampled, the trainings are not. In the place of an output
may stand its counts of BLEU, a file of results/counts.
An output in which a sentence is missing or doubled is an error.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from experiments.measure.bleu import LENGTHS, REFERENCE_LENGTHS
from experiments.measure.generated import BPE_KINDS, ScoreError, language_of
from experiments.measure.metrics import metric_name
from experiments.measure.predictions import accuracy, perplexity
from experiments.measure.scoring import TestSet, chrf, lead3, pooled, summarization
from experiments.measure.significance import Measurement, drawn
from experiments.system.options import OneLineParser


def _bleu(args: argparse.Namespace) -> list[Measurement]:
    test = TestSet(
        args.reference,
        language_of(args.target),
        bpe=args.bpe,
        lowercase=args.lowercase,
        tokenised=args.tokenised or (),
        reference_length=args.reference_length,
        source=args.source,
    )
    found = pooled(args.output, test, args.baseline, by_length=args.by_length, by_ngram=args.by_ngram)
    behind = 1 + [measured.metric for measured in found].index("sacrebleu")
    found[behind:behind] = chrf(args.output, test, args.baseline)
    return found


OF_BLEU = {"target", "tokenised", "bpe", "lowercase", "by_length", "by_ngram", "source", "reference_length", "baseline"}
# Metric → what counts it, the arguments that it needs, and those that it may have as well.
METRICS: dict[str, tuple[Callable[[argparse.Namespace], list[Measurement]], set[str], set[str]]] = {
    "bleu": (_bleu, {"output", "reference"}, OF_BLEU),
    "rouge": (
        lambda args: summarization([*args.output, *args.baseline], args.reference[0], args.bpe),
        {"output", "reference"},
        {"bpe", "baseline"},
    ),
    "lead3": (lambda args: lead3(args.source, args.reference[0]), {"source", "reference"}, set()),
    "accuracy": (lambda args: [accuracy(*map(Path, args.output + args.baseline))], {"output"}, {"baseline"}),
    "perplexity": (lambda args: [perplexity(*map(Path, args.output + args.baseline))], {"output"}, {"baseline"}),
}


def check(args: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Raise ScoreError for an argument that is missing, or that changes nothing."""
    _, needed, allowed = METRICS[args.metric]
    given = {name for name, value in vars(args).items() if value != parser.get_default(name)} - {"metric", "json"}
    for name in sorted(needed - given):
        raise ScoreError(f"--metric {args.metric} needs {_flag(name)}")
    for name in sorted(given - needed - allowed):
        raise ScoreError(f"{_flag(name)} changes nothing with --metric {args.metric}")
    if args.metric != "bleu" and len(args.reference or []) > 1:
        raise ScoreError(f"--metric {args.metric} takes one --reference")
    if not re.fullmatch("[a-z]{2}", language_of(args.target)):
        raise ScoreError(
            f"--target {args.target}: give the code of two letters of a language, such as de; xx where it has none"
        )
    several = len(args.output) > 1
    if args.metric != "bleu" and (several or len(args.baseline) > 1):
        raise ScoreError(f"--metric {args.metric} takes one output, and one --baseline")
    if len(args.baseline) > 1 and not several:
        raise ScoreError("several --baseline need several outputs")
    for path in (*args.output, *args.baseline):
        if (args.output + args.baseline).count(path) > 1:
            raise ScoreError(f"{path}: is given twice")
    if args.source and args.metric == "bleu" and not args.by_length:
        raise ScoreError("--source changes nothing without --by-length")


def _flag(name: str) -> str:
    return "OUTPUT, the file to score" if name == "output" else f"--{name.replace('_', '-')}"


def _bounds(text: str) -> tuple[int, ...]:
    """Return '10,20' as numbers. Raises ArgumentTypeError, which argparse shows."""
    try:
        found = tuple(map(int, text.split(",")))
    except ValueError:
        found = ()
    if not found or not all(low < high for low, high in itertools.pairwise((0, *found))):
        raise argparse.ArgumentTypeError(f"{text!r}: give numbers of words in ascending order, such as 10,20,40")
    return found


def as_text(output: Sequence[str], found: Sequence[Measurement]) -> str:
    """Return the measurements as lines for reading."""
    lines = [" ".join(output)]
    for measured in found:
        interval = "" if measured.low is None else f" ({measured.low:.2f} to {measured.high:.2f})"
        lines.append(f"{metric_name(measured.metric)} {measured.score:.2f}{interval}  {measured.signature}")
        if measured.difference is not None:
            tested = "" if measured.p_value is None else f", p = {measured.p_value:.4f} by {_test_of(measured.metric)}"
            lines.append(f"    against the baseline: {measured.difference:+.2f}{tested}")
    return "\n".join(lines)


def _test_of(metric: str) -> str:
    return "McNemar's test" if metric == "accuracy" else f"paired bootstrap ({drawn()})"


def make_parser() -> OneLineParser:
    form = argparse.RawDescriptionHelpFormatter
    parser = OneLineParser(prog="score", description=__doc__, formatter_class=form)
    add = parser.add_argument
    add("output", nargs="*", default=[], help="outputs of fairseq-generate, one a seed; accuracy: predictions; "
        "perplexity: the log")  # fmt: skip
    add("--metric", choices=METRICS, default="bleu", help="default: bleu")
    add("--reference", type=Path, action="append", help="raw reference, one sentence a line; or several")
    add("--target", default="en", help="language of the reference, for detokenisation (default: en)")
    add("--baseline", action="append", default=[], help="output of the system to test against; once for each seed")
    add("--tokenised", type=Path, action="append", help="tokenised references: tokenised BLEU as well")
    add("--reference-length", choices=REFERENCE_LENGTHS, default="closest",
        help="which of several references the brevity penalty looks at (default: closest)")  # fmt: skip
    add("--bpe", choices=BPE_KINDS, default="subword_nmt", help="default: subword_nmt")
    add("--lowercase", action="store_true", help="compare without case")
    add("--by-length", nargs="?", type=_bounds, default=(), const=LENGTHS, metavar="WORDS",
        help="BLEU by the number of source words as well, in groups up to these and longer "
        f"(default: {','.join(map(str, LENGTHS))})")  # fmt: skip
    add("--by-ngram", action="store_true", help="BLEU of the n-grams of each order alone as well")
    add("--source", type=Path, help="lead3: the articles; by length: sources with words apart")
    add("--json", action="store_true")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser()
    args = parser.parse_args(argv)
    logging.disable(logging.INFO)  # of fairseq
    try:
        check(args, parser)
        found = METRICS[args.metric][0](args)
    except ScoreError as error:
        print(f"score: {error}", file=sys.stderr)
        return 2
    output = args.output or [str(args.source)]
    if args.json:
        print(json.dumps({"output": output, "measurements": list(map(asdict, found))}, indent=2))
    else:
        print(as_text(output, found))
    return 0
