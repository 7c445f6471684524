"""Reads corpora for classification, checks them, and writes one text and one label a line.

    python -m corpora.text.labelled sst  DIR  PART [--classes 5|2] [--phrases]
    python -m corpora.text.labelled imdb DIR  PART [--valid 1000]
    python -m corpora.text.labelled sva  FILE PART [--seed 1]

PART gets {train,valid,test}.text and .label, and labels.txt: the labels in order, as a dictionary of fairseq's. The
numbers of texts are printed, beside those of the official release where they differ; --exact makes that an error. Each
error is one line that names file and line, with exit status 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

from corpora.sources import imdb, sst, sva
from corpora.text.parallel import DataError, as_status

SPLITS = ("train", "valid", "test")
PROGRESS_SECONDS = 30.0


class Split:
    """The texts and labels of one split on their way to two files; counts[k]: texts of class k; longest: in words."""

    def __init__(self, texts: TextIO, labels: TextIO, classes: int) -> None:
        self.counts = [0] * classes
        self.longest = 0
        self._texts, self._labels = texts, labels

    def add(self, text: str, label: int) -> None:
        """Write a text and its label; white space of any kind becomes one space, as fairseq will read it."""
        words = text.split()
        self._texts.write(" ".join(words) + "\n")
        self._labels.write(f"{label}\n")
        self.counts[label] += 1
        self.longest = max(self.longest, len(words))


def write(part: Path, classes: int, examples: Iterable[tuple[str, str, int]]) -> dict[str, Split]:
    """Write (split, text, class) into the files of their splits, one at a time; return what was written by split.

    Raises DataError where a split is empty.
    """
    splits: dict[str, Split] = {}
    told, total = time.monotonic(), 0
    with ExitStack() as files:

        def opened(name: str) -> TextIO:
            return files.enter_context((part / name).open("w", encoding="utf-8", newline="\n"))

        for split, text, label in examples:
            if split not in splits:
                splits[split] = Split(opened(f"{split}.text"), opened(f"{split}.label"), classes)
            splits[split].add(text, label)
            total += 1
            if total % 1000 == 0 and time.monotonic() - told > PROGRESS_SECONDS:
                told = time.monotonic()
                print(f"{total:,} texts written so far", flush=True)
    for split in SPLITS:
        if split not in splits:
            raise DataError(f"{split}: no text with one of the {classes} classes; give the whole corpus")
    counts = splits["train"].counts
    (part / "labels.txt").write_text("".join(f"{label} {count}\n" for label, count in enumerate(counts)))
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="corpus", required=True)
    for name in ("sst", "imdb", "sva"):
        command = commands.add_parser(name)
        command.add_argument("source", type=Path)
        command.add_argument("part", type=Path, help="an existing folder")
        command.add_argument("--exact", action="store_true", help="other numbers of texts than official are an error")
        if name == "sst":
            command.add_argument("--classes", type=int, choices=(5, 2), default=5)
            command.add_argument("--phrases", action="store_true", help="train on every distinct phrase")
        elif name == "imdb":
            command.add_argument("--valid", type=int, default=1000, help="validation reviews of each class")
        else:
            command.add_argument("--seed", type=int, default=1, help="of the division into splits")
    return parser


@as_status
def main() -> None:
    args = _parser().parse_args()
    classes, official = 2, {}
    if args.corpus == "sst":
        classes = args.classes
        official = {("sentences" if name == "train" and args.phrases else name): count
                    for name, count in sst.OFFICIAL[classes].items()}  # fmt: skip
        examples = sst.read(args.source, classes, args.phrases)
    elif args.corpus == "imdb":
        official = imdb.official(args.valid)
        examples = imdb.read(args.source, args.valid)
    else:
        examples = sva.read(args.source, args.seed)
    report(write(args.part, classes, examples), official, args.exact)


if __name__ == "__main__":
    sys.exit(main())
