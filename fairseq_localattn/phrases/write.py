"""Writing of the phrases of a data folder, their tags and their settings, all at once at the end.

Tags get their final numbers when all splits have been read: until then tag t of the tags found so far is stored as
-1 - t in temporary files.
"""

from __future__ import annotations

import functools
import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import torch
from fairseq.data import Dictionary, indexed_dataset

from ..progress import ProgressBar, progress_bar
from .convert import Conversion, convert
from .parallel import map_in_order
from .splits import Split, check_complete, check_lengths, read_chunks

CHUNK = 3000  # levels of lines that a process converts at a time
BLOCK = 1 << 24  # numbers that are renumbered at a time


def write_phrases(
    data: Path, lang: str, splits: Sequence[Split], conversion: Conversion, *, tags: Dictionary | None, workers: int
) -> Dictionary:
    """Write the phrases of all splits, the dictionary of tags and the settings; return the dictionary.

    Args:
        data: the data folder.
        lang: the source language.
        splits: its splits, whose counts are updated.
        conversion: how a sentence is converted.
        tags: the dictionary to use; None makes one of the tags that are found.
        workers: number of processes.

    Raises TreeError for texts and trees that do not fit; then nothing has changed in ``data``.
    """
    dictionary_file, settings_file = data / f"dict.{lang}.phrases.txt", data / f"{lang}.phrases.json"
    files = [dictionary_file, settings_file, *(split.file(kind) for split in splits for kind in ("bin", "idx"))]
    try:
        numbers: dict[str, int] = {}
        with progress_bar(sum(len(split.lengths) for split in splits), "sentences") as progress:
            for split in splits:
                progress.set_description(split.name, refresh=False)
                _write_split(split, conversion, numbers, progress, workers=workers)
        tags = make_dictionary(splits) if tags is None else tags
        table = np.array([tags.index(tag) if tag else tags.pad() for tag in numbers], dtype=np.int32)
        for split in splits:
            _renumber_file(_temporary(split.file("bin")), table)
        tags.save(str(_temporary(dictionary_file)))
        settings = {"lang": lang, "levels": conversion.levels, "subwords": conversion.subwords}
        _temporary(settings_file).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        _install(splits, [dictionary_file, settings_file])
    finally:
        for path in files:
            _temporary(path).unlink(missing_ok=True)
    return tags


def _write_split(
    split: Split, conversion: Conversion, numbers: dict[str, int], progress: ProgressBar, *, workers: int
) -> None:
    """Write the temporary phrases of a split, tag t of ``numbers`` as -1 - t; new tags are added to ``numbers``."""
    builder = indexed_dataset.MMapIndexedDatasetBuilder(str(_temporary(split.file("bin"))), dtype=np.int32)
    work, lines = functools.partial(convert, conversion), max(1, CHUNK // conversion.levels)
    with closing(map_in_order(work, read_chunks(split, lines), workers)) as chunks:
        for chunk in chunks:
            check_lengths(split, chunk.subwords)
            split.count(chunk)
            table = np.array([-1 - numbers.setdefault(tag, len(numbers)) for tag in chunk.tags], dtype=np.int32)
            renumber(chunk.numbers, table)
            for item in np.split(chunk.numbers, np.cumsum(chunk.sizes)[:-1]):
                builder.add_item(torch.from_numpy(item))
            progress.update(len(chunk.sizes))
    check_complete(split)
    builder.finalize(str(_temporary(split.file("idx"))))


def renumber(numbers: np.ndarray, table: np.ndarray) -> None:
    """Replace each negative number -1 - t by table[t], in place."""
    negative = numbers < 0
    numbers[negative] = table[-1 - numbers[negative]]


def _renumber_file(path: Path, table: np.ndarray) -> None:
    """Apply :func:`renumber` to a file of int32 numbers, a block at a time."""
    numbers = np.memmap(path, dtype=np.int32, mode="r+")
    for begin in range(0, numbers.size, BLOCK):
        renumber(numbers[begin : begin + BLOCK], table)
    numbers.flush()


def make_dictionary(splits: Iterable[Split]) -> Dictionary:
    """Return the dictionary of all tags, ordered by their count in training, then in all splits, then by name.

    The counts in the dictionary are those in training.
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


def _temporary(path: Path) -> Path:
    """Return the name of a file until all files are complete."""
    return path.with_name(f"{path.name}.tmp")


def _install(splits: Sequence[Split], others: Sequence[Path]) -> None:
    """Rename all temporary files, the indices last: without an index the phrases cannot be loaded."""
    for split in splits:
        split.file("idx").unlink(missing_ok=True)
    for path in [*(split.file("bin") for split in splits), *others, *(split.file("idx") for split in splits)]:
        os.replace(_temporary(path), path)
