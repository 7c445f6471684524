"""Parallel text of any size, read line by line: sources joined, checked, cleaned and divided.

    python -m corpora.text.bitext join OUT.de OUT.en --pair A.de A.en.gz [--pair B.de.sgm B.en.sgm …] [--markup]
    python -m corpora.text.bitext select FOLDER de en --measure TOK/train --take RAW/train [--max 175 --every 23]

`join` writes the pairs of all sources, one source after the other. Files are plain or .gz with one sentence a line, or
.sgm or .xml, of which the text of each <seg> is taken. `select` writes the pairs of --take whose tokens in --measure
have lengths within the limits to FOLDER/train.LANG, and every N-th of them to FOLDER/valid.LANG. Files that are
missing, empty, cut off, not UTF-8, of different length or misaligned are errors that name file and line.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from corpora.errors import DataError, as_status
from corpora.progress import progress
from corpora.text.alignment import MIN_CORRELATION, RATIO, check_lengths, pairs
from corpora.text.lines import own_text, read_lines, whole_files
from corpora.text.markup import read_texts, without_markup

MAX_WORD = 1000  # characters, as in Moses' clean-corpus-n.perl


@dataclass(frozen=True)
class Limits:
    """Lengths of the pairs to keep, as in Moses' clean-corpus-n.perl.

    least, most: tokens of a side; ratio: of the longer side to the shorter one. A pair with a word of more than
    MAX_WORD characters is left out, unless `least` is 0, which keeps all that the other limits allow.
    """

    least: int = 1
    most: int | None = None
    ratio: float = RATIO

    def fit(self, first: str, second: str) -> bool:
        """Return whether a pair is kept; both sides are tokens separated by spaces."""
        sides = first.split(), second.split()
        one, two = len(sides[0]), len(sides[1])
        most = self.most if self.most is not None else max(one, two)
        if not (self.least <= one <= most and self.least <= two <= most):
            return False
        if one > self.ratio * two or two > self.ratio * one:
            return False
        return self.least == 0 or all(len(text) <= MAX_WORD or max(map(len, side)) <= MAX_WORD
                   for text, side in zip((first, second), sides, strict=True))  # fmt: skip


def join(
    sources: Sequence[tuple[Path, Path]],
    targets: tuple[Path, Path],
    *,
    markup: bool = False,
    min_correlation: float = MIN_CORRELATION,
    open_end: bool = False,
    words: bool = False,
) -> list[int]:
    """Write the pairs of all sources to the two targets, and return the number of each; raises DataError.

    markup: drop that of IWSLT's training text. open_end: as in read_bytes, and the text is taken as it is, without the
    checks of own_text. words: as there.
    """
    counts = []
    with whole_files(targets) as out:
        for first, second in sources:
            sides = [read_texts(path, open_end=open_end) for path in (first, second)]
            if markup:
                sides = [without_markup(side) for side in sides]
            if not open_end:
                sides = [own_text(path, side, words) for path, side in zip((first, second), sides, strict=True)]
            together = check_lengths(first, second, pairs(first, second, sides), min_correlation)
            count = 0
            for one, two in progress(together, first.name, "pairs"):
                out[0].write(one[1] + "\n")
                out[1].write(two[1] + "\n")
                count += 1
            counts.append(count)
    return counts


def select(
    measured: tuple[Path, Path],
    taken: tuple[Path, Path],
    folder: Path,
    langs: tuple[str, str],
    *,
    limits: Limits,
    every: int = 0,
    held_out: Sequence[str] = ("valid",),
    name: str = "train",
) -> dict[str, int]:
    """Write the pairs of `taken` whose lines of `measured` fit to folder/NAME.LANG; return the counts by split.

    every: every n-th pair that fits goes to the first split of `held_out` instead, the pair after it to the second one;
    0: none does. The count "source" is that of all pairs. Raises DataError, also where no pair is left.
    """
    splits = (name, *held_out) if every else (name,)
    counts = dict.fromkeys(("source", *splits), 0)
    streams = (pairs(*paths, [read_lines(path) for path in paths]) for paths in (measured, taken))
    together = progress(itertools.zip_longest(*streams), folder.name, "pairs")
    with whole_files([folder / f"{split}.{lang}" for split in splits for lang in langs]) as out:
        for tokens, lines in together:
            if tokens is None or lines is None:
                raise DataError(f"{taken[0]}: has not as many lines as {measured[0]}")
            counts["source"] += 1
            if limits.fit(tokens[0][1], tokens[1][1]):
                kept = sum(counts[split] for split in splits) + 1
                place = 1 + kept % every if every else 0
                place = place if place < len(splits) else 0
                counts[splits[place]] += 1
                for side in (0, 1):
                    out[2 * place + side].write(lines[side][1] + "\n")
        for split in splits:
            if not counts[split]:
                raise DataError(f"{taken[0]}: of {counts['source']:,} pairs none is left for {split}")
    return counts


def report(name: str, count: int, official: int | None) -> None:
    """Print a number of pairs, with the published one where it is known."""
    note = "" if official is None else f" (published: {official:,})"
    print(f"{name}: {count:,} pairs{note}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("join", help="write the pairs of all sources to two files")
    one.add_argument("targets", type=Path, nargs=2, metavar="OUT")
    one.add_argument("--pair", type=Path, nargs=2, action="append", required=True, metavar="FILE", help="one source")
    one.add_argument("--markup", action="store_true", help="drop IWSLT's lines without text and its tags")
    one.add_argument(
        "--open-end", action="store_true", help="official text, as it is; the last line may have no newline"
    )
    one.add_argument("--words", action="store_true", help="it is tokenised: see lines.own_words")
    one.add_argument("--min-correlation", type=float, default=MIN_CORRELATION, help="of lengths (default: %(default)s)")
    one.add_argument("--official", type=int, help="published number of pairs")
    two = commands.add_parser("select", help="write the pairs whose lengths go together, and take validation text out")
    two.add_argument("folder", type=Path)
    two.add_argument("langs", nargs=2, metavar="LANG")
    two.add_argument("--measure", required=True, metavar="PREFIX", help="tokens of the pairs, PREFIX.LANG")
    two.add_argument("--take", required=True, metavar="PREFIX", help="text of the pairs, which is written, PREFIX.LANG")
    two.add_argument("--min", type=int, default=1, help="tokens of a side (default: %(default)s)")
    two.add_argument("--max", type=int, help="tokens of a side (default: any number)")
    two.add_argument("--ratio", type=float, default=math.inf, help="of the lengths of the two sides (default: any)")
    two.add_argument("--every", type=int, default=0, metavar="N", help="every N-th pair is held out")
    two.add_argument("--held-out", nargs="+", default=["valid"], metavar="SPLIT", help="where to (default: valid)")
    two.add_argument("--name", default="train", help="of the split that is written (default: %(default)s)")
    two.add_argument("--official", type=int, nargs="+", default=[], help="published numbers of train and valid")
    return parser


def _join(args: argparse.Namespace) -> None:
    one, two = args.targets
    counts = join(
        [(first, second) for first, second in args.pair], (one, two), markup=args.markup, open_end=args.open_end,
        min_correlation=args.min_correlation, words=args.words,
    )  # fmt: skip
    if len(counts) > 1:
        for (first, _), count in zip(args.pair, counts, strict=True):
            report(first.name, count, None)
    report(one.stem, sum(counts), args.official)


def _select(args: argparse.Namespace) -> None:
    src, tgt = args.langs
    measured, taken = ((Path(f"{prefix}.{src}"), Path(f"{prefix}.{tgt}")) for prefix in (args.measure, args.take))
    limits = Limits(args.min, args.max, args.ratio)
    counts = select(
        measured,
        taken,
        args.folder,
        (src, tgt),
        limits=limits,
        every=args.every,
        held_out=args.held_out,
        name=args.name,
    )
    print(f"{args.folder.name.removesuffix('.part')}: {counts.pop('source'):,} pairs before cleaning", flush=True)
    for (split, count), official in itertools.zip_longest(counts.items(), args.official[: len(counts)]):
        report(split, count, official)


@as_status
def main() -> None:
    args = _parser().parse_args()
    {"join": _join, "select": _select}[args.command](args)


if __name__ == "__main__":
    sys.exit(main())
