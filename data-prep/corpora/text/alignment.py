"""Parallel text: lines of two files side by side, and whether their lengths show that they belong together.

The lengths of translations of each other correlate. In blocks of 5,000 lines, the logarithms of the lengths in
characters correlate by 0.96 on IWSLT14 De-En (0.69 with every third line replaced by another) and by 0.87 on
Multi30k; shifted by one line, by 0.15 at most. In blocks of 100 lines, the lengths themselves correlate by at least
0.81 on Multi30k, 0.93 on the toy corpus, 0.92 on IWSLT14 De-En and 0.34 on Japanese-English; shifted by one line, by
at most 0.22 on the first two and 0.48 on IWSLT14. See tests/corpora/text/test_parallel.py.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from corpora.errors import DataError
from corpora.text.lines import Line

BLOCK = 5000
MIN_CORRELATION = 0.3  # of the logarithms, in a block of BLOCK lines
FEWEST = 100  # lines of a file that is judged
RATIO = 9.0  # of the two lengths, from which a pair is not counted

SMALL_BLOCK = 100
MIN_SMALL_CORRELATION = 0.6  # of the lengths, in a block of SMALL_BLOCK lines


def pairs(first: Path, second: Path, sides: Sequence[Iterable[Line]]) -> Iterator[tuple[Line, Line]]:
    """Yield the lines of two files side by side; raises DataError where one of them ends first.

    sides: the lines of `first` and `second`; the paths are for the message.
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
    first: Path, second: Path, together: Iterable[tuple[Line, Line]], minimum: float | None = None, *,
    small: bool = False,
) -> Iterator[tuple[Line, Line]]:  # fmt: skip
    """Yield the pairs of lines again; raises DataError at the end of a block whose lengths do not go together.

    minimum: correlation of the logarithms of the lengths that every block must have; -1: no check; None: the usual one.
    Pairs with an empty side, or one more than RATIO times as long as the other, are left out of the correlation: every
    recipe removes them. small: of the lengths themselves, in small blocks, for text that is good line by line.
    """
    advice = "" if minimum is None else "; --min-correlation -1 takes them as they are"
    if minimum is None:
        minimum = MIN_SMALL_CORRELATION if small else MIN_CORRELATION
    block = SMALL_BLOCK if small else BLOCK
    lengths: tuple[list[float], list[float]] = ([], [])
    begin = end = 0

    def judge() -> None:
        try:
            found = statistics.correlation(*lengths)
        except statistics.StatisticsError:  # all lengths of a side are equal
            return
        if found < minimum:
            raise DataError(
                f"{second}:{begin}: misaligned with {first}: the lengths of lines {begin} to {end} do not go together "
                f"(correlation {found:.2f}, at least {minimum:g}{advice})"
            )

    for one, two in together:
        yield one, two
        sizes = len(one[1].strip()), len(two[1].strip())
        if not small and (not min(sizes) or max(sizes) > RATIO * min(sizes)):
            continue
        begin, end = begin or two[0], two[0]
        for side, size in zip(lengths, sizes, strict=True):
            side.append(size if small else math.log(size))
        if len(lengths[0]) == block:
            judge()
            lengths, begin = ([], []), 0
    if len(lengths[0]) >= FEWEST:
        judge()
