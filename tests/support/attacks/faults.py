"""Disks that are full, small or read-only, and writes that fail: for the tests of what a failure leaves behind."""

from __future__ import annotations

import builtins
import errno
import io
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


def _mount(*words: object) -> bool:
    command = ["mount", *map(str, words)]
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


class Disk:
    """A file system of its own, in memory, mounted at ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def resize(self, kib: int) -> None:
        assert _mount("-o", f"remount,rw,size={kib}k", self.folder)

    def fill(self) -> None:
        """Leave no byte free."""
        with pytest.raises(OSError, match="No space left"), open(self.folder / "ballast", "ab", buffering=0) as stream:
            while True:
                stream.write(bytes(4096))


@contextmanager
def small_disk(folder: Path, kib: int) -> Iterator[Disk]:
    """Context manager: mount a file system of some KiB at a new folder; skip the test where that is not possible."""
    folder.mkdir(parents=True)
    if not _mount("-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", folder):
        pytest.skip("no file system can be mounted here")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


class _Stream:
    """An open file whose first write may fail after half of it."""

    def __init__(self, stream: Any, count: Callable[[str], None]) -> None:
        self._stream, self._count, self._begun = stream, count, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()

    def write(self, data: Any) -> int:
        if not self._begun:
            self._begun = True
            try:
                self._count(f"write {self._stream.name}")
            except OSError:
                self._stream.write(data[: len(data) // 2])
                raise
        return self._stream.write(data)


class FailingDisk:
    """Counts what this process writes below a folder, and lets one of these writes fail for want of space.

    Opening a file to write, the first write to it, replacing a file and making a folder are a write each.

    Attributes:
        writes: what was written so far.
        failing: number of the write that fails, from 1; 0 for none.
        lasting: whether those after it fail as well.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = str(folder)
        self.writes: list[str] = []
        self.failing = 0
        self.lasting = False
        opener = builtins.open

        def open_(file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
            if not self._is_here(file) or not set(mode) & set("wax+"):
                return opener(file, mode, *rest, **options)
            self.count(f"open {file}")
            return _Stream(opener(file, mode, *rest, **options), self.count)

        patch.setattr(builtins, "open", open_)
        patch.setattr(io, "open", open_)
        patch.setattr(shutil, "_USE_CP_SENDFILE", False)  # a copy by the kernel does not pass through the open files
        for name in ("replace", "rename", "mkdir"):
            patch.setattr(os, name, self._counted(name, getattr(os, name)))

    def _is_here(self, file: Any) -> bool:
        return isinstance(file, str | os.PathLike) and str(file).startswith(self.folder)

    def _counted(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def counted(path: Any, *rest: Any, **options: Any) -> Any:
            if self._is_here(path) and not (name == "mkdir" and os.path.exists(path)):
                self.count(f"{name} {path}")
            return work(path, *rest, **options)

        return counted

    def begin(self, failing: int = 0, lasting: bool = False) -> None:
        """Count from the start, and let the write of this number fail."""
        self.writes, self.failing, self.lasting = [], failing, lasting

    def count(self, what: str) -> None:
        self.writes.append(what)
        number = len(self.writes)
        if self.failing and (number == self.failing or self.lasting and number > self.failing):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), what.split(" ", 1)[1])


def left_over(folder: Path) -> list[Path]:
    """Return the temporary files below a folder."""
    endings = (".part", ".tmp", ".new")
    return [path for path in folder.rglob("*") if path.name.endswith(endings) or ".part" in path.suffixes]
