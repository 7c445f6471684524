"""Checks of dictionaries and indexed data sets: whole ones pass, whatever their size, and places are right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, data_utils, indexed_dataset

from fairseq_localattn.compat import data
from fairseq_localattn.errors import UsageError


def write(prefix: Path, sizes: list[int], impl: str = "mmap") -> str:
    """Write a data set of sentences of these lengths, of the numbers 4, 5, …; return its prefix."""
    builder = indexed_dataset.make_builder(f"{prefix}.bin", impl, vocab_size=100)
    for size in sizes:
        builder.add_item(torch.arange(4, 4 + size, dtype=torch.int32))
    builder.finalize(f"{prefix}.idx")
    return str(prefix)


def test_an_index_is_checked_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole one passes, with empty sentences in it; a wrong offset is found in whichever block it is."""
    monkeypatch.setattr(data, "BLOCK", 3)
    sizes = [1, 2, 0, 0, 3, 1, 2]
    prefix = write(tmp_path / "test", sizes)
    found = data_utils.load_indexed_dataset(prefix)
    assert found.sizes.tolist() == sizes and [len(found[n]) for n in range(7)] == sizes
    index = Path(f"{prefix}.idx")
    old = index.read_bytes()
    for wrong in range(7):
        place = data.HEADER.itemsize + 4 * 7 + 8 * wrong
        index.write_bytes(old[:place] + np.int64(1 << 40).tobytes() + old[place + 8 :])
        with pytest.raises(UsageError, match=rf"test.idx: the size or the place of sentence {wrong + 1} is damaged"):
            data_utils.load_indexed_dataset(prefix)


TYPE, COUNT, SIZES = 17, 18, 26  # places in an index


@pytest.mark.parametrize(
    ("ending", "place", "new", "says"),
    [
        (".idx", 0, b"X", "no index of fairseq's, or damaged at its beginning"),
        (".idx", 0, None, "cut short, or empty"),
        (".idx", 40, None, "do not hold the 2 sentences"),
        (".idx", COUNT, np.uint64(1 << 60).tobytes(), "do not hold the"),
        (".idx", SIZES, np.int32(-5).tobytes(), "size or the place of sentence 1 is damaged"),
        (".idx", TYPE, b"\x01", "size or the place of sentence 2 is damaged"),
        (".bin", 0, None, ".bin: 0 bytes, and "),
        (".bin", 6, None, "one of them is damaged"),
    ],
)
def test_damaged_data_are_named(ending: str, place: int, new: bytes | None, says: str, tmp_path: Path) -> None:
    """``new`` bytes at a place of a file, or nothing from there on."""
    file = Path(write(tmp_path / "test", [2, 3]) + ending)
    old = file.read_bytes()
    file.write_bytes(old[:place] + (b"" if new is None else new + old[place + len(new) :]))
    with pytest.raises(UsageError, match=says) as error:
        data_utils.load_indexed_dataset(str(tmp_path / "test"))
    assert str(tmp_path / "test.") in str(error.value) and "\n" not in str(error.value)


def test_a_split_without_sentences(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the split has no sentences"):
        data_utils.load_indexed_dataset(write(tmp_path / "test", []))


@pytest.mark.parametrize("impl", ["cached", "lazy"])
def test_data_in_the_older_format_are_read(impl: str, tmp_path: Path) -> None:
    prefix = write(tmp_path / "test", [2, 3], impl)
    words = Dictionary()
    found = data_utils.load_indexed_dataset(prefix, words, impl)
    if found.supports_prefetch:
        found.prefetch([0, 1])
    assert found[1].tolist() == [4, 5, 6]
    assert data_utils.load_indexed_dataset(str(tmp_path / "none"), words) is None


def test_a_word_beyond_the_dictionary_is_refused(tmp_path: Path) -> None:
    prefix, words = write(tmp_path / "test", [2]), Dictionary()
    words.add_symbol("a")
    with pytest.raises(UsageError, match="test.bin: the number 5 of a word, and the dictionary has 5"):
        data_utils.load_indexed_dataset(prefix, words)
    words.add_symbol("b")
    assert len(data_utils.load_indexed_dataset(prefix, words)) == 1


def test_merged_data_beyond_two_gigabytes(tmp_path: Path) -> None:
    """fairseq-preprocess --workers merges parts; their sizes, of 32 bits, would make its offsets overflow."""
    write(tmp_path / "part", [1 << 10] * 3)
    builder = indexed_dataset.MMapIndexedDatasetBuilder(f"{tmp_path}/whole.bin", dtype=np.int64)
    builder._dtype = np.uint16
    builder.merge_file_(str(tmp_path / "part"))
    sizes = [size << 20 for size in builder._sizes]  # sentences of 2^30 numbers
    pointers = indexed_dataset.MMapIndexedDataset.Index.writer("", np.int64)._get_pointers(sizes)
    assert pointers == [0, 1 << 33, 1 << 34]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"a 1\r\nb 2\r\nc\xff 3\r\n", "dict.txt:3: invalid UTF-8"),
        (b"a 1\nb 2\n\na 3\n", "dict.txt:3: expected a word, a blank and its count, found ''"),
        (b"a 1\nb 2\na 3\n", "dict.txt:3: the word 'a' is there twice"),
        (b"<pad> 1\n", "dict.txt:1: the word '<pad>' is there twice, or is a special symbol"),
        (b"a 1\nb two\n", "dict.txt:2: expected a word, a blank and its count, found 'b two'"),
        (b"", "dict.txt: no words in it"),
    ],
)
def test_the_line_of_a_dictionary_is_named(text: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "dict.txt").write_bytes(text)
    with pytest.raises(UsageError) as error:
        Dictionary.load(str(tmp_path / "dict.txt"))
    assert str(error.value).startswith(f"{tmp_path}/{says}") and "\n" not in str(error.value)


def test_dictionaries_that_fairseq_takes(tmp_path: Path) -> None:
    """An overwritten word, words with blanks, and tags of no tree."""
    (tmp_path / "dict.txt").write_text("a 1\nb c 2\na 3 #fairseq:overwrite\n")
    assert Dictionary.load(str(tmp_path / "dict.txt")).symbols[4:] == ["a", "b c", "a"]
    (tmp_path / "dict.xx.phrases.txt").write_text("")
    assert len(Dictionary.load(str(tmp_path / "dict.xx.phrases.txt"))) == 4
    with (tmp_path / "dict.txt").open() as file:
        assert len(Dictionary.load(file)) == 7
