"""Damaged data: dictionaries and indexed data sets are checked when they are opened, and errors are one line."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np
from fairseq.data import Dictionary, indexed_dataset
from fairseq.data.indexed_dataset import MMapIndexedDataset, MMapIndexedDatasetBuilder
from fairseq.tasks.fairseq_task import FairseqTask

from ..errors import SentenceError, UsageError
from .around import around

AGAIN = "write it again, by fairseq-preprocess or phrases.binarize, or copy it again"
TAGS = ".phrases.txt"  # end of the name of a dictionary of tags
# Header of an .idx: magic, version, type of the numbers, and how many sentences.
HEADER = np.dtype([("magic", "S9"), ("version", "<u8"), ("type", "u1"), ("sentences", "<u8")])
BLOCK = 1 << 20  # sentences that are checked at a time


def apply() -> None:
    """Install the checks in fairseq; to be called once."""
    around(Dictionary, "add_from_file")(_naming_the_line)
    around(indexed_dataset, "make_dataset")(_checked)
    around(MMapIndexedDatasetBuilder, "merge_file_")(_with_long_sizes)
    around(FairseqTask, "filter_indices_by_size")(_naming_the_sentence)


# ------------------------------------------------------------------ dictionaries


def _naming_the_line(add_from_file: Callable[..., None], self: Dictionary, f: Any) -> None:
    """Wrap ``Dictionary.add_from_file`` so that it raises UsageError, with file and line, for a damaged file.

    A file without words is refused as well, but for that of tags: trees may have none.
    """
    before = len(self)
    try:
        add_from_file(self, f)
        if isinstance(f, str) and len(self) == before and not f.endswith(TAGS):
            raise UsageError(f"{f}: no words in it; copy the dictionary of the training")
    except (OSError, UsageError):
        raise
    except Exception as error:  # fairseq raises plain exceptions
        if not isinstance(f, str):
            raise
        place, reason = find_damage(f, type(self), error)
        raise UsageError(f"{place}: {reason}; correct the line, or copy the dictionary of the training") from error


def find_damage(path: str, kind: type[Dictionary], error: Exception) -> tuple[str, str]:
    """Return where a dictionary's file is damaged, ``path:line``, and in one line how.

    ``error`` is fairseq's, without the line; it is returned if no line can be found.
    """
    words = kind()
    with open(path, encoding="utf-8", errors="surrogateescape") as file:  # splits lines as fairseq does
        for number, line in enumerate(file, 1):
            place = f"{path}:{number}"
            try:
                line.encode("utf-8")
                words.add_from_file(io.StringIO(line))
            except UnicodeEncodeError:
                return place, "invalid UTF-8"
            except RuntimeError:
                return place, f"the word {line.rsplit(' ', 1)[0]!r} is there twice, or is a special symbol of fairseq's"
            except ValueError:
                return place, f"expected a word, a blank and its count, found {line.strip()[:60]!r}"
    return path, " ".join(str(error).split())


# ------------------------------------------------------------------ indexed data sets


def _checked(
    make_dataset: Callable[..., Any],
    path: str,
    impl: str,
    fix_lua_indexing: bool = False,
    dictionary: Dictionary | None = None,
) -> Any:
    """Wrap ``make_dataset`` so that it raises UsageError for a damaged data set, which fairseq reads without checks."""
    legacy = impl in ("cached", "lazy")  # "cached" is also fairseq's default for an unknown kind
    if (legacy or impl == "mmap") and MMapIndexedDataset.exists(path):
        with open(f"{path}.idx", "rb") as file:
            magic = file.read(8)
            if not legacy or magic != indexed_dataset.IndexedDataset._HDR_MAGIC:
                check_index(path, file)
    dataset = make_dataset(path, impl, fix_lua_indexing=fix_lua_indexing, dictionary=dictionary)
    if dictionary is not None and isinstance(dataset, MMapIndexedDataset):
        tokens = np.frombuffer(dataset._bin_buffer, dtype=dataset._index.dtype)
        lowest, highest = int(tokens.min(initial=0)), int(tokens.max(initial=0))
        if lowest < 0 or highest >= len(dictionary):
            number = lowest if lowest < 0 else highest
            raise UsageError(
                f"{path}.bin: the number {number} of a word, and the dictionary has {len(dictionary)}: the file "
                f"is damaged, or the dictionary is of other data; {AGAIN}"
            )
    return dataset


def check_index(prefix: str, file: BinaryIO) -> None:
    """Check the sizes in ``prefix.idx``, which is opened in ``file``, against themselves and against ``prefix.bin``.

    Raises UsageError for files that fairseq-preprocess did not write, or not completely.
    """
    index, data = f"{prefix}.idx", f"{prefix}.bin"
    file.seek(0)
    found = file.read(HEADER.itemsize)
    if len(found) < HEADER.itemsize:
        raise UsageError(f"{index}: cut short, or empty; {AGAIN}")
    header = np.frombuffer(found, HEADER)[0]
    dtype = indexed_dataset._code_to_dtype.get(int(header["type"]))
    magic = MMapIndexedDataset.Index._HDR_MAGIC.rstrip(b"\0")
    if header["magic"] != magic or header["version"] != 1 or dtype is None:
        raise UsageError(f"{index}: no index of fairseq's, or damaged at its beginning; {AGAIN}")
    count, there = int(header["sentences"]), os.fstat(file.fileno()).st_size
    if there != HEADER.itemsize + 12 * count:  # a size of four bytes and an offset of eight for each
        raise UsageError(f"{index}: {there:,} bytes do not hold the {count:,} sentences that it announces; {AGAIN}")
    if count == 0:
        raise UsageError(f"{data}: the split has no sentences: remove it, or give it some")
    end = 0
    for first in range(0, count, BLOCK):
        number = min(BLOCK, count - first)
        file.seek(HEADER.itemsize + 4 * first)
        sizes = np.frombuffer(file.read(4 * number), "<i4").astype(np.int64)
        file.seek(HEADER.itemsize + 4 * count + 8 * first)
        offsets = np.frombuffer(file.read(8 * number), "<i8")
        ends = end + np.cumsum(sizes) * np.dtype(dtype).itemsize
        wrong = (sizes < 0) | (offsets != np.concatenate([[end], ends[:-1]]))
        if wrong.any():
            at = first + int(np.argmax(wrong))
            raise UsageError(f"{index}: the size or the place of sentence {at + 1} is damaged; {AGAIN}")
        end = int(ends[-1])
    stored = os.path.getsize(data)
    if stored != end:
        raise UsageError(f"{data}: {stored:,} bytes, and {index} announces {end:,}: one of them is damaged; {AGAIN}")


def _with_long_sizes(merge: Callable[..., None], self: Any, another_file: str) -> None:
    """Wrap ``merge_file_`` of the builder, whose sizes of 32 bits make offsets from 2 GB on overflow with numpy 2."""
    before = len(self._sizes)
    merge(self, another_file)
    self._sizes[before:] = map(int, self._sizes[before:])


# ------------------------------------------------------------------ sentences


def _naming_the_sentence(
    filter_indices: Callable[..., Any],
    self: Any,
    indices: Any,
    dataset: Any,
    max_positions: Any = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Wrap ``filter_indices_by_size`` of tasks so that a sentence that is too long is a SentenceError of one line."""
    try:
        return filter_indices(self, indices, dataset, max_positions, *args, **kwargs)
    except Exception as error:
        found = re.match(r"Size of sample #(\d+) is invalid", str(error))
        if found is None:
            raise
        index = int(found[1])
        tokens, most = _too_long(dataset.size(index), max_positions)
        raise SentenceError(
            f"{tokens} tokens, and the model reads {most}: shorten or split the sentence, or leave such ones out "
            "(--skip-invalid-size-inputs-valid-test)",
            index,
        ) from error


def _too_long(size: Any, most: Any) -> tuple[Any, Any]:
    """Return the number of tokens that is too high, of a sentence or of the two of a pair, and its limit."""
    if isinstance(size, tuple) and isinstance(most, tuple):
        return next(((int(n), m) for n, m in zip(size, most, strict=False) if m is not None and n > m), (size, most))
    return size, most
