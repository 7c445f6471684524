"""Reads corpora of texts with summaries, checks them, and writes one text and one summary a line.

    python -m corpora.text.summaries cnndm    DIR PART [--stories DIR DIR] [--any-pairs]
    python -m corpora.text.summaries gigaword DIR PART [--any-pairs]

PART gets {train,valid,test}.article and .summary, and for CNN/DailyMail test.article.sentences, the articles with " ."
at the end of each sentence. Pairs without text or without summary are left out and counted. The numbers of pairs are
printed, beside those that others counted where they differ. Each error is one line that names file and line, with exit
status 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from corpora.sources import cnndm, gigaword
from corpora.text.parallel import DataError, as_status
from corpora.text.streams import PROGRESS_SECONDS

SPLITS = ("train", "valid", "test")
SUFFIXES = ("article", "summary")


@dataclass
class Split:
    """What a split holds; words are counted as `wc -w` does."""

    pairs: int = 0
    left_out: int = 0
    article_words: int = 0
    summary_words: int = 0
    longest: int = 0  # summary, in words

    def add(self, article: str, summary: str) -> None:
        words = len(summary.split())
        self.pairs += 1
        self.article_words += len(article.split())
        self.summary_words += words
        self.longest = max(self.longest, words)


def write(part: Path, examples: Iterable[tuple[str, str, str, str]]) -> dict[str, Split]:
    """Write (split, text, summary, sentences) into the files of their splits, one at a time; return what was written.

    Raises DataError where a split is empty.
    """
    splits = {name: Split() for name in SPLITS}
    told, total = time.monotonic(), 0
    with ExitStack() as stack:
        names = [f"{split}.{suffix}" for split in SPLITS for suffix in SUFFIXES]
        files = {name: stack.enter_context((part / name).open("w", encoding="utf-8", newline="\n")) for name in names}
        for split, article, summary, sentences in examples:
            texts = (article, summary)
            if not all(texts):
                splits[split].left_out += 1
                continue
            for suffix, text in zip(SUFFIXES, texts, strict=True):
                files[f"{split}.{suffix}"].write(text + "\n")
            if sentences:
                name = f"{split}.article.sentences"
                if name not in files:
                    files[name] = stack.enter_context((part / name).open("w", encoding="utf-8", newline="\n"))
                files[name].write(sentences + "\n")
            splits[split].add(*texts)
            total += 1
            if total % 1000 == 0 and time.monotonic() - told > PROGRESS_SECONDS:
                told = time.monotonic()
                print(f"{total:,} pairs written so far", flush=True)
    for name, found in splits.items():
        if not found.pairs:
            raise DataError(f"{part / name}: no text with a summary in this split; give the whole corpus")
    return splits


def report(splits: Mapping[str, Split], official: Mapping[str, int], paper: Mapping[str, int]) -> None:
    """Print what each split holds, beside the pairs that others counted and that the paper of the corpus names."""
    for name, split in splits.items():
        told = [f"official: {official[name]:,}"] if official[name] != split.pairs else []
        told += [f"paper: {paper[name]:,}"] if official[name] != paper[name] else []
        note = f"{name}: {split.pairs:,} pairs" + (f" ({'; '.join(told)})" if told else "")
        if split.left_out:
            note += f"; {split.left_out:,} left out, without text or summary"
        article, summary = (words / split.pairs for words in (split.article_words, split.summary_words))
        print(f"{note}; {article:.1f} words a text, {summary:.1f} a summary, at most {split.longest:,}", flush=True)


@as_status
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("corpus", choices=("cnndm", "gigaword"))
    parser.add_argument("source", type=Path)
    parser.add_argument("part", type=Path, help="an existing folder")
    parser.add_argument(
        "--stories", type=Path, nargs="+", help="folders with cnn/ and dailymail/ (default: the source)"
    )
    parser.add_argument(
        "--any-pairs", action="store_true", help="do not ask whether texts and summaries belong together"
    )
    args = parser.parse_args()
    judge = not args.any_pairs
    if args.corpus == "cnndm":
        found = write(args.part, cnndm.read(args.source, args.stories or [args.source], judge))
        report(found, cnndm.OFFICIAL, cnndm.PAPER)
    else:
        report(write(args.part, gigaword.read(args.source, judge)), gigaword.OFFICIAL, gigaword.OFFICIAL)


if __name__ == "__main__":
    sys.exit(main())
