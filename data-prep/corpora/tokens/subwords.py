"""Byte-pair encoding of large files with subword-nmt: codes from counted words, and their use in several processes.

    python -m corpora.tokens.subwords learn CODES --merges 10000 tok/train.de tok/train.en
    python -m corpora.tokens.subwords apply CODES tok/train.de bpe/train.de [--workers 2]

The same codes and text as from subword_nmt.learn_bpe and subword_nmt.apply_bpe; `learn` holds the distinct words in
memory and not the text.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from corpora.text.linewise import change_file
from corpora.text.parallel import DataError, as_status
from corpora.text.streams import PROGRESS_SECONDS, decode, read_bytes

_CACHED = 200_000  # words that a process remembers the subwords of; subword-nmt would remember them all


def count_words(paths: Sequence[Path]) -> Counter[str]:
    """How often each word occurs in the files, in the order in which subword-nmt would find them; raises DataError."""
    counts: Counter[str] = Counter()
    for path in paths:
        for number, line in read_bytes(path):
            counts.update(word for word in decode(path, number, line).strip("\r\n ").split(" ") if word)
    return counts


class _Codes:
    """Takes what subword-nmt writes, a merge at a time, and tells how many there are."""

    def __init__(self, out: TextIO, merges: int) -> None:
        self.out, self.merges = out, merges
        self.count, self.told = -1, time.monotonic()  # the first line is a header

    def write(self, line: str) -> None:
        self.out.write(line)
        self.count += 1
        if time.monotonic() - self.told > PROGRESS_SECONDS:
            self.told = time.monotonic()
            print(f"BPE: {self.count:,} of {self.merges:,} merges so far", flush=True)


def learn(paths: Sequence[Path], codes: Path, merges: int) -> None:
    """Write the codes of the files' text, taken together; the file appears when it is complete. Raises DataError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from subword_nmt.learn_bpe import learn_bpe
    counts = count_words(paths)
    if not any(len(word) > 1 for word in counts):
        raise DataError(f"{paths[0]}: no word has two characters: there are no codes to learn")
    words = (f"{word} {count}\n" for word, count in counts.items())
    part = codes.with_name(f"{codes.name}.part{os.getpid()}")
    try:
        with part.open("w", encoding="utf-8", newline="\n") as out, contextlib.redirect_stderr(io.StringIO()):
            written = _Codes(out, merges)
            learn_bpe(words, written, merges, is_dict=True)
        if written.count < merges:
            print(
                f"BPE: {written.count:,} merges, not {merges:,}: no other pair of characters occurs twice", flush=True
            )
        os.replace(part, codes)
    finally:
        part.unlink(missing_ok=True)


class Encoder:
    """Splits the words of a line by the codes."""

    def __init__(self, codes: Path) -> None:
        from subword_nmt.apply_bpe import BPE

        with codes.open(encoding="utf-8", newline="\n") as stream:
            self.bpe = BPE(stream)

    def __call__(self, line: str) -> str:
        if len(self.bpe.cache) > _CACHED:
            self.bpe.cache.clear()
        return self.bpe.process_line(line)


@as_status
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("learn", help="codes from text")
    one.add_argument("codes", type=Path)
    one.add_argument("texts", type=Path, nargs="+", metavar="TEXT")
    one.add_argument("--merges", type=int, required=True)
    two = commands.add_parser("apply", help="text in subwords")
    two.add_argument("codes", type=Path)
    two.add_argument("source", type=Path)
    two.add_argument("target", type=Path)
    two.add_argument("--workers", type=int, default=1, help="processes (default: %(default)s)")
    two.add_argument("--resume", action="store_true", help="go on in TARGET.part, which a stopped run left")
    args = parser.parse_args()
    if args.command == "learn":
        learn(args.texts, args.codes, args.merges)
        return
    make = functools.partial(Encoder, args.codes)
    change_file(args.source, args.target, make, max(args.workers, 1), allow_empty=True, resume=args.resume)


if __name__ == "__main__":
    sys.exit(main())
