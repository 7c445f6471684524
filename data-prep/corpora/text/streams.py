"""Text of one language, of any size: checked, counted, and written as one file.

Errors, with file and line, are a missing or empty file, a file that was cut off, invalid UTF-8, an empty line, a
carriage return or another character that ends a line for some programs, a NUL, and a word that is one of fairseq's
symbols.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpora.errors import DataError
from corpora.progress import progress
from corpora.text.lines import SYMBOLS, check_words, decode_text, own_words, read_bytes, read_lines, write_lines

BLANK_LINES = ("refuse", "keep", "drop")


@dataclass(frozen=True)
class Rules:
    """What becomes of odd lines.

    lenient: of official corpora: they are kept and counted (a carriage return, which fairseq would take for the end of
    a line, becomes a space). words: the text is tokenised, and all white space separates words. blank_lines,
    no_headings: for the layout of WikiText, whose articles have blank lines, and headings such as "= = Career = =".
    """

    lenient: bool = False
    words: bool = False
    blank_lines: str | None = None  # one of BLANK_LINES
    no_headings: bool = False


def is_heading(text: str) -> bool:
    """Return whether a line is a heading of WikiText, "= Title =" or "= = Part = ="."""
    words = text.split()
    return len(words) > 2 and words[0] == words[-1] == "=" and set(words) != {"="}


def _own_lines(path: Path, rules: Rules, count: Counter[str]) -> Iterator[str]:
    blank = rules.blank_lines is not None
    lines = ((number, decode_text(path, number, line, blank=blank)) for number, line in read_bytes(path))
    for number, text in own_words(path, lines) if rules.words else lines:
        if not rules.words:
            check_words(path, number, text)
        if not text and rules.blank_lines == "refuse":
            raise DataError(f"{path}:{number}: empty line; remove it, or give --blank-lines keep or drop")
        if (not text and rules.blank_lines == "drop") or (rules.no_headings and is_heading(text)):
            count["left out"] += 1
        else:
            yield text


def _official_lines(path: Path, count: Counter[str]) -> Iterator[str]:
    symbols = {symbol.encode() for symbol in SYMBOLS}
    for _, text in read_lines(path):
        words = text.encode().split()
        count["odd"] += not words or "\r" in text or "\0" in text or ("<" in text and not symbols.isdisjoint(words))
        yield text.replace("\r", " ")


def write(
    sources: Sequence[Path], target: Path, rules: Rules, official: Sequence[int] | None = None, exact: bool = False
) -> None:
    """Write the checked lines of all sources to `target`, which appears when it is complete, and print their counts.

    official: published numbers of sentences and words, as `wc -w` counts them. Raises DataError, also where `exact` and
    the number of lines is not official; then the file is there.
    """
    count, note = Counter[str](), ""

    def lines() -> Iterator[str]:
        for source in sources:
            for line in _official_lines(source, count) if rules.lenient else _own_lines(source, rules, count):
                count.update({"lines": 1, "words": len(line.encode().split())})
                yield line

    write_lines(target, progress(lines(), target.name))
    if official:
        note = f" (official: {official[0]:,} sentences, {official[1]:,} words)"
        if exact and count["lines"] != official[0]:
            raise DataError(f"{target.name}: {count['lines']:,} sentences{note}; get the corpus again")
    if count["odd"]:
        note += f"; {count['odd']:,} of them empty, with a carriage return, a NUL or a symbol of fairseq's"
    if count["left out"]:
        note += f"; {count['left out']:,} blank lines or headings left out"
    print(f"{target.name}: {count['lines']:,} sentences, {count['words']:,} words{note}", flush=True)
