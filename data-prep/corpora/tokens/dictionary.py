"""Makes fairseq's dictionary of a text: the words in order of frequency, from one pass over the lines.

    python -m corpora.tokens.dictionary raw/train.text dict.txt [--min-count 2] [--words 32000]

The file is the one that fairseq-preprocess makes, which shows no progress and cannot be continued when it was stopped.
Made-up words (madeupword0000 …) fill its size up to a multiple of 8.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from corpora.errors import DataError, as_status
from corpora.progress import progress
from corpora.text.lines import read_lines, write_lines

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


def entries(counts: Counter[str], words: int = 0, min_count: int = 1) -> list[tuple[str, int]]:
    """Return (word, count) of the `words` most frequent words (0: all) that occur at least `min_count` times.

    Words of equal frequency are in the order of the alphabet, and made-up words with count 0 fill the dictionary up, as
    in fairseq's Dictionary.finalize.
    """
    ordered = Counter(dict(sorted(counts.items()))).most_common(words or None)
    found = {word: count for word, count in ordered if count >= min_count}
    made_up = 0
    while (len(found) + len(SYMBOLS)) % MULTIPLE:
        found.setdefault(f"madeupword{made_up:04d}", 0)
        made_up += 1
    return list(found.items())


@as_status
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--words", type=int, default=0, help="most words, fairseq's symbols not counted (0: all)")
    parser.add_argument("--min-count", type=int, default=1, help="rarer words are left out (default: %(default)s)")
    args = parser.parse_args()
    counts = count_words(text for _, text in read_lines(args.text, open_end=True))
    known = sum(count >= args.min_count for count in counts.values())
    if not known:
        raise DataError(f"{args.text}: no word occurs {args.min_count} times: lower --min-count")
    rows = entries(counts, args.words, args.min_count)
    write_lines(args.target, (f"{word} {count}" for word, count in rows))
    print(f"dictionary: {min(known, args.words or known):,} of {len(counts):,} words", flush=True)


if __name__ == "__main__":
    sys.exit(main())
