"""Texts and summaries in two files, line by line: whether they belong together shows in the words that they share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from corpora.errors import DataError
from corpora.text.alignment import pairs
from corpora.text.lines import NO_NEWLINE, read_lines

BLOCK = 1000
FEWEST = 50  # pairs that are judged
# Least ratio of the words that summaries share with their own text to those they share with the text before it. It is
# at most 1 for texts shifted by one line, and 2.9 and 7.5 on the mini corpora (corpora/mini/news.py). The bound is low
# because long articles share common words; the official corpora could not be measured.
LEAST = 1.3
LETTERS = 4  # of the words that count


def aligned(articles: Path, summaries: Path, official: int, judge: bool = True) -> Iterator[tuple[str, str]]:
    """Yield (text, summary) of two files side by side, plain or .gz; white space of any kind becomes one space.

    official: number of lines with which the last one may have no newline; otherwise the file was cut off.
    Raises DataError with file and line: files that cannot be read, of different length, or, with `judge`, that do not
    belong together.
    """
    own = other = count = number = 0  # words shared with the own text and with the text before it, pairs, lines
    begin, before = 1, set[str]()

    def check() -> None:
        if judge and count >= FEWEST and own <= LEAST * other:
            raise DataError(
                f"{summaries}:{begin}: misaligned with {articles}: in lines {begin} to {number} the summaries have "
                f"{own:,} words of their own text, {other:,} of the text before; get both files again, or give "
                "--no-checksums to take them as they are"
            )

    sides = [read_lines(path, open_end=True) for path in (articles, summaries)]
    for (number, article), (_, summary) in pairs(articles, summaries, sides):
        one, two = (" ".join(text.split()) for text in (article, summary))
        words, text = {word for word in two.lower().split() if len(word) >= LETTERS}, set(one.lower().split())
        if before:
            own, other, count = own + len(words & text), other + len(words & before), count + 1
        before = text
        yield one, two
        if count == BLOCK:
            check()
            own = other = count = 0
            begin = number + 1
    check()
    for path in (articles, summaries) if number != official else ():
        _need_newline(path, number)


def _need_newline(path: Path, number: int) -> None:
    """Raise DataError where a plain file does not end in a newline; gzip has a checksum, and was read to its end."""
    if path.suffix != ".gz":
        with path.open("rb") as file:
            file.seek(-1, 2)
            if file.read() != b"\n":
                raise DataError(f"{path}:{number}: {NO_NEWLINE}")
