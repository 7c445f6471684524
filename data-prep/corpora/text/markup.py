"""Text inside of markup: segments of SGML and XML test sets, and IWSLT's training text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from corpora.errors import DataError
from corpora.text.lines import Line, read_lines

MARKUP_LINES = ("<url>", "<talkid>", "<keywords>")  # IWSLT's train.tags: lines without text
_MARKUP_TAGS = re.compile(r"</?(?:title|description)>")  # tags around text
_SEGMENT = re.compile(r"<seg\b([^>]*)>(.*?)</seg>", re.DOTALL | re.IGNORECASE)
_OPENED = re.compile(r"<seg\b", re.IGNORECASE)


def segments(path: Path, encoding: str = "utf-8") -> Iterator[Line]:
    """Yield line number and text of each <seg> of an SGML or XML file, plain or gzip, which is held in memory.

    White space at the ends is dropped and a line break inside becomes a space; entities (&amp;) stay, as in sacreBLEU
    and in fairseq's recipes. Raises DataError, also for a <seg> without its end.
    """
    text = "\n".join(line for _, line in read_lines(path, encoding, open_end=True))
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
    """Return whether the name is that of an SGML or XML file, plain or gzip."""
    return path.name.removesuffix(".gz").endswith((".sgm", ".sgml", ".xml"))


def read_texts(path: Path, encoding: str = "utf-8", open_end: bool = False) -> Iterator[Line]:
    """Yield the segments of an SGML or XML file, the lines of any other."""
    return segments(path, encoding) if is_marked_up(path) else read_lines(path, encoding, open_end)


def without_markup(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield the lines of IWSLT's training text that hold text, without the tags of titles and descriptions."""
    for number, text in lines:
        if not any(tag in text for tag in MARKUP_LINES):
            yield number, _MARKUP_TAGS.sub("", text)
