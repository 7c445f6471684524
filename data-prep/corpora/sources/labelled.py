"""Reads corpora for classification, checks them, and writes one text and one label a line.

    python -m corpora.sources.labelled sst  DIR  PART [--classes 5|2] [--phrases]
    python -m corpora.sources.labelled imdb DIR  PART [--valid 1000]
    python -m corpora.sources.labelled sva  FILE PART [--seed 1]

Writes PART/{train,valid,test}.text and .label, and PART/labels.txt: the labels in order, as a dictionary of fairseq's.
Prints the numbers of texts, with those of the official release where they differ, which is an error with --exact. Each
error is one line that names file and line, with exit status 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from corpora.errors import DataError, as_status
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
