"""Extracts the two languages from files of ASPEC-JE, the English-Japanese corpus of WAT.

A line of the training files is `score ||| id ||| number ||| Japanese ||| English`; those of dev, devtest and test have
no score. Pairs of training text with an empty side are left out and counted. Errors, with file and line, are missing
fields, a score that is missing or not expected, an empty side elsewhere, and a file that is missing, cut off or not
UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from corpora.errors import DataError
from corpora.progress import progress
from corpora.text.bitext import write_filled
from corpora.text.lines import read_lines

SEPARATOR = " ||| "
FIELDS = ("id", "number", "Japanese", "English")


def is_score(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_pairs(path: Path, scored: bool) -> Iterator[tuple[int, str, str]]:
    """Yield (line number, Japanese, English) of a file, plain or .gz; raises DataError."""
    names = ("score", *FIELDS) if scored else FIELDS
    form = SEPARATOR.join(names)
    for number, line in read_lines(path):
        fields = line.replace("\r", " ").split(SEPARATOR, len(names) - 1)
        if len(fields) < len(names):
            raise DataError(f"{path}:{number}: {len(fields)} fields, {len(names)} wanted: {form}")
        if scored != is_score(fields[0]):
            found = f"'{fields[0][:20]}'"
            reason = f"{found} is no score" if scored else f"{found} is a score, as in training files"
            raise DataError(f"{path}:{number}: {reason}; wanted: {form}")
        yield number, fields[-2].strip(), fields[-1].strip()


def prepare(sources: Sequence[Path], targets: tuple[Path, Path], official: int, scored: bool = False) -> None:
    """Write Japanese and English of all sources, and print their number beside the published one; raises DataError."""

    def pairs() -> Iterator[tuple[str, str]]:
        for source in sources:
            for number, japanese, english in progress(read_pairs(source, scored), source.name, "pairs"):
                if not scored and not (japanese and english):
                    raise DataError(f"{source}:{number}: the {'English' if japanese else 'Japanese'} is empty")
                yield japanese, english

    write_filled(pairs(), targets, official)
