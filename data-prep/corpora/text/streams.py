"""Text files read line by line, however large: checks, copies, counts.

    python -m corpora.text.streams OUT IN [IN …] [--lenient] [--official LINES WORDS [--exact]]

writes the lines of all IN, plain or .gz, to OUT, and prints how many sentences and words they have. Refused, with file
and line: a missing or empty file, a file that was cut off, invalid UTF-8, an empty line, a carriage return, a word that
fairseq takes for one of its own symbols. --lenient, for a corpus that is what it is, keeps and counts the last three (a
carriage return, which fairseq would take for the end of a line, becomes a space).
"""

from __future__ import annotations

import argparse
import gzip
import os
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpora.text.parallel import DataError, as_status

SYMBOLS = ("<s>", "<pad>", "</s>")  # fairseq's; <unk> in a text means what it means to fairseq
PROGRESS_SECONDS = 30.0


@dataclass
class Count:
    """What a text holds: lines, words (as `wc -w` counts them), and lines that only --lenient lets pass."""

    lines: int = 0
    words: int = 0
    odd: int = 0


def read_bytes(path: Path, open_end: bool = False) -> Iterator[tuple[int, bytes]]:
    """Yield (number from 1, line without newline) of a plain or gzip file; one line is in memory at a time.

    open_end: the last line may have no newline; without it, that is a file that was cut off.
    Raises DataError for a file that is missing, empty or cut off, when it gets there.
    """
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            for line in stream:
                number += 1
                if not line.endswith(b"\n") and not open_end:
                    raise DataError(f"{path}:{number}: no newline at the end: the file was cut off; get it again")
                yield number, line.removesuffix(b"\n")
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise DataError(f"{path}:{number + 1}: damaged or cut-off gzip file; get it again") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    if number == 0:
        raise DataError(f"{path}: is empty")


def decode(path: Path, number: int, line: bytes, encoding: str = "utf-8") -> str:
    """Return the text of a line; raises DataError for invalid UTF-8 (…), naming file, line and byte."""
    try:
        return line.decode(encoding)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}:{number}: invalid {encoding.upper()} at byte {error.start + 1} of the line") from None


def read_text(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number from 1, text) of each line; raises DataError, also for empty lines and carriage returns."""
    for number, line in read_bytes(path):
        text = decode(path, number, line)
        if not text.strip():
            raise DataError(f"{path}:{number}: empty line; remove it")
        if "\r" in text:
            raise DataError(f"{path}:{number}: carriage return; remove it with sed 's/\\r$//'")
        yield number, text


def refuse_symbols(path: Path, number: int, text: str) -> None:
    """Raise DataError where a word of the text is one of fairseq's symbols."""
    if "<" in text:
        for symbol in SYMBOLS:
            if symbol in text.split():
                raise DataError(f"{path}:{number}: the word {symbol} is a symbol of fairseq's; remove or rename it")


def clean_lines(path: Path, lenient: bool, count: Count) -> Iterator[bytes]:
    """Yield the checked lines of a file, without newline, and count them into `count`; raises DataError."""
    if not lenient:
        for number, text in read_text(path):
            refuse_symbols(path, number, text)
            line = text.encode()
            count.lines += 1
            count.words += len(line.split())
            yield line
        return
    symbols = {symbol.encode() for symbol in SYMBOLS}
    for number, line in read_bytes(path):
        decode(path, number, line)
        words = line.split()
        count.lines += 1
        count.words += len(words)
        count.odd += not words or b"\r" in line or (b"<" in line and not symbols.isdisjoint(words))
        yield line.replace(b"\r", b" ")


def copy(sources: Sequence[Path], target: Path, lenient: bool = False) -> Count:
    """Write the checked lines of all sources to `target`, which appears when it is complete; raises DataError."""
    count, told = Count(), time.monotonic()
    temporary = target.with_name(f"{target.name}.part{os.getpid()}")
    try:
        with temporary.open("wb") as out:
            for done, source in enumerate(sources):
                if time.monotonic() - told > PROGRESS_SECONDS:
                    told = time.monotonic()
                    print(f"{target.name}: {done} of {len(sources)} files, {count.words:,} words so far", flush=True)
                for line in clean_lines(source, lenient, count):
                    out.write(line + b"\n")
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return count


def compare(name: str, count: Count, official: Sequence[int] | None, exact: bool) -> None:
    """Print the counts beside the official (lines, words); raises DataError where `exact` and the lines differ."""
    note = ""
    if official:
        note = f" (official: {official[0]:,} sentences, {official[1]:,} words)"
        if exact and count.lines != official[0]:
            raise DataError(f"{name}: {count.lines:,} sentences{note}; get the corpus again")
    if count.odd:
        note += f"; {count.odd:,} of them empty, with a carriage return or a symbol of fairseq's"
    print(f"{name}: {count.lines:,} sentences, {count.words:,} words{note}", flush=True)


@as_status
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("target", type=Path)
    parser.add_argument("sources", type=Path, nargs="+")
    parser.add_argument("--lenient", action="store_true", help="keep and count lines that are odd but usable")
    parser.add_argument("--official", type=int, nargs=2, metavar=("LINES", "WORDS"), help="counts to print beside")
    parser.add_argument("--exact", action="store_true", help="another number of lines is an error")
    args = parser.parse_args()
    compare(args.target.name, copy(args.sources, args.target, args.lenient), args.official, args.exact)


if __name__ == "__main__":
    sys.exit(main())
