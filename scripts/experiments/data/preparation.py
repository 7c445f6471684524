"""Prepares the data of recipes by their scripts in data-prep/, once."""

from __future__ import annotations

import hashlib
import itertools
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.data.prepared import Prepared
from experiments.recipes.recipe import Data, Recipe, RecipeError
from experiments.system.checkout import ROOT
from experiments.system.processes import Job
from experiments.system.progress import Progress

EXPECTED_SECONDS = 45.0
MINI_CORPUS = ROOT / "data-prep" / "mini_corpus.py"
MINI_TREES = ROOT / "data-prep" / "mini_trees.py"


def prepared(recipe: Recipe, out: Path) -> Prepared:
    """Return the data of a recipe under ``out``; they need not be there yet. Raises RecipeError.

    The folder's name changes with the options, and where a program writes the text (the toy grammar) with that program.
    It does not change with the script: a corpus of millions of lines is not prepared again because a comment of a
    script was mended. The preparation refuses other options for a folder, and the runs' settings know the data by what
    is in them. Trees are added to data that are there, so their options do not count.
    """
    data = recipe.corpus
    if not (ROOT / data.prepare).exists():
        raise RecipeError(f"{recipe.where}: {data.prepare}: no such script")
    digest = hashlib.sha256(repr(without_trees(data.options)).encode())
    generator = ROOT / "data-prep" / "corpora" / Path(data.prepare).stem.removeprefix("prepare_")
    for path in sorted([*generator.glob("*.py"), *generator.glob("words/*.tsv")]):
        digest.update(path.read_bytes())
    return Prepared(
        out / "data" / f"{data.name}.{digest.hexdigest()[:8]}",
        source=data.source,
        target=data.target,
        bpe=data.bpe,
        lowercase=data.lowercase,
    )


def without_trees(words: Sequence[str]) -> list[str]:
    """Return options, or a command, without those of trees, each of which has a value."""
    trees = ("--trees", "--tree-files")
    return [word for before, word in itertools.pairwise(("", *words)) if word not in trees and before not in trees]


def local_folder(data: Data, given: str | None) -> Path | None:
    """Return the local copy of a corpus. Raises RecipeError.

    It is the folder given, else that of the corpus's environment variable, else its default where that exists, else
    None.
    """
    if given is not None and not data.takes_folder:
        raise RecipeError(f"--local {given}: {data.name} takes no folder")
    for value, origin in ((given, "--local "), (os.environ.get(data.variable), f"{data.variable}=")):
        if value and not Path(value).is_dir():
            give = f"give the folder that holds {data.name} (train.* and so on)"
            raise RecipeError(f"{origin}{value}: no such folder; {give}")
        if value:
            return Path(value).resolve()
    folder = ROOT / data.local
    return folder.resolve() if data.local and folder.is_dir() else None


@dataclass(frozen=True)
class Corpus:
    """The data of one or more rows, and what prepares them. ``mini``: folder of the mini corpus of a smoke run."""

    recipe: Recipe
    data: Prepared
    local: Path | None
    mini: Path | None

    @property
    def name(self) -> str:
        return self.recipe.corpus.name

    def command(self) -> list[str]:
        """Return the command that prepares the data; run again it continues, or does nothing."""
        data, source = self.recipe.corpus, self.mini or self.local
        options = [option.replace("{folder}", str(self.data.folder)) for option in data.options]
        if any("{local}" in option for option in options):
            if source is None:
                where = f"--local DIR or ${data.variable}" if data.variable else "--local DIR"
                raise RecipeError(f"{self.recipe.where}: {data.name}: give its folder with {where}")
            options = [option.replace("{local}", str(source)) for option in options]
        elif source:
            options += ["--local", str(source)]
        return ["bash", str(ROOT / data.prepare), str(self.data.folder), *options]

    def commands(self) -> list[list[str]]:
        """Return what prepares the data, in order; of a mini corpus its text and its trees as well."""
        last = self.command()
        if self.mini is None:
            return [last]
        found = [mini_corpus_argv(self.name, self.mini)]
        if "--trees" in last:
            language, trees = (last[last.index(option) + 1] for option in ("--trees", "--tree-files"))
            mini_trees = [sys.executable, str(MINI_TREES), str(self.data.folder / "tok"), language, trees]
            found += [without_trees(last), mini_trees]
        return [*found, last]

    def prepare(self, progress: Progress, after: float) -> None:
        """Prepare the data; what is done is skipped. ``after``: seconds expected for what follows. Raises JobFailed.

        Complete data whose text is a folder that is not here, as on another machine, are taken as they are.
        """
        commands = self.commands()
        done = self.data.complete(phrases="--trees" in commands[-1])
        if done and self.recipe.corpus.takes_folder and self.local is None and self.mini is None:
            return
        for argv in commands[:-1] if not done else []:
            run_to_end(argv, self.data.folder.with_name(f"{self.data.folder.name}.mini.log"))
        expected = 1.0 if self.data.bin.is_dir() else EXPECTED_SECONDS
        # The log lies beside the folder: the script owns the folder, with its lock.
        job = Job(commands[-1], self.data.folder.parent / f"{self.data.folder.name}.log", threads=self.recipe.threads)
        try:
            while not job.finished():
                left = max(3.0, expected - (time.time() - job.started))
                progress.update(f"preparing {self.name}", left + after)
                time.sleep(0.3)
        finally:
            progress.close()


def run_to_end(argv: list[str], log: Path) -> None:
    """Run a short command. Raises JobFailed."""
    job = Job(argv, log, threads=1)
    while not job.finished():
        time.sleep(0.1)


def mini_corpus_argv(name: str, folder: Path) -> list[str]:
    """Return the command that writes the mini corpus of a recipe's data into a folder."""
    return [sys.executable, str(MINI_CORPUS), name, str(folder)]
