"""Parallel text of any size, read line by line: sources checked, joined, cleaned and divided.

Files are plain or .gz with one sentence a line, or .sgm or .xml, of which the text of each <seg> is taken. Files that
are missing, empty, cut off, not UTF-8, of different length or misaligned are errors that name file and line; then
nothing is written.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpora.errors import DataError
from corpora.progress import progress
from corpora.text.alignment import check_lengths, pairs
from corpora.text.lines import Line, decode_text, own_text, own_words, read_bytes, read_lines, whole_files
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
    ratio: float = math.inf

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


@dataclass(frozen=True)
class Rules:
    """How parallel text is read and checked.

    strict: every line must be one line of text, as in validation and test text, and lengths are compared in small
    blocks. manifest: with `strict`, the checksums of the official files, whose lines may hold separators of lines;
    these become spaces. words: the text is tokenised, and read as by own_words. markup: drop that of IWSLT's training
    text. open_end: official text, which is taken as it is. min_correlation: of the lengths of the two sides, -1: any;
    None: the usual one.
    """

    strict: bool = False
    manifest: Path | None = None
    words: bool = False
    markup: bool = False
    open_end: bool = False
    min_correlation: float | None = None


def read_manifest(path: Path) -> dict[str, tuple[str, int]]:
    """Return file name without .gz → sha256 of the plain file and number of lines, of lines "sha256 lines name"."""
    rows = [line.split() for _, line in read_lines(path) if not line.startswith("#")]
    return {name: (sha256, int(count)) for sha256, count, name in rows}


def _strict_lines(path: Path, manifest: Path | None) -> Iterator[Line]:
    known = read_manifest(manifest) if manifest else None
    name, number, digest = path.name.removesuffix(".gz"), 0, hashlib.sha256()
    if known is not None and name not in known:
        raise DataError(f"{path}: the manifest does not name this file")
    for number, line in read_bytes(path):
        digest.update(line + b"\n")
        yield number, decode_text(path, number, line, official=known is not None)
    if known is not None:
        sha256, count = known[name]
        if number != count:
            place = min(number, count) + 1
            raise DataError(f"{path}:{place}: expected {count} lines, found {number}; get the file again")
        if digest.hexdigest() != sha256:
            found = f"expected sha256 {sha256}, found {digest.hexdigest()}"
            raise DataError(f"{path}: wrong checksum: {found}; get the file again")


def _side(path: Path, rules: Rules) -> Iterable[Line]:
    if rules.strict:
        lines: Iterable[Line] = _strict_lines(path, rules.manifest)
    else:
        lines = read_texts(path, open_end=rules.open_end)
        lines = without_markup(lines) if rules.markup else lines
        if rules.open_end or not rules.words:
            return lines if rules.open_end else own_text(path, lines)
    return own_words(path, lines) if rules.words else lines


def read_pair(first: Path, second: Path, rules: Rules) -> Iterator[tuple[Line, Line]]:
    """Yield the pairs of lines of two files; raises DataError."""
    together = pairs(first, second, [_side(path, rules) for path in (first, second)])
    minimum = -1 if rules.manifest else rules.min_correlation  # official files belong together
    return check_lengths(first, second, together, minimum, small=rules.strict)


def join(
    sources: Sequence[tuple[Path, Path]], targets: tuple[Path, Path], rules: Rules, official: int | None = None
) -> None:
    """Write the pairs of all sources to the two targets, and print their numbers; raises DataError.

    official: the published number.
    """
    total = 0
    with whole_files(targets) as out:
        for first, second in sources:
            count = 0
            for one, two in progress(read_pair(first, second, rules), first.name, "pairs"):
                out[0].write(one[1] + "\n")
                out[1].write(two[1] + "\n")
                count += 1
            total += count
            if len(sources) > 1:
                report(first.name, count, None)
    report(targets[0].stem, total, official)


def write_filled(found: Iterable[tuple[str, str]], targets: tuple[Path, Path], official: int) -> None:
    """Write the pairs without an empty side, and print their number, the published one, and that of the others."""
    total = empty = 0
    with whole_files(targets) as out:
        for pair in found:
            if all(pair):
                for stream, text in zip(out, pair, strict=True):
                    stream.write(text + "\n")
                total += 1
            else:
                empty += 1
    report(targets[0].stem, total, official)
    if empty:
        print(f"{targets[0].stem}: {empty:,} more pairs have an empty side and are left out", flush=True)


def select(
    measured: tuple[Path, Path], taken: tuple[Path, Path], folder: Path, langs: tuple[str, str], *, limits: Limits,
    every: int = 0, held_out: Sequence[str] = ("valid",), name: str = "train", official: Sequence[int] = (),
) -> None:  # fmt: skip
    """Write the pairs of `taken` whose lines of `measured` fit to folder/NAME.LANG, and print their numbers.

    every: every n-th pair that fits goes to the first split of `held_out` instead, the pair after it to the second one;
    0: none does. official: the published numbers. Raises DataError, also where no pair is left.
    """
    splits = (name, *held_out) if every else (name,)
    counts, total = dict.fromkeys(splits, 0), 0
    streams = (pairs(*paths, [read_lines(path) for path in paths]) for paths in (measured, taken))
    together = progress(itertools.zip_longest(*streams), folder.name, "pairs")
    with whole_files([folder / f"{split}.{lang}" for split in splits for lang in langs]) as out:
        for tokens, lines in together:
            if tokens is None or lines is None:
                raise DataError(f"{taken[0]}: has not as many lines as {measured[0]}")
            total += 1
            if limits.fit(tokens[0][1], tokens[1][1]):
                kept = sum(counts.values()) + 1
                place = 1 + kept % every if every else 0
                place = place if place < len(splits) else 0
                counts[splits[place]] += 1
                for side in (0, 1):
                    out[2 * place + side].write(lines[side][1] + "\n")
        for split in splits:
            if not counts[split]:
                raise DataError(f"{taken[0]}: of {total:,} pairs none is left for {split}")
    print(f"{folder.name.removesuffix('.part')}: {total:,} pairs before cleaning", flush=True)
    for (split, count), published in itertools.zip_longest(counts.items(), official[: len(splits)]):
        report(split, count, published)


def report(name: str, count: int, official: int | None) -> None:
    """Print a number of pairs, with the published one where it is known."""
    note = "" if official is None else f" (published: {official:,})"
    print(f"{name}: {count:,} pairs{note}", flush=True)
