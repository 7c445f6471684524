"""Text files, plain or gzip-compressed: read and checked line by line, and written whole or not at all."""

from __future__ import annotations

import contextlib
import gzip
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from corpora.errors import DataError

Line = tuple[int, str]  # number in its file, from 1, and text

SYMBOLS = ("<s>", "<pad>", "</s>")  # fairseq's own words; <unk> in a text is what fairseq means by it


def find_file(folder: Path, name: str) -> Path:
    """Return the path of a file, or of its compressed form where only that exists."""
    plain, packed = folder / name, folder / f"{name}.gz"
    return packed if packed.exists() and not plain.exists() else plain


def read_bytes(path: Path, open_end: bool = False) -> Iterator[tuple[int, bytes]]:
    """Yield (number from 1, line without newline) of a plain or gzip file, with one line in memory.

    open_end: accept a last line without newline; otherwise it means a file that was cut off.
    Raises DataError for a file that is missing, empty or cut off.
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
    """Return the text of a line; raises DataError, naming file, line and byte, for bytes of another encoding."""
    try:
        return line.decode(encoding)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}:{number}: invalid {encoding.upper()} at byte {error.start + 1} of the line") from None


def read_lines(path: Path, encoding: str = "utf-8", open_end: bool = False) -> Iterator[Line]:
    """Yield number and text of each line; raises DataError as read_bytes and decode do."""
    for number, line in read_bytes(path, open_end):
        yield number, decode(path, number, line, encoding)


def decode_text(path: Path, number: int, line: bytes) -> str:
    """Return a line that fairseq and subword-nmt read as one; raises DataError for empty lines, carriage returns."""
    text = decode(path, number, line)
    if not text.strip():
        raise DataError(f"{path}:{number}: empty line; remove it (of parallel text, on both sides)")
    if "\r" in text:
        raise DataError(f"{path}:{number}: carriage return; remove it with sed 's/\\r$//'")
    return text


def read_text(path: Path) -> Iterator[Line]:
    """Yield number and text of each line; raises DataError, also for empty lines and carriage returns."""
    for number, line in read_bytes(path):
        yield number, decode_text(path, number, line)


def read_whole(path: Path) -> str:
    """Return the text of a small file; raises DataError."""
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: invalid UTF-8 at byte {error.start + 1}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None


def refuse_symbols(path: Path, number: int, text: str) -> None:
    """Raise DataError where a word of the text is one of fairseq's symbols."""
    if "<" in text:
        for symbol in SYMBOLS:
            if symbol in text.split():
                raise DataError(f"{path}:{number}: the word {symbol} is a symbol of fairseq's; remove or rename it")


@contextlib.contextmanager
def whole_files(paths: Sequence[Path]) -> Iterator[list[TextIO]]:
    """Open text files for writing that get their names only when all of them are complete."""
    parts = [path.with_name(f"{path.name}.part{os.getpid()}") for path in paths]
    try:
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(part.open("w", encoding="utf-8", newline="\n")) for part in parts]
        for part, path in zip(parts, paths, strict=True):
            os.replace(part, path)
    finally:
        for part in parts:
            part.unlink(missing_ok=True)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write the lines to a file, which appears when it is complete; its folder is created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_files([path]) as (out,):
        out.writelines(line + "\n" for line in lines)


class LineFiles(contextlib.ExitStack):
    """Text files of a folder; each is created by its first line, and closed when the context ends."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._files: dict[str, TextIO] = {}

    def write(self, name: str, line: str) -> None:
        """Append a line to the file of this name."""
        if name not in self._files:
            path = self._folder / name
            self._files[name] = self.enter_context(path.open("w", encoding="utf-8", newline="\n"))
        self._files[name].write(line + "\n")
