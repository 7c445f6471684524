"""Makes fairseq's dictionary of a text: the words in order of frequency, from one pass over the lines.

    python -m corpora.tokens.dictionary raw/train.text dict.txt [--min-count 2] [--words 32000]

The file is the one that fairseq-preprocess makes, which shows no progress and cannot be continued when it was stopped.
Made-up words (madeupword0000 …) fill its size up to a multiple of 8.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from corpora.errors import DataError, as_status
from corpora.progress import progress
from corpora.text.lines import read_lines

if TYPE_CHECKING:
    from fairseq.data import Dictionary

SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")  # in every dictionary of fairseq's
MULTIPLE = 8


def count_words(lines: Iterable[str]) -> Counter[str]:
    """Return how often each word occurs; words are split as fairseq splits them, at any white space."""
    counts: Counter[str] = Counter()
    for line in progress(lines, "dictionary"):
        counts.update(line.split())
    for symbol in SYMBOLS:
        counts.pop(symbol, None)
    return counts


def dictionary_of(counts: Counter[str], words: int = 0, min_count: int = 1) -> Dictionary:
    """Return fairseq's dictionary of the `words` most frequent words (0: all) that occur at least `min_count` times."""
    from fairseq.data import Dictionary  # fairseq logs while it is imported, which main() prevents

    dictionary = Dictionary()
    for word, count in counts.items():
        dictionary.add_symbol(word, n=count)
    most = words + dictionary.nspecial if words else -1
    dictionary.finalize(threshold=min_count, nwords=most, padding_factor=MULTIPLE)
    return dictionary


@as_status
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--words", type=int, default=0, help="most words, fairseq's symbols not counted (0: all)")
    parser.add_argument("--min-count", type=int, default=1, help="rarer words are left out (default: %(default)s)")
    args = parser.parse_args()
    logging.disable(logging.INFO)
    counts = count_words(text for _, text in read_lines(args.text, open_end=True))
    known = sum(count >= args.min_count for count in counts.values())
    if not known:
        raise DataError(f"{args.text}: no word occurs {args.min_count} times: lower --min-count")
    temporary = args.target.with_name(f"{args.target.name}.part{os.getpid()}")
    dictionary_of(counts, args.words, args.min_count).save(str(temporary))
    os.replace(temporary, args.target)
    print(f"dictionary: {min(known, args.words or known):,} of {len(counts):,} words", flush=True)


if __name__ == "__main__":
    sys.exit(main())
