"""Subject-verb agreement of Linzen et al. (2016): whether the verb that follows a text is singular or plural.

The table is their agr_50_mostcommon_10K.tsv: tab-separated, as Python's csv module writes it (fields may be quoted,
lines end in a carriage return and a newline), with a header that names the columns. Used are `sentence` (with parts of
speech for words beyond the 10,000 most frequent ones), `verb_index` (of the verb, from 1) and `verb_pos` (VBZ or VBP),
as in the authors' github.com/TalLinzen/rnn_agreement, rnnagr/utils.py and agreement_acceptor.py.
"""

from __future__ import annotations

import csv
import random
from array import array
from collections.abc import Iterator
from pathlib import Path

from corpora.errors import DataError
from corpora.text.lines import SPLITS, check_words, read_lines

CLASSES = {"VBZ": 0, "VBP": 1}
COLUMNS = ("sentence", "verb_pos", "verb_index")


def rows(path: Path) -> Iterator[tuple[int, str, int]]:
    """Yield (line number, text before the verb, class) of each row, with one row in memory; raises DataError."""
    lines = (line for _, line in read_lines(path))
    table = csv.reader(lines, delimiter="\t")
    header = next(table, [])
    for column in COLUMNS:
        if column not in header:
            raise DataError(f"{path}:1: no column {column} in the header; it has {', '.join(header)}")
    sentence, pos, index = (header.index(column) for column in COLUMNS)
    try:
        for row in table:
            number = table.line_num
            if len(row) != len(header):
                raise DataError(f"{path}:{number}: {len(row)} columns, the header has {len(header)}")
            if row[pos] not in CLASSES:
                raise DataError(f"{path}:{number}: verb_pos is VBZ or VBP, found {row[pos] or 'nothing'}")
            words = row[sentence].split()
            if not row[index].isdecimal() or not 2 <= int(row[index]) <= len(words):
                raise DataError(
                    f"{path}:{number}: verb_index {row[index]} is no word with words before it ({len(words)} words)"
                )
            text = " ".join(words[: int(row[index]) - 1])
            check_words(path, number, text)
            yield number, text, CLASSES[row[pos]]
    except csv.Error as error:
        raise DataError(f"{path}:{table.line_num}: {error}; a quote that is not closed?") from None


def divide(count: int, seed: int) -> array:
    """Return the split of each row, as an index of SPLITS: 9 % train, 1 % valid, rest test, by a seeded permutation."""
    train, valid = count * 9 // 100, count // 100
    order = array("l", range(count))
    random.Random(seed).shuffle(order)
    splits = array("b", bytes([2])) * count
    for place, row in enumerate(order[: train + valid]):
        splits[row] = 0 if place < train else 1
    return splits


def read(path: Path, seed: int) -> Iterator[tuple[str, str, int]]:
    """Yield (split, text, class) of all rows in the order of the file, which is read twice. Raises DataError."""
    count = sum(1 for _ in rows(path))
    if count < 100:
        raise DataError(f"{path}: {count} rows; at least 100, for a validation split of 1 %")
    for split, (_, text, label) in zip(divide(count, seed), rows(path), strict=True):
        yield SPLITS[split], text, label
