"""Unpacks members of an archive: .tar, .tgz, .tar.gz or .zip.

    python -m corpora.text.unpack ARCHIVE FOLDER MEMBER…

A MEMBER is the name of a file or a folder in the archive, or a pattern (dev/newstest2013*); a leading './' is ignored.
A damaged archive, and a MEMBER that is not in it, are errors of one line.
"""

from __future__ import annotations

import argparse
import fnmatch
import shutil
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from corpora.errors import DataError, as_status


def _files(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield name and content of each regular file in the archive, in its order."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for name in zipped.namelist():
                if not name.endswith("/"):
                    with zipped.open(name) as content:
                        yield name, content
        return
    with tarfile.open(archive, "r|*") as tar:  # one pass
        for member in tar:
            packed = tar.extractfile(member) if member.isfile() else None
            if packed is not None:
                yield member.name, packed


def unpack(archive: Path, folder: Path, members: Sequence[str]) -> int:
    """Write the files that `members` name below `folder`; return their number. Raises DataError."""
    wanted = {member.removeprefix("./").rstrip("/"): 0 for member in members}
    try:
        for name, content in _files(archive):
            path = PurePosixPath(name.removeprefix("./"))
            found = [member for member in wanted if fnmatch.fnmatch(str(path), member) or path.is_relative_to(member)]
            for member in found:
                wanted[member] += 1
            if not found:
                continue
            if path.is_absolute() or ".." in path.parts:
                raise DataError(f"{archive}: the member {name} would be written outside of the folder")
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as out:
                shutil.copyfileobj(content, out, 1 << 20)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise DataError(f"{archive}: damaged or cut-off archive ({error}); get it again") from None
    except OSError as error:
        if error.filename is None:  # gzip's own errors have no name
            raise DataError(f"{archive}: damaged archive ({error}); get it again") from None
        raise
    for member, count in wanted.items():
        if not count:
            raise DataError(f"{archive}: has no {member}")
    return sum(wanted.values())


@as_status
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("archive", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("members", nargs="+", metavar="MEMBER")
    args = parser.parse_args()
    if not args.archive.is_file():
        raise DataError(f"{args.archive}: no such archive")
    unpack(args.archive, args.folder, args.members)


if __name__ == "__main__":
    sys.exit(main())
