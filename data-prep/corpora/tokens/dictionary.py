"""Makes fairseq's dictionary of a text: the words in order of frequency, from one pass over the lines.

The file equals that of fairseq-preprocess, which shows no progress.
Made-up words (madeupword0000 …) fill its size up to a multiple of 8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from corpora.errors import DataError
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


def make(text: Path, target: Path, words: int = 0, min_count: int = 1) -> None:
    """Write the dictionary of a text, of words that are as entries() chooses them; raises DataError for none."""
    counts = count_words(line for _, line in read_lines(text, open_end=True))
    known = sum(count >= min_count for count in counts.values())
    if not known:
        raise DataError(f"{text}: no word occurs {min_count} times: lower --min-count")
    write_lines(target, (f"{word} {count}" for word, count in entries(counts, words, min_count)))
    print(f"dictionary: {min(known, words or known):,} of {len(counts):,} words", flush=True)
