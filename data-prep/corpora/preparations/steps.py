"""The steps of a preparation, and its folder OUT.

Each step fills a folder OUT/NAME.part, which is renamed to OUT/NAME when the step is complete. A killed preparation
continues with the first step that is missing.

    OUT/raw  {train,valid,test}.LANG: checked raw text      OUT/tok  tokenised
    OUT/bpe  in subwords, with their codes                  OUT/bin  for fairseq
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from corpora.errors import UsageError
from corpora.preparations.options import Given
from corpora.text.lines import write_lines

ANOTHER = "give another folder or remove it"


class Step(NamedTuple):
    """What fills a folder OUT/name.

    fill: writes into the folder that it is given. resumes: it goes on with what a stopped run has left there. until:
    the only steps that need the folder; it is removed when they are complete. reads: it unpacks archives.
    """

    name: str
    title: str
    fill: Callable[[Path], object]
    resumes: bool = False
    until: tuple[str, ...] = ()
    reads: bool = False


@dataclass(frozen=True)
class Preparation:
    """The steps of a corpus.

    options: the settings of OUT; other ones are refused. texts: the user's own files. trees: what the steps tree and
    phrases were made by, which can be added to a folder; "": there are none. result: the last folder.
    """

    given: Given
    options: str
    steps: Sequence[Step]
    texts: Sequence[Path] = field(default=())
    trees: str = ""
    result: str = "bin"

    def run(self) -> None:
        """Do the steps that are missing. Raises UsageError and DataError."""
        with locked(self.given):
            self._agree()
            self._agree_on_trees()
            for step in self.steps:
                if self._missing(step):
                    self._do(step)
                self._remove_what_is_over()
            self.given.say(f"ready: {self.given.out}/{self.result}")

    def _missing(self, step: Step) -> bool:
        return not (self.given.out / step.name).is_dir() and not self._over(step)

    def _over(self, step: Step) -> bool:
        return bool(step.until) and all((self.given.out / name).is_dir() for name in step.until)

    def _do(self, step: Step) -> None:
        part, begin = self.given.out / f"{step.name}.part", time.monotonic()
        if not step.resumes:
            shutil.rmtree(part, ignore_errors=True)
        self.given.say(step.title)
        part.mkdir(parents=True, exist_ok=True)
        step.fill(part)
        os.replace(part, self.given.out / step.name)
        self.given.say(f"{step.title}: done in {time.monotonic() - begin:.0f} s")

    def _remove_what_is_over(self) -> None:
        """Remove folders that no step needs now, and what archives unpacked to; the archives stay."""
        out = self.given.out
        for step in self.steps:
            if self._over(step):
                shutil.rmtree(out / step.name, ignore_errors=True)
        if not any(step.reads and self._missing(step) for step in self.steps):
            shutil.rmtree(out / "download/unpacked", ignore_errors=True)
            with contextlib.suppress(OSError):
                (out / "download").rmdir()

    def _agree(self) -> None:
        """Note options and texts; raises UsageError where those of the complete steps are other ones."""
        out, texts = self.given.out, [f"{checksum(path)} {path.resolve()}" for path in self.texts if path.is_file()]
        noted, known = read(out / "options.txt"), read(out / "texts.txt")
        if not any((out / step.name).is_dir() for step in self.steps):
            # Remove what a stopped step with other options or texts has left.
            if noted not in ("", self.options) or known.split("\n") not in ([""], texts):
                for path in (*out.glob("*.part"), out / "download/unpacked"):
                    shutil.rmtree(path, ignore_errors=True)
            if texts:
                write_lines(out / "texts.txt", texts)
            write_lines(out / "options.txt", [self.options])
        elif noted != self.options:
            raise UsageError(f"{out} was prepared with '{noted}', now asked for '{self.options}'; {ANOTHER}")
        elif known:
            for line in texts:
                if line not in known.split("\n"):
                    changed = line.split(" ", 2)[2]
                    raise UsageError(f"{changed} is not the text of which {out} was prepared; {ANOTHER}")

    def _agree_on_trees(self) -> None:
        out = self.given.out
        file, tree, phrases = out / "trees.txt", out / "tree", out / "phrases"
        if not self.trees:
            return
        # Given trees that the step of the phrases refused can be given again.
        if not phrases.is_dir() and " tree-files=" in read(file):
            shutil.rmtree(tree, ignore_errors=True)
        if (noted := read(file)) == self.trees:
            return
        if tree.is_dir() or phrases.is_dir():
            raise UsageError(
                f"{out} has the trees of '{noted}', now asked for '{self.trees}'; give another folder, or remove "
                f"{tree} and {phrases}"
            )
        shutil.rmtree(out / "tree.part", ignore_errors=True)
        write_lines(file, [self.trees])


@contextlib.contextmanager
def locked(given: Given) -> Iterator[None]:
    """Create OUT, and lock it against a second preparation. Raises UsageError."""
    out = given.out
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} exists and is not a folder")
    if out.is_dir() and any(out.iterdir()) and not any((out / name).exists() for name in ("options.txt", ".lock")):
        raise UsageError(f"{out} is not empty and was not made by this script; give another folder")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise UsageError(f"cannot create {out}") from None
    with lock(out / ".lock", lambda: given.say(f"waiting for another preparation of {out}")):
        yield


@contextlib.contextmanager
def lock(path: Path, wait: Callable[[], None]) -> Iterator[None]:
    """Lock a file; `wait` is called where another process has it. Programs that are started keep the lock as well."""
    with path.open("a") as stream:
        os.set_inheritable(stream.fileno(), True)
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            wait()
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def checksum(path: Path) -> str:
    """Return the CRC of POSIX and the size of a file."""
    with path.open("rb") as stream:
        return subprocess.run(["cksum"], stdin=stream, capture_output=True, text=True, check=True).stdout.strip()


def read(path: Path) -> str:
    """Return the text of a file without its last newlines; "" where there is none."""
    return path.read_text("utf-8").rstrip("\n") if path.exists() else ""
