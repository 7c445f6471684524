"""What the tests of texts with summaries share: calling their preparations, and small tables of texts and summaries."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.prep import prepare

LANGS = ("article", "summary")
SMALL = ["--train-vocab", "140"]  # so few that most words are cut into pieces
NO_SOURCES = {f"{name}_{what}": "" for name in ("CNNDM", "GIGAWORD") for what in ("DIR", "URL")}


def prepared(corpus: str, out: Path, *options: object, **environment: str) -> subprocess.CompletedProcess:
    return prepare(corpus, out, *options, **(NO_SOURCES | environment))


def write_lines(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def tables(folder: Path, splits: dict[str, int]) -> dict[str, tuple[list[str], list[str]]]:
    """Write {split}.source and .target of so many pairs each: a text names its number, as its summary does."""
    texts = {}
    for split, count in splits.items():
        numbers = range(count)
        article = [f"The city of place{n} has a new bridge. It cost {n} coins." for n in numbers]
        texts[split] = (article, [f"Bridge of place{n} opened ." for n in numbers])
        for name, lines in zip(("source", "target"), texts[split], strict=True):
            write_lines(folder / f"{split}.{name}", lines)
    return texts
