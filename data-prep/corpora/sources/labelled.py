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
from corpora.text.lines import SPLITS, LineFiles, write_lines


@dataclass
class Split:
    """Size of a split: counts[k]: texts of class k; longest: words of the longest text."""

    counts: list[int]
    longest: int = 0


def prepare(
    part: Path, classes: int, examples: Iterable[tuple[str, str, int]], official: Mapping[str, int],
    exact: bool = False,
) -> None:  # fmt: skip
    """Write (split, text, class) into the files of their splits, and print the number of texts of each class.

    White space of any kind becomes one space, as fairseq reads it. official: numbers of texts; exact: other ones are an
    error. Raises DataError, also where a split is empty.
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
    for name, split in splits.items():
        total = sum(split.counts)
        classed = ", ".join(f"class {each}: {count:,}" for each, count in enumerate(split.counts))
        expected = official.get(name, total)
        note = "" if total == expected else f" (official: {expected:,})"
        if note and exact:
            raise DataError(f"{name}: {total:,} texts{note}; get the corpus again")
        print(f"{name}: {total:,} texts{note}; {classed}; the longest has {split.longest:,} words", flush=True)
