"""Parallel text of any size, read line by line: sources joined, pairs checked, counted, cleaned and divided.

    python -m corpora.text.bitext join OUT.de OUT.en --pair A.de A.en.gz [--pair B.de.sgm B.en.sgm …] [--markup]
    python -m corpora.text.bitext select FOLDER de en --measure TOK/train --take RAW/train [--max 175 --every 23]

`join` writes the pairs of all sources, one after the other. Files are plain or .gz, one sentence a line, or .sgm or
.xml, of which the <seg> are taken, as they stand there. `select` writes the pairs of --take whose tokens in --measure
have lengths that go together: FOLDER/train.LANG, and every n-th of them to FOLDER/valid.LANG. Refused, with file and
line: a file that is missing, empty, cut off or not UTF-8, sides of different length, and lines that do not belong
together.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import os
import re
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from corpora.text.parallel import DataError, as_status
from corpora.text.streams import PROGRESS_SECONDS, decode, read_bytes

Line = tuple[int, str]  # number in its file, from 1, and text

# The logarithms of the lengths of translations correlate: in blocks of 5,000 lines by 0.96 on IWSLT14 De-En (0.69
# with every third line replaced by another), by 0.87 on Multi30k; shifted by one line by 0.15 at most.
BLOCK = 5000
FEWEST = 100  # lines of a file that is judged at all
MIN_CORRELATION = 0.3

MARKUP_LINES = ("<url>", "<talkid>", "<keywords>")  # IWSLT's train.tags: lines without text
_MARKUP_TAGS = re.compile(r"</?(?:title|description)>")  # tags around text
_SEGMENT = re.compile(r"<seg\b([^>]*)>(.*?)</seg>", re.DOTALL | re.IGNORECASE)
_OPENED = re.compile(r"<seg\b", re.IGNORECASE)
MAX_WORD = 1000  # characters, as in Moses' clean-corpus-n.perl


@dataclass(frozen=True)
class Limits:
    """Which pairs Moses' clean-corpus-n.perl keeps: by the tokens of a side, and how often one has the other's.

    With `least` 0 a word may be as long as it likes as well: nothing is left out that the other limits let pass.
    """

    least: int = 1
    most: int | None = None
    ratio: float = 9.0

    def fit(self, first: str, second: str) -> bool:
        """Whether a pair is kept; both are tokens separated by spaces."""
        sides = first.split(), second.split()
        one, two = len(sides[0]), len(sides[1])
        most = self.most if self.most is not None else max(one, two)
        if not (self.least <= one <= most and self.least <= two <= most):
            return False
        if one > self.ratio * two or two > self.ratio * one:
            return False
        return self.least == 0 or all(len(text) <= MAX_WORD or max(map(len, side)) <= MAX_WORD
                   for text, side in zip((first, second), sides, strict=True))  # fmt: skip


def plain_lines(path: Path, encoding: str = "utf-8", open_end: bool = False) -> Iterator[Line]:
    """Yield number and text of each line of a plain or gzip file; raises DataError, for other encodings as well.

    open_end: the last line may have no newline, as in some official files; without it that is a file that was cut off.
    """
    for number, line in read_bytes(path, open_end):
        yield number, decode(path, number, line, encoding)


def segments(path: Path, encoding: str = "utf-8") -> Iterator[Line]:
    """Yield line number and text of each <seg> of an SGML or XML file, plain or gzip.

    White space at the ends is dropped, a line break inside becomes a space; entities (&amp;) stay, as in sacreBLEU and
    in fairseq's recipes. The file is held in memory. Raises DataError, also for a <seg> without its end.
    """
    text = "\n".join(line for _, line in plain_lines(path, encoding, open_end=True))
    found = 0
    for match in _SEGMENT.finditer(text):
        number = text.count("\n", 0, match.start()) + 1
        if _OPENED.search(match[2]):
            raise DataError(f"{path}:{number}: a <seg> without its </seg>: the file is damaged; get it again")
        found += 1
        yield number, re.sub(r"\s*[\r\n]\s*", " ", match[2].strip())
    opened = [match.start() for match in _OPENED.finditer(text)]
    if len(opened) > found:
        number = text.count("\n", 0, opened[-1]) + 1
        raise DataError(f"{path}:{number}: a <seg> without its </seg>: the file was cut off; get it again")
    if not found:
        raise DataError(f"{path}: has no <seg>")


def is_marked_up(path: Path) -> bool:
    """Whether `path` is read by segments() and not by plain_lines()."""
    return path.name.removesuffix(".gz").endswith((".sgm", ".sgml", ".xml"))


def texts(path: Path, encoding: str = "utf-8", open_end: bool = False) -> Iterator[Line]:
    """segments() of an .sgm or .xml file, plain_lines() of any other."""
    return segments(path, encoding) if is_marked_up(path) else plain_lines(path, encoding, open_end)


def without_markup(lines: Iterable[Line]) -> Iterator[Line]:
    """Drop the lines of IWSLT's training text that are no text, and the tags of titles and descriptions."""
    for number, text in lines:
        if not any(tag in text for tag in MARKUP_LINES):
            yield number, _MARKUP_TAGS.sub("", text)


