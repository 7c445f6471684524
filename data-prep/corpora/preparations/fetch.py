"""Gets a corpus's files, and checks them.

checksums.txt names the official files, with their sizes and checksums. An environment variable of each preparation
names a mirror (file:// in tests) with files of these names, or one archive; they are checked in the same way. A
download whose checksum nobody has published is refused, unless --no-checksums accepts it.

Official files are kept in $LOCALATTN_DOWNLOADS/HOST/PATH (by default data/downloads in the repository), where all
preparations find them. If it is empty, they are kept in OUT/download, like files without a checksum.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from corpora.errors import DataError, UsageError
from corpora.preparations import steps
from corpora.preparations.options import Given
from corpora.text import unpack
from corpora.text.lines import find_file
from corpora.text.watch import run_logged, watched

PREP_DIR = Path(__file__).resolve().parents[2]
CHECKSUMS = PREP_DIR / "checksums.txt"
REFUSES_TO_CONTINUE = (33, 36)  # exit status of curl; of HTTP it is 22, with 416 in its message


class Found(NamedTuple):
    """A file or a folder. verified: it was compared with a checksum, or is from such an archive."""

    path: Path
    verified: bool


def named(url: str) -> tuple[str, str]:
    """Return size and checksum of a file in checksums.txt; raises UsageError."""
    for line in CHECKSUMS.read_text("utf-8").splitlines():
        if line.split()[:1] == [url]:
            _, size, checksum = line.split()
            return size, checksum
    raise UsageError(f"checksums.txt does not name {url}")


def sum_of(kind: str, file: Path) -> str:
    """Return a file's checksum by the method of the checksum `kind`."""
    if kind in ("-", "text"):
        return kind
    md5 = kind.startswith("md5:")
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "md5" if md5 else "sha256").hexdigest()
    return f"md5:{digest}" if md5 else digest


def check_official(url: str, checked: bool, file: Path) -> None:
    """Raise DataError, with the reason alone, unless a file is whole, as far as its format shows.

    checked: it must have size and checksum of `url` in checksums.txt as well.
    """
    if checked:
        size, checksum = named(url)
        found = str(file.stat().st_size)
        if size not in ("-", found):
            raise DataError(f"expected {size} bytes, found {found}")
        if (found := sum_of(checksum, file)) != checksum:
            raise DataError(f"expected checksum {checksum}, found {found}")
    name = url.partition("?")[0]
    if name.endswith((".gz", ".tgz")):
        with file.open("rb") as stream:
            done = subprocess.run(["gzip", "-t"], stdin=stream, capture_output=True, text=True)
        if done.returncode:
            raise DataError((done.stderr.strip().splitlines() or ["no gzip file"])[-1])
    elif name.endswith((".zip", ".tar")):
        unpack.check(file)
    elif not file.stat().st_size:
        raise DataError("it is empty")


def official_folder(given: Given, url: str, other: bool = False) -> Path:
    """Return where the download of `url` is kept: OUT/download if it may be an `other` file than the official one."""
    kept = os.environ.get("LOCALATTN_DOWNLOADS", str(PREP_DIR.parent / "data/downloads"))
    if not kept or other:
        return given.out / "download"
    return (Path(kept) / url.rpartition("://")[2].rpartition("@")[2]).parent


def download(given: Given, url: str, file: Path, check: Callable[[Path], None]) -> None:
    """Get a file, which has its name only when it is complete and `check` raises no DataError on it.

    A stopped download is continued; of several preparations that want a file of one folder, one at a time downloads.
    """
    if file.exists():
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise UsageError(f"cannot create {file.parent}: see LOCALATTN_DOWNLOADS in docs/data.md") from None
    if not os.access(file.parent, os.W_OK):
        raise UsageError(f"cannot write to {file.parent}: see LOCALATTN_DOWNLOADS in docs/data.md")
    with contextlib.ExitStack() as stack:
        if file.parent != given.out / "download":  # OUT has its own lock
            wait = functools.partial(given.say, f"waiting for another download to {file.parent}")
            stack.enter_context(steps.lock(file.parent / ".lock", wait))
        if not file.exists():  # another preparation may have been faster
            _get(given, url, file, check)


