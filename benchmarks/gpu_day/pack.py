"""Makes the folder that a GPU day needs on a machine without network: packages and the prepared corpus."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.data.preparation import Corpus, local_folder, prepared
from experiments.recipes.recipe import ROOT, Recipe
from experiments.recipes.scales import recipe_at
from experiments.recipes.tables import find_table
from experiments.system.checkout import commit, package
from experiments.system.progress import Progress

from .machine import BUILDERS, COMMIT, DATA, PACKED, SOURCES, WHEELS, CourseError, run
from .plan import ROWS, TABLE

# What trainings and their scoring read of a prepared corpus.
PARTS = ("bin/*", "raw/test.*", "tok/test.*")
# Platform tags of x86-64 wheels, those for the oldest C library first.
PLATFORMS = [f"manylinux{age}_x86_64" for age in ("2014", "_2_17", "_2_27", "_2_28")]
LARGEST = 64 << 20  # bytes; no more can be sent to a machine that is lent for an hour


def make(folder: Path, python: str, local: str | None, work: Path) -> str:
    """Fill a folder with packages for a version of Python and the corpus; return what it holds, in words.

    ``local``: the corpus's text; ``work``: where it is prepared. What an earlier call has left is replaced. Raises
    CourseError and what preparations raise.
    """
    if not re.fullmatch(r"3\.\d+", python):
        raise CourseError(f"--python {python}: give the version of the other machine's Python, as in 3.12")
    if folder.exists() and any(folder.iterdir()) and not (folder / WHEELS).is_dir():
        raise CourseError(f"--pack {folder}: is there, and is no folder of an earlier --pack: give another one")
    (folder / COMMIT).unlink(missing_ok=True)  # it is there when all is
    fetch(folder / WHEELS, python, folder / "pack.log")
    take_corpus(folder / DATA, local, work)
    (folder / COMMIT).write_text(f"{commit()} {package()}\n", encoding="utf-8")
    (folder / "pack.log").unlink()
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > LARGEST:
        raise CourseError(f"{folder}: has {size >> 20} MiB, more than {LARGEST >> 20}")
    return f"{folder}: {size / 2**20:.1f} MiB, for Python {python}"


def requirements(names: Sequence[str]) -> list[str]:
    """Return distributions with their versions in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found = {re.split("[<=]", line)[0].lower(): line for line in lines if line and not line.startswith("#")}
    return [found[name] for name in names]


def fetch(folder: Path, python: str, log: Path) -> None:
    """Download the packages. Raises CourseError."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check", "--dest", str(folder)]
    others = [name for name in (*PACKED, *BUILDERS) if name not in SOURCES]
    target = ["--only-binary", ":all:", "--implementation", "cp", "--python-version", python]
    target += [word for name in PLATFORMS for word in ("--platform", name)]
    sources = ["--no-binary", ":all:", "--no-build-isolation"]
    for words in ([*sources, *requirements(SOURCES)], [*target, *requirements(others)]):
        if run([*pip, *words], log) is None:
            raise CourseError(f"pip download failed: see the end of {log}")


def take_corpus(folder: Path, local: str | None, work: Path) -> None:
    """Prepare the corpus of the trainings under ``work``, and copy what they need of it."""
    recipe: Recipe = recipe_at(find_table(*TABLE), ROWS[0], "full")
    data = prepared(recipe, work)
    Corpus(recipe, data, local_folder(recipe.corpus, local), None).prepare(Progress(), 0.0)
    shutil.rmtree(folder, ignore_errors=True)
    for pattern in PARTS:
        for path in sorted(data.folder.glob(pattern)):
            place = folder / data.folder.name / path.relative_to(data.folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