def pairs(first: Path, second: Path, sides: Sequence[Iterable[Line]]) -> Iterator[tuple[Line, Line]]:
    """Yield the lines of two files side by side; raises DataError where one of them ends first.

    sides: the lines of `first` and `second`, such as texts() gives them; the paths are for the message.
    """
    streams = [iter(side) for side in sides]
    count = 0
    for one, two in itertools.zip_longest(*streams):
        if one is None or two is None:
            longer, shorter, line = (second, first, two) if one is None else (first, second, one)
            total = count + 1 + sum(1 for _ in streams[one is None])
            raise DataError(f"{longer}:{line[0]}: misaligned: {total} lines here, {count} in {shorter}")
        count += 1
        yield one, two


def check_lengths(
    first: Path, second: Path, together: Iterable[tuple[Line, Line]], minimum: float = MIN_CORRELATION
) -> Iterator[tuple[Line, Line]]:
    """Hand on the pairs; raises DataError at the end of a block of lines whose lengths do not go together.

    minimum: correlation that every block must have; -1: no check. Pairs that every recipe leaves out, with an empty
    side or one that is many times as long as the other, say nothing of their neighbours and do not count.
    """
    lengths: tuple[list[float], list[float]] = ([], [])
    begin = end = 0
    for one, two in together:
        yield one, two
        sizes = len(one[1].strip()), len(two[1].strip())
        if not min(sizes) or max(sizes) > Limits.ratio * min(sizes):
            continue
        begin, end = begin or two[0], two[0]
        for side, size in zip(lengths, sizes, strict=True):
            side.append(math.log(size))
        if len(lengths[0]) == BLOCK:
            _judge(first, second, lengths, begin, end, minimum)
            lengths, begin = ([], []), 0
    if len(lengths[0]) >= FEWEST:
        _judge(first, second, lengths, begin, end, minimum)


def _judge(
    first: Path, second: Path, lengths: tuple[list[float], list[float]], begin: int, end: int, minimum: float
) -> None:
    with contextlib.suppress(statistics.StatisticsError):  # all lines of a side are equally long
        found = statistics.correlation(*lengths)
        if found < minimum:
            raise DataError(
                f"{second}:{begin}: misaligned with {first}: the lengths of lines {begin} to {end} do not go together "
                f"(correlation {found:.2f}, at least {minimum:g}; --min-correlation -1 takes them as they are)"
            )


@contextlib.contextmanager
def whole_files(paths: Sequence[Path]) -> Iterator[list[TextIO]]:
    """Text files to write, which have their names only when all are complete."""
    parts = [path.with_name(f"{path.name}.part{os.getpid()}") for path in paths]
    try:
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(part.open("w", encoding="utf-8", newline="\n")) for part in parts]
        for part, path in zip(parts, paths, strict=True):
            os.replace(part, path)
    finally:
        for part in parts:
            part.unlink(missing_ok=True)


def join(
    sources: Sequence[tuple[Path, Path]],
    targets: tuple[Path, Path],
    *,
    markup: bool = False,
    min_correlation: float = MIN_CORRELATION,
    open_end: bool = False,
    encoding: str = "utf-8",
) -> list[int]:
    """Write the pairs of all sources to the two targets, and return how many each has; raises DataError.

    markup: drop IWSLT's (without_markup). open_end: see plain_lines.
    """
    counts = []
    with whole_files(targets) as out:
        for first, second in sources:
            sides = [texts(path, encoding, open_end) for path in (first, second)]
            if markup:
                sides = [without_markup(side) for side in sides]
            together = check_lengths(first, second, pairs(first, second, sides), min_correlation)
            count, told = 0, time.monotonic()
            for one, two in together:
                out[0].write(one[1] + "\n")
                out[1].write(two[1] + "\n")
                count += 1
                told = tell(first.name, count, told)
            counts.append(count)
    return counts


def tell(name: str, count: int, told: float) -> float:
    """Say every half minute how many pairs there are; return when it was last said."""
    if count % 10_000 == 0 and time.monotonic() - told > PROGRESS_SECONDS:
        told = time.monotonic()
        print(f"{name}: {count:,} pairs so far", flush=True)
    return told


