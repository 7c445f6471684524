"""Reads corpora of texts with summaries, checks them, and writes one text and one summary a line.

Written are {train,valid,test}.article and .summary, and for CNN/DailyMail test.article.sentences, the articles
with " ." at the end of each sentence. Pairs without text or without summary are left out and counted. Errors name file
and line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from corpora.errors import DataError
from corpora.progress import progress
from corpora.text.lines import SPLITS, LineFiles


@dataclass
class Split:
    """Size of a split; words are counted as `wc -w` does."""

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


def prepare(
    part: Path, examples: Iterable[tuple[str, str, str, str]], official: Mapping[str, int], paper: Mapping[str, int]
) -> None:
    """Write (split, text, summary, sentences) into the files of their splits, and print the size of each split.

    official, paper: numbers of pairs, and those in the corpus's paper. Raises DataError where a split is empty.
    """
    splits = {name: Split() for name in SPLITS}
    with LineFiles(part) as files:
        for split, article, summary, sentences in progress(examples, "read", "pairs"):
            if not (article and summary):
                splits[split].left_out += 1
                continue
            files.write(f"{split}.article", article)
            files.write(f"{split}.summary", summary)
            if sentences:
                files.write(f"{split}.article.sentences", sentences)
            splits[split].add(article, summary)
    for name, found in splits.items():
        if not found.pairs:
            raise DataError(f"{part / name}: no text with a summary in this split; give the whole corpus")
    for name, split in splits.items():
        counts = [f"official: {official[name]:,}"] if official[name] != split.pairs else []
        counts += [f"paper: {paper[name]:,}"] if official[name] != paper[name] else []
        note = f"{name}: {split.pairs:,} pairs" + (f" ({'; '.join(counts)})" if counts else "")
        if split.left_out:
            note += f"; {split.left_out:,} left out, without text or summary"
        article, summary = (words / split.pairs for words in (split.article_words, split.summary_words))
        print(f"{note}; {article:.1f} words a text, {summary:.1f} a summary, at most {split.longest:,}", flush=True)
