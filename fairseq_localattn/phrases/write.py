"""Writing of the phrases of a data folder, their tags and their settings, all at once at the end.

Tags get their final numbers when all splits have been read: until then tag t of the tags found so far is stored as
-1 - t in temporary files.
"""

from __future__ import annotations

import functools
import json
import signal
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import torch
from fairseq.data import Dictionary, indexed_dataset

from ..files import check_folder, remove_parts, replaced
from ..parallel import map_in_order
from ..progress import ProgressBar, progress_bar
from .convert import Conversion, convert
from .splits import Split, check_complete, check_lengths, read_chunks

CHUNK = 3000  # lines times levels that a process converts at a time
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

    Raises TreeError for texts and trees that do not fit, and OutputError for a file that cannot be written; then the
    former phrases are still there, unless the new files were taking their place.
    """
    check_folder(data)
    dictionary_file, settings_file = data / f"dict.{lang}.phrases.txt", data / f"{lang}.phrases.json"
    for path in (dictionary_file, settings_file, *(split.file(kind) for split in splits for kind in ("bin", "idx"))):
        remove_parts(data, path.name)
    # The last file that is opened here is the first to be replaced; the indices come last: without an index the phrases
    # cannot be loaded.
    with ExitStack() as stack:
        indices = [stack.enter_context(replaced(split.file("idx"))) for split in splits]
        parts: list[Path] = []
        numbers: dict[str, int] = {}
        with progress_bar(sum(len(split.lengths) for split in splits), "sentences") as progress:
            for split, index in zip(splits, indices, strict=True):
                progress.set_description(split.name, refresh=False)
                parts.append(stack.enter_context(replaced(split.file("bin"))))
                _write_split(split, conversion, numbers, progress, workers=workers, files=(parts[-1], index))
        tags = make_dictionary(splits) if tags is None else tags
        table = np.array([tags.index(tag) if tag else tags.pad() for tag in numbers], dtype=np.int32)
        for part in parts:
            _renumber_file(part, table)
        tags.save(str(stack.enter_context(replaced(dictionary_file))))
        settings = {"lang": lang, "levels": conversion.levels, "subwords": conversion.subwords}
        text = json.dumps(settings, indent=2) + "\n"
        stack.enter_context(replaced(settings_file)).write_text(text, encoding="utf-8")
        for split in splits:
            split.file("idx").unlink(missing_ok=True)
    return tags


def _write_split(
    split: Split,
    conversion: Conversion,
    numbers: dict[str, int],
    progress: ProgressBar,
    *,
    workers: int,
    files: tuple[Path, Path],
) -> None:
    """Write the phrases of a split to ``files``, .bin and .idx, tag t of ``numbers`` as -1 - t; add new tags to it."""
    builder = indexed_dataset.MMapIndexedDatasetBuilder(str(files[0]), dtype=np.int32)
    work, lines = functools.partial(convert, conversion), max(1, CHUNK // conversion.levels)
    # Ctrl-C reaches all processes: this one ends the workers.
    start = functools.partial(signal.signal, signal.SIGINT, signal.SIG_IGN) if workers > 1 else None
    with closing(map_in_order(work, read_chunks(split, lines), workers, start=start)) as chunks:
        for chunk in chunks:
            check_lengths(split, chunk.subwords)
            split.count(chunk)
            table = np.array([-1 - numbers.setdefault(tag, len(numbers)) for tag in chunk.tags], dtype=np.int32)
            renumber(chunk.numbers, table)
            for item in np.split(chunk.numbers, np.cumsum(chunk.sizes)[:-1]):
                builder.add_item(torch.from_numpy(item))
            progress.update(len(chunk.sizes))
    check_complete(split)
    builder.finalize(str(files[1]))


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