def select(
    measured: tuple[Path, Path],
    taken: tuple[Path, Path],
    folder: Path,
    langs: tuple[str, str],
    limits: Limits,
    every: int = 0,
    name: str = "train",
) -> dict[str, int]:
    """Write the pairs of `taken` to folder/NAME.LANG whose lines of `measured` fit; return the counts.

    Every n-th of them goes to folder/valid.LANG; none does with `every` 0. 'source' counts all pairs.
    Raises DataError, also where no pair is left.
    """
    splits = (name, "valid") if every else (name,)
    counts = dict.fromkeys(("source", *splits), 0)
    streams = (pairs(*paths, [plain_lines(path) for path in paths]) for paths in (measured, taken))
    told = time.monotonic()
    with whole_files([folder / f"{split}.{lang}" for split in splits for lang in langs]) as out:
        for tokens, lines in itertools.zip_longest(*streams):
            if tokens is None or lines is None:
                raise DataError(f"{taken[0]}: has not as many lines as {measured[0]}")
            counts["source"] += 1
            told = tell(folder.name, counts["source"], told)
            if limits.fit(tokens[0][1], tokens[1][1]):
                kept = sum(counts[split] for split in splits) + 1
                place = 1 if every and kept % every == 0 else 0
                counts[splits[place]] += 1
                for side in (0, 1):
                    out[2 * place + side].write(lines[side][1] + "\n")
        for split in splits:
            if not counts[split]:
                raise DataError(f"{taken[0]}: of {counts['source']:,} pairs none is left for {split}")
    return counts


def compare(name: str, count: int, official: int | None, exact: bool = False) -> None:
    """Print a count beside the one that others found; raises DataError where `exact` and they differ."""
    note = "" if official is None else f" (published: {official:,})"
    if exact and official is not None and count != official:
        raise DataError(
            f"{name}: {count:,} pairs{note}; get the corpus again, or give --no-checksums to take it as it is"
        )
    print(f"{name}: {count:,} pairs{note}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("join", help="write the pairs of all sources to two files")
    one.add_argument("targets", type=Path, nargs=2, metavar="OUT")
    one.add_argument("--pair", type=Path, nargs=2, action="append", required=True, metavar="FILE", help="one source")
    one.add_argument("--markup", action="store_true", help="drop IWSLT's lines without text and its tags")
    one.add_argument("--open-end", action="store_true", help="the last line may have no newline")
    one.add_argument("--min-correlation", type=float, default=MIN_CORRELATION, help="of lengths (default: %(default)s)")
    one.add_argument("--encoding", default="utf-8", help="of the sources (default: %(default)s)")
    one.add_argument("--official", type=int, help="published number of pairs")
    one.add_argument("--exact", action="store_true", help="another number is an error")
    two = commands.add_parser("select", help="write the pairs whose lengths go together, and take validation text out")
    two.add_argument("folder", type=Path)
    two.add_argument("langs", nargs=2, metavar="LANG")
    two.add_argument("--measure", required=True, metavar="PREFIX", help="tokens of the pairs, PREFIX.LANG")
    two.add_argument("--take", required=True, metavar="PREFIX", help="what is written of them, PREFIX.LANG")
    two.add_argument("--min", type=int, default=1, help="tokens of a side (default: %(default)s)")
    two.add_argument("--max", type=int, help="tokens of a side (default: any number)")
    two.add_argument("--ratio", type=float, default=math.inf, help="of the lengths of the two sides (default: any)")
    two.add_argument("--every", type=int, default=0, metavar="N", help="every N-th pair is validation text")
    two.add_argument("--name", default="train", help="of the split that is written (default: %(default)s)")
    two.add_argument("--official", type=int, nargs="+", default=[], help="published numbers of train and valid")
    two.add_argument("--exact", action="store_true", help="other numbers are an error")
    return parser


def _join(args: argparse.Namespace) -> None:
    one, two = args.targets
    counts = join(
        [(first, second) for first, second in args.pair], (one, two), markup=args.markup, open_end=args.open_end,
        min_correlation=args.min_correlation, encoding=args.encoding,
    )  # fmt: skip
    if len(counts) > 1:
        for (first, _), count in zip(args.pair, counts, strict=True):
            compare(first.name, count, None)
    compare(one.stem, sum(counts), args.official, args.exact)


def _select(args: argparse.Namespace) -> None:
    src, tgt = args.langs
    measured, taken = ((Path(f"{prefix}.{src}"), Path(f"{prefix}.{tgt}")) for prefix in (args.measure, args.take))
    limits = Limits(args.min, args.max, args.ratio)
    counts = select(measured, taken, args.folder, (src, tgt), limits, args.every, args.name)
    print(f"{args.folder.name.removesuffix('.part')}: {counts.pop('source'):,} pairs before cleaning", flush=True)
    for (split, count), official in itertools.zip_longest(counts.items(), args.official[: len(counts)]):
        compare(split, count, official, args.exact)


@as_status
def main() -> None:
    args = _parser().parse_args()
    {"join": _join, "select": _select}[args.command](args)


if __name__ == "__main__":
    sys.exit(main())
