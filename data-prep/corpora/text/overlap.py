"""Texts and summaries in two files, line by line: whether they belong together shows in the words that they share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from corpora.errors import DataError
from corpora.text.alignment import pairs
from corpora.text.lines import read_lines

BLOCK = 1000
FEWEST = 50  # pairs that are judged
# Least ratio of the words that summaries share with their own text to those they share with the text before it. It is
# at most 1 for texts shifted by one line, and 2.9 and 7.5 on the mini corpora (corpora/mini/news.py). The bound is low
# because long articles share common words; the official corpora could not be measured.
LEAST = 1.3
LETTERS = 4  # of the words that count


class Overlap:
    """Counts the words that summaries share with their own text and with the text before it."""

    def __init__(self) -> None:
        self._previous: set[str] = set()
        self.clear()

    def clear(self) -> None:
        self.own = self.other = self.pairs = 0

    def add(self, article: str, summary: str) -> None:
        words = {word for word in summary.lower().split() if len(word) >= LETTERS}
        text = set(article.lower().split())
        if self._previous:
            self.own += len(words & text)
            self.other += len(words & self._previous)
            self.pairs += 1
        self._previous = text

    def belongs(self) -> bool:
        """Return whether the pairs since clear() belong together; True for too few of them."""
        return self.pairs < FEWEST or self.own > LEAST * self.other


def aligned(articles: Path, summaries: Path, official: int, judge: bool = True) -> Iterator[tuple[str, str]]:
    """Yield (text, summary) of two files side by side, plain or .gz; white space of any kind becomes one space.

    official: number of lines with which the last one may have no newline; otherwise the file was cut off.
    Raises DataError with file and line: files that cannot be read, of different length, or, with `judge`, that do not
    belong together.
    """
    overlap, begin, number = Overlap(), 1, 0
    sides = [read_lines(path, open_end=True) for path in (articles, summaries)]
    for (number, article), (_, summary) in pairs(articles, summaries, sides):
        one, two = (" ".join(text.split()) for text in (article, summary))
        overlap.add(one, two)
        yield one, two
        if judge and overlap.pairs == BLOCK:
            _judge(overlap, articles, summaries, (begin, number))
            overlap.clear()
            begin = number + 1
    if judge:
        _judge(overlap, articles, summaries, (begin, number))
    if number != official:
        for path in (articles, summaries):
            _need_newline(path, number)


def _judge(overlap: Overlap, articles: Path, summaries: Path, lines: tuple[int, int]) -> None:
    if not overlap.belongs():
        begin, end = lines
        raise DataError(
            f"{summaries}:{begin}: misaligned with {articles}: in lines {begin} to {end} the summaries have "
            f"{overlap.own:,} words of their own text, {overlap.other:,} of the text before; get both files again, or "
            "give --no-checksums to take them as they are"
        )


def _need_newline(path: Path, number: int) -> None:
    """Raise DataError where a plain file does not end in a newline; gzip has a checksum, and was read to its end."""
    if path.suffix != ".gz":
        with path.open("rb") as file:
            file.seek(-1, 2)
            if file.read() != b"\n":
                raise DataError(f"{path}:{number}: no newline at the end: the file was cut off; get it again")
