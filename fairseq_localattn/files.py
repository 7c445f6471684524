"""Files that are written whole or not at all, and checks before the work begins that they can be written."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PART = ".part"  # end of the name of a temporary file, .NAME.PID.part
SAMPLE = 1 << 16  # bytes that a folder must take before the work begins
# Open files of a process, which are never replaced by a new file.
STREAMS = re.compile("/dev/(std(in|out|err)$|fd/)|/proc/[^/]+/fd/")
REMEDIES = {
    errno.ENOSPC: "free some space; the same command then continues",
    errno.EDQUOT: "free some of your quota; the same command then continues",
    errno.EROFS: "the file system is read-only: choose another folder",
    errno.EACCES: "it belongs to someone else, or is protected: choose another folder",
    errno.EPERM: "it belongs to someone else, or is protected: choose another folder",
    errno.ENOTDIR: "a file stands where a folder should be: choose another folder",
    errno.EEXIST: "a file stands where a folder should be: choose another folder",
    errno.EISDIR: "a folder stands there: choose another name",
}
FULL = "the disk is full, or the file cannot be written"


class OutputError(OSError):
    """An output that cannot be written; the message is one line: which file, why, what to do."""


def reason_of(error: BaseException) -> str | None:
    """Return why a file could not be written; None for an error of another kind. torch's are RuntimeErrors."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    torch = isinstance(error, RuntimeError) and ("PytorchStreamWriter" in str(error) or "unexpected pos" in str(error))
    return FULL if torch else None


def described(error: OSError) -> str:
    """Return an error of the operating system as one line: which file, why, what to do."""
    if isinstance(error, OutputError) or error.errno is None:
        return " ".join(str(error).split())
    where = "" if error.filename is None else f"{error.filename}: "
    return where + (error.strerror or str(error)) + _remedy(error)


def _remedy(error: BaseException) -> str:
    found = REMEDIES.get(getattr(error, "errno", None) or (0 if isinstance(error, OSError) else errno.ENOSPC))
    return f"; {found}" if found else ""


def _unwritable(path: Path, error: BaseException, *own: Path) -> OutputError:
    """Return the error for ``path``; what failed may be one of its ``own`` names, or a folder above it."""
    other = getattr(error, "filename", None)
    place = "" if other is None or Path(os.fsdecode(other)) in (path, *own) else f": {os.fsdecode(other)}"
    return OutputError(f"{path}: cannot be written: {reason_of(error)}{place}{_remedy(error)}")


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Context manager: yield the name of a temporary file, which at the end takes the place of the file ``path``.

    A reader, also after a kill, sees the former file or the whole new one, which keeps the former one's permissions.
    Its folder is made. A device or a pipe is written itself. Raises OutputError where the file cannot be written, and
    leaves no temporary file then.
    """
    try:
        target = path if _is_stream(path) else Path(os.path.realpath(path))  # a link stays a link
        part = path if _is_stream(path) else target.with_name(f".{target.name}.{os.getpid()}{PART}")
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield part
        if part is not path:
            with open(part, "rb") as stream:
                os.fsync(stream.fileno())
            with suppress(OSError):  # no former file, or a file system without permissions
                shutil.copymode(target, part)
            os.replace(part, target)
    except (OSError, RuntimeError) as error:
        if isinstance(error, OutputError) or reason_of(error) is None:
            raise
        raise _unwritable(path, error, target, part) from error
    finally:
        if part is not path:
            with suppress(OSError):
                part.unlink()


def write_whole(path: Path, text: str) -> None:
    """Write a text file, newlines as they are, in place of a former one. Raises OutputError."""
    with replaced(path) as part, open(part, "w", encoding="utf-8", newline="") as stream:
        stream.write(text)


def remove_parts(folder: Path, name: str = "*") -> None:
    """Remove what killed writers of a file, or of all files, have left in a folder; nobody else may write them now."""
    for part in folder.glob(f".{name}.*{PART}"):
        with suppress(OSError):
            part.unlink()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Context manager: hold the lock of a file's folder, which is made; remove what killed writers left."""
    import fcntl  # not on Windows

    path.parent.mkdir(parents=True, exist_ok=True)
    with (path.parent / ".lock").open("a") as guard:  # NFS locks files between machines, not folders
        fcntl.flock(guard, fcntl.LOCK_EX)
        remove_parts(path.parent, path.name)
        yield


def check_folder(folder: Path) -> None:
    """Make a folder, and write and remove a file in it. Raises OutputError where that fails."""
    sample = folder / f".sample.{os.getpid()}{PART}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(sample, "wb") as stream:
            stream.write(bytes(SAMPLE))
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise _unwritable(folder, error, sample) from error
    finally:
        with suppress(OSError):
            sample.unlink()


def check_file(path: Path) -> None:
    """Check that a file can be written, and make its folder. Raises OutputError where it cannot."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        stream = _is_stream(path)
    except OSError as error:
        raise _unwritable(path, error) from error
    if not stream:
        check_folder(Path(os.path.realpath(path)).parent)


def _is_stream(path: Path) -> bool:
    """Return whether a path is a device, a pipe or an open file of a process, which is written itself."""
    return STREAMS.match(str(path)) is not None or (path.exists() and not path.is_file() and not path.is_dir())
