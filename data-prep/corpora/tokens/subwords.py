"""Byte-pair encoding of large files with subword-nmt: codes are learned from counted words, and applied in parallel.

Codes and text are those of subword_nmt.learn_bpe and subword_nmt.apply_bpe; `learn` holds the distinct words in memory
instead of the text.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from corpora.errors import DataError
from corpora.progress import progress
from corpora.text.lines import read_lines, whole_files

_CACHED = 200_000  # words whose subwords a process keeps; subword-nmt itself would keep them all


def count_words(paths: Sequence[Path]) -> Counter[str]:
    """Return the frequency of each word in the files, in the order of subword-nmt; raises DataError."""
    counts: Counter[str] = Counter()
    for path in paths:
        for _, line in progress(read_lines(path), f"words of {path.name}"):
            counts.update(word for word in line.strip("\r\n ").split(" ") if word)
    return counts


class _Codes:
    """File that subword-nmt writes to, one merge a line after a header; `count` is the number of merges."""

    def __init__(self, out: TextIO, merges: int) -> None:
        self.out, self.count = out, -1
        self._bar = progress(None, "BPE", "merges", total=merges)

    def write(self, line: str) -> None:
        self.out.write(line)
        self.count += 1
        self._bar.update(self.count > 0)


def learn(paths: Sequence[Path], codes: Path, merges: int) -> None:
    """Learn codes from the text of all files; `codes` appears when it is complete. Raises DataError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from subword_nmt.learn_bpe import learn_bpe
    counts = count_words(paths)
    if not any(len(word) > 1 for word in counts):
        raise DataError(f"{paths[0]}: no word has two characters: there are no codes to learn")
    words = (f"{word} {count}\n" for word, count in counts.items())
    with whole_files([codes]) as (out,), contextlib.redirect_stderr(io.StringIO()):
        written = _Codes(out, merges)
        learn_bpe(words, written, merges, is_dict=True)
    if written.count < merges:
        print(f"BPE: {written.count:,} merges, not {merges:,}: no other pair occurs twice", flush=True)


def encoder(codes: Path) -> Callable[[str], str]:
    """Return a function that splits the words of a line; raises DataError for a file that has no codes."""
    from subword_nmt.apply_bpe import BPE

    said = io.StringIO()
    try:
        with codes.open(encoding="utf-8-sig", newline="\n") as stream, contextlib.redirect_stderr(said):
            bpe = BPE(stream)
    except (SystemExit, ValueError):  # subword-nmt ends the program
        first = said.getvalue().partition("\n")[0].removeprefix("Error: ")
        raise DataError(f"{codes}: no codes of subword-nmt{first and ': '}{first}") from None

    def encode(line: str) -> str:
        if len(bpe.cache) > _CACHED:
            bpe.cache.clear()
        return bpe.process_line(line)

    return encode
