"""Reads corpora for classification, checks them, and writes one text and one label a line.

Written are PART/{train,valid,test}.text and .label, and PART/labels.txt: the labels in order, as a dictionary of
fairseq's. Errors name file and line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from corpora.errors import DataError
from corpora.progress import progress
from corpora.text.lines import SPLITS, LineFiles, write_lines


def prepare(
    part: Path, classes: int, examples: Iterable[tuple[str, str, int]], official: Mapping[str, int],
    exact: bool = False,
) -> None:  # fmt: skip
    """Write (split, text, class) into the files of their splits, and print the number of texts of each class.

    White space of any kind becomes one space, as fairseq reads it. official: numbers of texts; exact: other ones are an
    error. Raises DataError, also where a split is empty.
    """
    counts: dict[str, list[int]] = {}
    longest: Counter[str] = Counter()  # words of a split's longest text
    with LineFiles(part) as files:
        for name, text, label in progress(examples, "read", "texts"):
            words = text.split()
            files.write(f"{name}.text", " ".join(words))
            files.write(f"{name}.label", str(label))
            counts.setdefault(name, [0] * classes)[label] += 1
            longest[name] = max(longest[name], len(words))
    for name in SPLITS:
        if name not in counts:
            raise DataError(f"{name}: no text with one of the {classes} classes; give the whole corpus")
    write_lines(part / "labels.txt", (f"{label} {count}" for label, count in enumerate(counts["train"])))
    for name, numbers in counts.items():
        total = sum(numbers)
        classed = ", ".join(f"class {each}: {count:,}" for each, count in enumerate(numbers))
        expected = official.get(name, total)
        note = "" if total == expected else f" (official: {expected:,})"
        if note and exact:
            raise DataError(f"{name}: {total:,} texts{note}; get the corpus again")
        print(f"{name}: {total:,} texts{note}; {classed}; the longest has {longest[name]:,} words", flush=True)
