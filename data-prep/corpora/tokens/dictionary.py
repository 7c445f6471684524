"""Makes fairseq's dictionary of a text: the words in order of frequency, in one pass and with only the words in memory.

    python -m corpora.tokens.dictionary raw/train.text dict.txt [--min-count 2] [--words 32000]

The file is what fairseq-preprocess itself makes, which tells nothing while it counts, and counts again when it was
stopped. Words without meaning (madeupword0000 …) fill its size up to a multiple of 8.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairseq.data import Dictionary

SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")  # in every dictionary of fairseq's
MULTIPLE = 8
PROGRESS_SECONDS = 30.0


def count_words(lines: Iterable[str]) -> Counter[str]:
    """Return how often each word occurs; words are split as fairseq splits them, at any white space."""
    counts: Counter[str] = Counter()
    told = time.monotonic()
    for number, line in enumerate(lines, 1):
        counts.update(line.split())
        if number % 10_000 == 0 and time.monotonic() - told > PROGRESS_SECONDS:
            told = time.monotonic()
            print(f"dictionary: {number:,} lines read, {len(counts):,} different words so far", flush=True)
    for symbol in SYMBOLS:
        counts.pop(symbol, None)
    return counts


def dictionary_of(counts: Counter[str], words: int = 0, min_count: int = 1) -> Dictionary:
    """Return fairseq's dictionary of the `words` most frequent words (0: all) that occur at least `min_count` times."""
    from fairseq.data import Dictionary  # here, since fairseq logs while it is imported, which main() prevents

    dictionary = Dictionary()
    for word, count in counts.items():
        dictionary.add_symbol(word, n=count)
    most = words + dictionary.nspecial if words else -1
    dictionary.finalize(threshold=min_count, nwords=most, padding_factor=MULTIPLE)
    return dictionary


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--words", type=int, default=0, help="most words, fairseq's symbols not counted (0: all)")
    parser.add_argument("--min-count", type=int, default=1, help="rarer words are left out (default: %(default)s)")
    args = parser.parse_args()
    logging.disable(logging.INFO)
    try:
        with args.text.open(encoding="utf-8", newline="\n") as lines:
            counts = count_words(lines)
        known = sum(count >= args.min_count for count in counts.values())
        if not known:
            print(f"data error: {args.text}: no word occurs {args.min_count} times: lower --min-count", file=sys.stderr)
            return 1
        temporary = args.target.with_name(f"{args.target.name}.part{os.getpid()}")
        dictionary_of(counts, args.words, args.min_count).save(str(temporary))
        os.replace(temporary, args.target)
    except OSError as error:
        print(f"data error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    print(f"dictionary: {min(known, args.words or known):,} of {len(counts):,} words", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
