"""Writes the phrases of a source language, and their tags, beside its binarised text.

    python -m fairseq_localattn.phrases.binarize DATA --lang en --texts BPE_DIR --trees TREE_DIR

DATA is a folder of fairseq-preprocess. For each of its splits, {split}.{a}-{b}.{lang}, the text BPE_DIR/{split}.{lang}
and the trees TREE_DIR/{split}.{lang}.tree, line by line beside it, become {split}.{a}-{b}.{lang}.phrases.{bin,idx} (its
form: `store`). The tags of all splits, the most frequent in training first, become dict.{lang}.phrases.txt, and the
settings {lang}.phrases.json. An empty line of trees is a sentence of one-word phrases without tags. All files appear
together at the end; a run that was stopped is started again from the beginning. Errors are one line, exit status 1.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

import numpy as np
import torch
from fairseq.data import Dictionary, indexed_dataset

from ..errors import UsageError
from .convert import Converted, Lines, Settings, convert
from .parallel import Progress, in_order
from .subwords import CONVENTIONS
from .trees import TreeError, read_lines

__all__ = ["binarize", "find_splits", "main"]

CHUNK = 1000  # lines that a process converts at a time
BLOCK = 1 << 24  # numbers that are given their tags at a time


@dataclass
class Split:
    """A split of DATA: its files, and what was found while its phrases were written.

    prefix: of the binarised source, without .idx. lengths: (sentences,), subwords without </s>. phrases: on each level.
    """

    name: str
    prefix: Path
    text: Path
    trees: Path
    lengths: np.ndarray
    sentences: int = 0
    without_tree: int = 0
    differing: int = 0
    first_differing: int = 0
    phrases: np.ndarray = field(default_factory=lambda: np.zeros((), dtype=np.int64))
    tags: Counter[str] = field(default_factory=Counter)

    def file(self, kind: str) -> Path:
        """Where the phrases go: kind is bin or idx."""
        return self.prefix.with_name(f"{self.prefix.name}.phrases.{kind}")


def find_splits(data: Path, lang: str, texts: Path, trees: Path) -> list[Split]:
    """Return the splits of `data`, training first. Raises UsageError where one is missing or has no text or trees."""
    pattern = re.compile(rf"((?:train|valid|test)\d*)\.[^.]+-[^.]+\.{re.escape(lang)}\.idx")
    found = [(match[1], path) for path in sorted(data.glob("*.idx")) if (match := pattern.fullmatch(path.name))]
    if not found:
        raise UsageError(
            f"{data}: no binarised {lang}, such as train.{lang}-xx.{lang}.idx; run fairseq-preprocess first"
        )
    splits = []
    for name, path in sorted(found, key=lambda item: (not item[0].startswith("train"), item[0], item[1])):
        text, tree = texts / f"{name}.{lang}", trees / f"{name}.{lang}.tree"
        if not text.is_file():
            raise UsageError(f"{text}: no such file; --texts is the folder of the text that fairseq-preprocess read")
        if not tree.is_file():
            raise UsageError(f"{tree}: no such file; parse {text.name}, or take {path.stem} out of {data}")
        prefix = path.with_suffix("")
        splits.append(Split(name, prefix, text, tree, source_lengths(prefix)))
    return splits


def source_lengths(prefix: Path) -> np.ndarray:
    """Return the subwords of each sentence of a binarised text, (sentences,), </s> not counted. Raises UsageError."""
    try:
        source = indexed_dataset.make_dataset(str(prefix), indexed_dataset.infer_dataset_impl(str(prefix)))
        return np.array(source.sizes, dtype=np.int64) - 1
    except (OSError, ValueError, AttributeError) as error:
        raise UsageError(f"{prefix}.idx: cannot be read ({error}); run fairseq-preprocess again") from None


def read_chunks(split: Split) -> Iterator[Lines]:
    """Yield the lines of a text and its trees. Raises TreeError where one of them has fewer lines."""
    chunk = Lines(1, [], [], split.trees)
    for text, tree in zip_longest(read_lines(split.text), read_lines(split.trees)):
        if text is None or tree is None:
            shorter, longer = (split.text, split.trees) if text is None else (split.trees, split.text)
            number = (text or tree)[0]
            raise TreeError(
                f"{shorter}:{number}: no such line, {longer} has more; they must be line by line beside each other: "
                "parse this text again"
            )
        chunk.texts.append(text[1])
        chunk.trees.append(tree[1])
        if len(chunk.texts) == CHUNK:
            yield chunk
            chunk = Lines(text[0] + 1, [], [], split.trees)
    if chunk.texts:
        yield chunk


def check_lengths(split: Split, subwords: Sequence[int]) -> None:
    """Raise TreeError if the next sentences of a text are not as long as in the binarised source."""
    begin = split.sentences
    binarised = split.lengths[begin : begin + len(subwords)]
    differing = np.flatnonzero(np.array(subwords[: len(binarised)]) != binarised)
    again = "give the --texts that fairseq-preprocess read, or run it again"
    if differing.size:
        at = int(differing[0])
        raise TreeError(
            f"{split.text}:{begin + at + 1}: {subwords[at]} subwords, {split.prefix}.idx has {binarised[at]}; {again}"
        )
    if len(binarised) < len(subwords):
        total = len(split.lengths)
        raise TreeError(f"{split.text}:{total + 1}: {split.prefix}.idx has {total} sentences only; {again}")


def write_phrases(split: Split, settings: Settings, marks: dict[str, int], workers: int, progress: Progress) -> None:
    """Write the temporary phrases of a split, tag t of `marks` as -1 - t; new tags are added to it."""
    builder = indexed_dataset.MMapIndexedDatasetBuilder(str(temporary(split.file("bin"))), dtype=np.int32)
    work = functools.partial(convert, settings)
    with closing(in_order(work, read_chunks(split), workers)) as chunks:
        for chunk in chunks:
            check_lengths(split, chunk.subwords)
            add(split, chunk)
            table = np.array([-1 - marks.setdefault(tag, len(marks)) for tag in chunk.tags], dtype=np.int32)
            renumber(chunk.numbers, table)
            for item in np.split(chunk.numbers, np.cumsum(chunk.sizes)[:-1]):
                builder.add_item(torch.from_numpy(item))
            progress.advance(len(chunk.sizes), split.name)
    if split.sentences < len(split.lengths):
        raise TreeError(
            f"{split.text}:{split.sentences + 1}: no such line, {split.prefix}.idx has {len(split.lengths)} sentences; "
            "give the --texts that fairseq-preprocess read, or run it again"
        )
    builder.finalize(str(temporary(split.file("idx"))))


def add(split: Split, chunk: Converted) -> None:
    """Count what a chunk has."""
    split.sentences += len(chunk.sizes)
    split.without_tree += chunk.without_tree
    if chunk.differing:
        split.first_differing = split.first_differing or chunk.differing[0]
        split.differing += len(chunk.differing)
    split.phrases = split.phrases + chunk.phrases
    split.tags.update(chunk.counts)


def renumber(numbers: np.ndarray, table: np.ndarray) -> None:
    """Replace each negative number -1 - t by table[t], in place."""
    marked = numbers < 0
    numbers[marked] = table[-1 - numbers[marked]]


def give_tags(path: Path, table: np.ndarray) -> None:
    """`renumber` a file of int32 numbers, a block at a time."""
    numbers = np.memmap(path, dtype=np.int32, mode="r+")
    for begin in range(0, numbers.size, BLOCK):
        renumber(numbers[begin : begin + BLOCK], table)
    numbers.flush()


def make_dictionary(splits: Iterable[Split]) -> Dictionary:
    """Return the dictionary of all tags: by their phrases in training, then in all splits, then by name.

    The counts in it are those in training.
    """
    train, total = Counter[str](), Counter[str]()
    for split in splits:
        total.update(split.tags)
        if split.name.startswith("train"):
            train.update(split.tags)
    tags = Dictionary()
    for tag in sorted(total.keys() - {""}, key=lambda name: (-train[name], -total[name], name)):
        tags.add_symbol(tag, n=train[tag])
    return tags


def temporary(path: Path) -> Path:
    """The name of a file until all are complete."""
    return path.with_name(f"{path.name}.tmp")


def install(splits: Sequence[Split], others: Sequence[Path]) -> None:
    """Give all files their names, the indices last: without them, nothing can be loaded."""
    for split in splits:
        split.file("idx").unlink(missing_ok=True)
    for path in [*(split.file("bin") for split in splits), *others, *(split.file("idx") for split in splits)]:
        os.replace(temporary(path), path)


def binarize(
    data: Path, lang: str, splits: Sequence[Split], settings: Settings, tags: Dictionary | None, workers: int
) -> Dictionary:
    """Write the phrases of all splits, the dictionary of tags (`tags`, or one made of them) and the settings.

    Returns the dictionary. Raises TreeError; then nothing has changed in `data`.
    """
    files = [data / f"dict.{lang}.phrases.txt", data / f"{lang}.phrases.json"]
    written = [*files, *(split.file(kind) for split in splits for kind in ("bin", "idx"))]
    try:
        marks: dict[str, int] = {}
        progress = Progress(sum(len(split.lengths) for split in splits), "sentences")
        for split in splits:
            write_phrases(split, settings, marks, workers, progress)
        progress.close()
        tags = make_dictionary(splits) if tags is None else tags
        table = np.array([tags.index(tag) if tag else tags.pad() for tag in marks], dtype=np.int32)
        for split in splits:
            give_tags(temporary(split.file("bin")), table)
        tags.save(str(temporary(files[0])))
        kept = {"lang": lang, "levels": settings.levels, "subwords": settings.subwords}
        temporary(files[1]).write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
        install(splits, files)
    finally:
        for path in written:
            temporary(path).unlink(missing_ok=True)
    return tags


def report(data: Path, lang: str, splits: Sequence[Split], tags: Dictionary) -> None:
    """Print what was written."""
    for split in splits:
        total = max(1, split.sentences)
        numbers = ", ".join(f"{mean:.2f}" for mean in np.atleast_1d(split.phrases) / total)
        print(
            f"{split.prefix.name}: {split.sentences:,} sentences, {split.without_tree:,} without a tree "
            f"({100 * split.without_tree / total:.2f} %); phrases a sentence by level: {numbers}"
        )
        if split.differing:
            print(
                f"{split.prefix.name}: words differ from the leaves in {split.differing:,} sentences, first "
                f"{split.trees}:{split.first_differing}; look whether these trees are those of this text"
            )
    print(f"{data}/dict.{lang}.phrases.txt: {len(tags) - tags.nspecial} tags")


def load_dictionary(path: Path) -> Dictionary:
    """Return a dictionary of tags. Raises UsageError where it cannot be read."""
    try:
        return Dictionary.load(str(path))
    except FileNotFoundError:
        raise UsageError(f"--tag-dictionary {path}: no such file") from None
    except Exception as error:  # fairseq raises them plain
        raise UsageError(f"--tag-dictionary {path}: {str(error).splitlines()[0]}") from None


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_localattn.phrases.binarize",
        description="Write the phrases of a source language, and their tags, beside its binarised text.",
    )
    parser.add_argument("data", type=Path, metavar="DATA", help="folder that fairseq-preprocess wrote")
    parser.add_argument("--lang", required=True, help="the source language")
    parser.add_argument("--texts", type=Path, required=True, metavar="DIR", help="{split}.{lang}, split into subwords")
    parser.add_argument("--trees", type=Path, required=True, metavar="DIR", help="{split}.{lang}.tree, one a line")
    parser.add_argument("--levels", type=int, default=3, metavar="N", help="depths of the tree (default: %(default)s)")
    parser.add_argument("--subwords", choices=CONVENTIONS, default=CONVENTIONS[0], help="default: %(default)s")
    parser.add_argument(
        "--tag-dictionary", type=Path, metavar="FILE", help="dict.{lang}.phrases.txt of the training data"
    )
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), metavar="N", help="processes")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Write the phrases and print a report."""
    parser = make_parser()
    args = parser.parse_args(argv)
    for name in ("levels", "workers"):
        if getattr(args, name) < 1:
            parser.error(f"--{name} must be 1 or more")
    tags, known = None, None
    if args.tag_dictionary is not None:
        tags = load_dictionary(args.tag_dictionary)
        known = frozenset(tags.symbols[tags.nspecial :])
    splits = find_splits(args.data, args.lang, args.texts, args.trees)
    if tags is None and not any(split.name.startswith("train") for split in splits):
        raise UsageError(
            f"{args.data}: no training split to take the tags from; give --tag-dictionary, the "
            f"dict.{args.lang}.phrases.txt of the training data"
        )
    settings = Settings(args.levels, args.subwords, known, str(args.tag_dictionary or ""))
    try:
        tags = binarize(args.data, args.lang, splits, settings, tags, args.workers)
    except TreeError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"{error.filename}: cannot be written: {error.strerror}") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    report(args.data, args.lang, splits, tags)


if __name__ == "__main__":
    main()
