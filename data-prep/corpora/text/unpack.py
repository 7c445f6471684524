"""Unpacks members of an archive: .tar, .tgz, .tar.gz or .zip.

A member is the name of a file or a folder in the archive, or a pattern (dev/newstest2013*); a leading './' is ignored.
Errors of one line are: a damaged or encrypted archive, a compression method that is not read here, an archive that
unpacks to far more than text does, a member that is not in it, and one that is a link, a device, or outside of the
folder.
"""

from __future__ import annotations

import contextlib
import fnmatch
import lzma
import os
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from corpora.errors import DataError
from corpora.text.expansion import Expansion

_CHUNK = 1 << 20
_BLOCK = 4096  # bytes that a file takes at least, so that a million empty ones count too
_LONGEST_HEADER = 1 << 20  # bytes of a header that tarfile reads in one go; a long name has some hundred
# What tarfile and zipfile raise for damaged archives; ValueError is also that of names which are no UTF-8.
_DAMAGED = (
    tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, struct.error, ValueError, OverflowError,
    IndexError,
)  # fmt: skip
_BY_HAND = "unpack it by another program, and give the folder with --local DIR"


class _Member(NamedTuple):
    """A file of an archive. content: None where it is no regular file."""

    name: str
    size: int  # bytes that are read to skip it
    content: IO[bytes] | None


class _TarInfo(tarfile.TarInfo):
    """Header of a member of a .tar; refuses long names, links and headers of pax that would fill the memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _TarInfo:
        found = super().frombuf(buf, encoding, errors)
        if found.type in b"LKxgX" and found.size > _LONGEST_HEADER:
            raise tarfile.ReadError(f"a header of {found.size:,} bytes")
        return found


def _zip_members(archive: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(archive) as zipped:
        for info in zipped.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)  # 0 where it was made on another system than Unix
            if info.is_dir() or kind == stat.S_IFDIR:
                continue
            if kind not in (0, stat.S_IFREG):
                yield _Member(info.filename, 0, None)
                continue
            if info.flag_bits & 0x1:
                raise DataError(f"{archive}: {info.filename!r} is encrypted: {_BY_HAND}")
            with zipped.open(info) as content:
                yield _Member(info.filename, 0, content)


def _tar_members(archive: Path) -> Iterator[_Member]:
    with tarfile.open(archive, "r|*", tarinfo=_TarInfo) as tar:  # one pass
        while (member := tar.next()) is not None:
            if not member.isdir():
                yield _Member(member.name, max(member.size, 0), tar.extractfile(member) if member.isfile() else None)
            tar.members.clear()  # type: ignore[attr-defined]


@contextlib.contextmanager
def _opened(archive: Path) -> Iterator[Iterator[_Member]]:
    """Give the members of an archive that are no folders, in its order; raises DataError where it is damaged."""
    try:
        yield (_zip_members if zipfile.is_zipfile(archive) else _tar_members)(archive)
    except NotImplementedError as error:  # of zipfile: a compression method, strong encryption, a later version
        raise DataError(f"{archive}: cannot be read here ({error}): {_BY_HAND}") from None
    except (*_DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.filename is not None:  # a file that cannot be opened
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{archive}: damaged or cut-off archive ({reason}); get it again") from None


def _copy(content: IO[bytes], out: IO[bytes] | None, expansion: Expansion) -> None:
    """Read a file of an archive to its end, counted, and write it where `out` is given."""
    while chunk := content.read(_CHUNK):
        expansion.add(len(chunk))
        if out is not None:
            with _writing(Path(out.name)):
                out.write(chunk)


@contextlib.contextmanager
def _writing(target: Path) -> Iterator[None]:
    """Raise DataError where what is written to `target` fails; its OSError has no file name, as one of reading has."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{target}: cannot be written: {error.strerror}") from None


def check(archive: Path) -> None:
    """Read all files of an archive; raises DataError as unpack does."""
    expansion = Expansion(archive)
    with _opened(archive) as members:
        for member in members:
            expansion.add(_BLOCK)
            if member.content is not None:
                _copy(member.content, None, expansion)


def _write(archive: Path, members: Iterator[_Member], folder: Path, wanted: dict[str, int]) -> None:
    """Write the files that `wanted` names to `folder`, and count them in `wanted`; raises DataError."""
    expansion = Expansion(archive)
    for name, size, content in members:
        path = PurePosixPath(name.removeprefix("./"))
        found = [member for member in wanted if fnmatch.fnmatch(str(path), member) or path.is_relative_to(member)]
        for member in found:
            wanted[member] += 1
        expansion.add(_BLOCK if found else size)
        if not found:
            continue
        if path.is_absolute() or ".." in path.parts:
            raise DataError(f"{archive}: the member {name!r} would be written outside of the folder")
        if content is None:
            raise DataError(f"{archive}: the member {name!r} is a link or a device, and no file: {_BY_HAND}")
        target = folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            out = target.open("wb")
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise DataError(f"{archive}: the member {name!r} is a file and a folder; get it again") from None
        try:
            _copy(content, out, expansion)
        finally:
            with _writing(target):  # what is left in its buffer: a small file as a whole
                out.close()


def unpack(archive: Path, folder: Path, members: Sequence[str]) -> int:
    """Write the files that `members` name to `folder`; return their number.

    The folder appears when all are there, and replaces an older one. Raises DataError; then nothing is left of what
    was unpacked.
    """
    wanted = {member.removeprefix("./").rstrip("/"): 0 for member in members}
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        with _opened(archive) as found:
            _write(archive, found, part, wanted)
        for member, count in wanted.items():
            if not count:
                raise DataError(f"{archive}: has no {member}")
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return sum(wanted.values())
