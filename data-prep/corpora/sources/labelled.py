"""Reads corpora for classification, checks them, and writes one text and one label a line.

Written are PART/{train,valid,test}.text and .label, and PART/labels.txt: the labels in order, as a dictionary of
fairseq's. Errors name file and line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from corpora.errors import DataError
from corpora.progress import progress
from corpora.sources import imdb, sst, sva
from corpora.text.lines import LineFiles, write_lines

SPLITS = ("train", "valid", "test")


@dataclass
class Split:
    """Size of a split: counts[k]: texts of class k; longest: words of the longest text."""

    counts: list[int]
    longest: int = 0


def write(part: Path, classes: int, examples: Iterable[tuple[str, str, int]]) -> dict[str, Split]:
    """Write (split, text, class) into the files of their splits; return the size of each split.

    White space of any kind becomes one space, as fairseq reads it. Raises DataError where a split is empty.
    """
    splits: dict[str, Split] = {}
    with LineFiles(part) as files:
        for name, text, label in progress(examples, "read", "texts"):
            words = text.split()
            files.write(f"{name}.text", " ".join(words))
            files.write(f"{name}.label", str(label))
            split = splits.setdefault(name, Split([0] * classes))
            split.counts[label] += 1
            split.longest = max(split.longest, len(words))
    for name in SPLITS:
        if name not in splits:
            raise DataError(f"{name}: no text with one of the {classes} classes; give the whole corpus")
    write_lines(part / "labels.txt", (f"{label} {count}" for label, count in enumerate(splits["train"].counts)))
    return splits


def report(splits: Mapping[str, Split], official: Mapping[str, int], exact: bool) -> None:
    """Print the texts of each split and class; raises DataError where `exact` and a split's number is not official."""
    for name, split in splits.items():
        total = sum(split.counts)
        classes = ", ".join(f"class {label}: {count:,}" for label, count in enumerate(split.counts))
        expected = official.get(name, total)
        note = "" if total == expected else f" (official: {expected:,})"
        if note and exact:
            raise DataError(f"{name}: {total:,} texts{note}; get the corpus again")
        print(f"{name}: {total:,} texts{note}; {classes}; the longest has {split.longest:,} words", flush=True)


def prepare_sst(folder: Path, part: Path, classes: int = 5, phrases: bool = False, *, exact: bool = False) -> None:
    """Write the Stanford Sentiment Treebank; see sst.read. exact: other numbers of texts than official are an error."""
    named = {"train": "sentences"} if phrases else {}
    official = {named.get(split, split): count for split, count in sst.OFFICIAL[classes].items()}
    report(write(part, classes, sst.read(folder, classes, phrases)), official, exact)


def prepare_imdb(folder: Path, part: Path, valid: int, *, exact: bool = False) -> None:
    """Write IMDB; see imdb.read, and prepare_sst."""
    report(write(part, 2, imdb.read(folder, valid)), imdb.official(valid), exact)


def prepare_sva(table: Path, part: Path, seed: int) -> None:
    """Write subject-verb agreement; see sva.read. No official numbers of texts are known."""
    report(write(part, 2, sva.read(table, seed)), {}, exact=False)