def _get(given: Given, url: str, file: Path, check: Callable[[Path], None]) -> None:
    if not shutil.which("curl"):
        raise UsageError("curl is missing: install it, or give the data with --local DIR")
    given.say(f"download {url}")
    part, log = file.with_name(f"{file.name}.part"), file.with_name(f"{file.name}.log")
    words = ["curl", *"-fsSL --retry 3 --connect-timeout 20 --continue-at - --output".split(), str(part), url]
    status = run_logged("download", part, log, words)
    if status in REFUSES_TO_CONTINUE or (status == 22 and "416" in log.read_text()):
        # The part is complete, or of another file; then one attempt from the start.
        try:
            check(part)
            status = 0
        except (DataError, OSError):
            part.unlink(missing_ok=True)
            status = run_logged("download", part, log, words)
    if status:
        said = (log.read_text().strip().splitlines() or [""])[-1]
        raise UsageError(f"download of {url} failed ({said}); run again to continue, or use --local DIR")
    log.unlink()
    try:
        check(part)
    except DataError as error:
        part.unlink()
        raise UsageError(f"{url} is not the whole file that it should be ({error}); run again") from None
    os.replace(part, file)


def obtain(given: Given, url: str) -> Found:
    """Return the official file of `url`: that in --local, or the downloaded one. Raises UsageError.

    Unchecked files, and a mirror's whose text alone is checked, are for this preparation alone.
    """
    name, checked, checksum = Path(url.partition("?")[0]).name, not given.no_checksums, named(url)[1]
    verified, check = checked and checksum not in ("-", "text"), functools.partial(check_official, url, checked)
    if given.local:
        file = given.local / name
        if not file.exists():
            advice = f"get it from {url}" if "://" in url else "see docs/data.md"
            raise UsageError(f"{given.local} has no {name}: {advice}")
        given.say(f"check {name}")
        try:
            check(file)
        except DataError as error:
            advice = "get it again" + (", or give --no-checksums to take it as it is" if checked else "")
            raise UsageError(f"{file} is not the official file ({error}); {advice}") from None
        return Found(file, verified)
    other = not checked or checksum == "-" or (checksum == "text" and bool(given.mirror))
    file = official_folder(given, url, other) / name
    if checked and file.exists():  # it may have been downloaded when checks were off
        try:
            check(file)
        except DataError:
            file.unlink()
    download(given, source_of(url, given.mirror), file, check)
    if checked and checksum == "-":
        corpus, folder = given.name.removeprefix("prepare_"), file.parent
        raise UsageError(
            f"{file}: nobody has published a checksum of it; it has {file.stat().st_size} bytes and the sha256 "
            f"{sum_of('sha256', file)}: accept it by --no-checksums or --local {folder} (in a table: --local "
            f"{corpus}={folder}, or ${corpus.upper()}_DIR), or pin it in data-prep/checksums.txt"
        )
    return Found(file, verified)


def source_of(url: str, mirror: str) -> str:
    """Return the address from which to download the official file of `url`.

    A mirror is a folder, or a corpus's own archive; what else it needs, such as a vocabulary, is no archive.
    """
    name, packed = Path(url.partition("?")[0]).name, (".gz", ".tgz", ".zip")
    if mirror.partition("?")[0].endswith(packed):
        return mirror if name.endswith(packed) else url
    return f"{mirror.rstrip('/')}/{name}" if mirror else url


def obtain_members(given: Given, url: str, *members: str) -> Found:
    """Return a folder with these members of the archive `url`; raises UsageError and DataError.

    It is --local, if they are in there, plain or .gz (these are not verified); otherwise they are unpacked into
    OUT/download/unpacked. A member of the archive may be a pattern.
    """
    if given.local and all(find_file(given.local, name.removesuffix(".gz")).exists() for name in members):
        return Found(given.local, False)
    archive, verified = obtain(given, url)
    folder = given.out / "download/unpacked" / Path(url).name
    unpack_members(given, archive, folder, *members)
    return Found(folder, verified)


def local_or_members(given: Given, url: str, *members: str) -> Found:
    """Return the folder of --local, whatever is in it, or one with these members of the archive `url`."""
    return Found(given.local, False) if given.local else obtain_members(given, url, *members)


def unpack_members(given: Given, archive: Path, folder: Path, *members: str) -> None:
    """Unpack members of an archive, unless they are there already and not of an older archive; raises DataError."""
    if folder.is_dir() and archive.stat().st_mtime <= folder.stat().st_mtime:
        return
    given.say(f"unpack {archive.name}")
    with watched("unpack", folder.with_name(f"{folder.name}.part")):
        unpack.unpack(archive, folder, members)
