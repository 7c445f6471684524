"""Text files, plain or gzip-compressed: read and checked line by line, and written whole or not at all.

Every preparation reads its text here. What a file may hold that is no text, and what becomes of it:

    a byte-order mark at its start                    left out, with a notice
    a NUL                                             an error; in official corpora kept, until tokenisation drops it
    <s>, <pad>, </s> as a word of tokenised text      an error; in official corpora kept and counted. <unk> is a word
                                                      that corpora have, and that fairseq reads as they mean it
    characters that end a line for Python alone       in training text a space, as tokenisers make of them; in official
    (U+2028, U+0085, form feed …), carriage return    corpora kept, or a space; elsewhere an error, since line n must
                                                      stay line n
    other white space between words of tokenised text one space, with a notice; in official corpora kept
    (U+00A0, U+3000, a tab, two spaces …)
    a line of more than LONGEST bytes                 an error
"""

from __future__ import annotations

import codecs
import contextlib
import functools
import gzip
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from corpora.errors import DataError
from corpora.text.expansion import Expansion

Line = tuple[int, str]  # number in its file, from 1, and text

SPLITS = ("train", "valid", "test")
SYMBOLS = ("<s>", "<pad>", "</s>")  # fairseq's own words; <unk> in a text is what fairseq means by it
LONGEST = 10_000_000  # bytes of a line
NO_NEWLINE = "no newline at the end: the file was cut off; get it again, or end its last line"
_SPACES = dict.fromkeys(map(ord, "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"), " ")  # where str.splitlines splits


def find_file(folder: Path, name: str) -> Path:
    """Return the path of a file, or of its compressed form where only that exists."""
    plain, packed = folder / name, folder / f"{name}.gz"
    return packed if packed.exists() and not plain.exists() else plain


def count_lines(path: Path) -> int:
    """Return the number of lines of a plain file."""
    with path.open("rb") as stream:
        return sum(1 for _ in stream)


def read_bytes(path: Path, open_end: bool = False) -> Iterator[tuple[int, bytes]]:
    """Yield (number from 1, line without newline) of a plain or gzip file, with one line in memory.

    open_end: accept a last line without newline; otherwise it means a file that was cut off. A byte-order mark at the
    start is left out. Raises DataError for a file that is missing, empty or cut off, unpacks to more than text does, or
    has a line of more than LONGEST bytes.
    """
    number = 0
    packed = path.suffix == ".gz"
    try:
        expansion = Expansion(path) if packed else None
        with gzip.open(path) if packed else path.open("rb") as stream:
            for line in iter(functools.partial(stream.readline, LONGEST), b""):
                number += 1
                if expansion is not None:
                    expansion.add(len(line))
                if not line.endswith(b"\n"):
                    if len(line) == LONGEST:
                        raise DataError(f"{path}:{number}: a line of more than {LONGEST:,} bytes: this is no text")
                    if not open_end:
                        raise DataError(f"{path}:{number}: {NO_NEWLINE}")
                if number == 1 and line.startswith(codecs.BOM_UTF8):
                    line = line.removeprefix(codecs.BOM_UTF8)
                    print(f"{path}: the byte-order mark at its start is left out", flush=True)
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
        marks = number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        hint = "; it looks like UTF-16: convert it with iconv -f UTF-16 -t UTF-8" if marks else ""
        where = f"at byte {error.start + 1} of the line"
        raise DataError(f"{path}:{number}: invalid {encoding.upper()} {where}{hint}") from None


def read_lines(path: Path, encoding: str = "utf-8", open_end: bool = False) -> Iterator[Line]:
    """Yield number and text of each line; raises DataError as read_bytes and decode do."""
    for number, line in read_bytes(path, open_end):
        yield number, decode(path, number, line, encoding)


def decode_text(path: Path, number: int, line: bytes, *, official: bool = False, blank: bool = False) -> str:
    """Return a line that all programs read as one line of text; raises DataError for other ones.

    official: the corpus is somebody's release: separators of lines in it become spaces. blank: a line without words is
    "", and no error.
    """
    text = decode(path, number, line)
    if official:
        text = one_line(text)
    if not text.strip():
        if blank:
            return ""
        raise DataError(f"{path}:{number}: empty line; remove it (of parallel text, on both sides)")
    if "\r" in text:
        raise DataError(f"{path}:{number}: carriage return; remove it with sed 's/\\r$//'")
    refuse_nul(path, number, text)
    if text.splitlines() != [text]:
        code = next(ord(letter) for letter in text if ord(letter) in _SPACES)
        mend = f"perl -CSD -pe 's/\\x{{{code:X}}}/ /g'"
        raise DataError(
            f"{path}:{number}: U+{code:04X}, which ends a line for some programs; make it a space with {mend}"
        )
    return text


def one_line(text: str) -> str:
    """Return a line of text with spaces for the separators of lines inside of it."""
    return text if text.splitlines() == [text] else text.translate(_SPACES)


def one_space(text: str) -> str:
    """Return the text with single spaces for NULs and any white space, full-width too: fairseq splits at all of it."""
    return " ".join(text.replace("\0", " ").split())


def read_whole(path: Path) -> str:
    """Return the text of a small file, without a byte-order mark; raises DataError, also beyond LONGEST bytes."""
    try:
        if path.stat().st_size > LONGEST:
            raise DataError(f"{path}: more than {LONGEST:,} bytes: this is no review and no story")
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: invalid UTF-8 at byte {error.start + 1}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None


def own_text(path: Path, lines: Iterable[Line]) -> Iterator[Line]:
    """Yield the lines of training text that nobody has vouched for, with spaces for line separators inside of them.

    Raises DataError for a NUL.
    """
    for number, text in lines:
        refuse_nul(path, number, text)
        yield number, one_line(text)


def own_words(path: Path, lines: Iterable[Line]) -> Iterator[Line]:
    """Yield the lines of tokenised text with single spaces, and print how many had other white space.

    BPE splits words at spaces alone, fairseq at all white space: a word with a no-break space would fall apart after
    BPE. Raises DataError for a NUL, and for a word that is one of fairseq's symbols.
    """
    changed = 0
    for number, text in lines:
        check_words(path, number, text)
        words = one_space(text)
        changed += words != text.strip(" ")
        yield number, words
    if changed:
        print(f"{path}: lines with other white space than single spaces, which they have now: {changed:,}", flush=True)


def refuse_nul(path: Path, number: int, text: str) -> None:
    """Raise DataError for a NUL."""
    if "\0" in text:
        raise DataError(
            f"{path}:{number}: a NUL: this is no text, or UTF-16; convert it, or remove NULs with tr -d '\\0'"
        )


def check_words(path: Path, number: int, text: str) -> None:
    """Raise DataError where a word of tokenised text is one of fairseq's symbols, or has a NUL."""
    refuse_nul(path, number, text)
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
