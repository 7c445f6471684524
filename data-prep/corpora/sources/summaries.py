"""Reads corpora of texts with summaries, checks them, and writes one text and one summary a line.

Written are {train,valid,test}.article and .summary, and for CNN/DailyMail test.article.sentences, the articles
with " ." at the end of each sentence. Pairs without text or without summary are left out and counted. Errors name file
and line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from corpora.errors import DataError
from corpora.progress import progress
from corpora.text.lines import SPLITS, LineFiles


def prepare(
    part: Path, examples: Iterable[tuple[str, str, str, str]], official: Mapping[str, int], paper: Mapping[str, int]
) -> None:
    """Write (split, text, summary, sentences) into the files of their splits, and print the size of each split.

    official, paper: numbers of pairs, and those in the corpus's paper. Raises DataError where a split is empty.
    """
    counts = {name: Counter[str]() for name in SPLITS}  # words as `wc -w` counts them
    longest = dict.fromkeys(SPLITS, 0)  # summary, in words
    with LineFiles(part) as files:
        for split, article, summary, sentences in progress(examples, "read", "pairs"):
            if not (article and summary):
                counts[split]["left out"] += 1
                continue
            files.write(f"{split}.article", article)
            files.write(f"{split}.summary", summary)
            if sentences:
                files.write(f"{split}.article.sentences", sentences)
            words = len(summary.split())
            counts[split].update({"pairs": 1, "article": len(article.split()), "summary": words})
            longest[split] = max(longest[split], words)
    for name, found in counts.items():
        if not found["pairs"]:
            raise DataError(f"{part / name}: no text with a summary in this split; give the whole corpus")
    for name, found in counts.items():
        pairs, left_out = found["pairs"], found["left out"]
        about = [f"official: {official[name]:,}"] if official[name] != pairs else []
        about += [f"paper: {paper[name]:,}"] if official[name] != paper[name] else []
        note = f"{name}: {pairs:,} pairs" + (f" ({'; '.join(about)})" if about else "")
        note += f"; {left_out:,} left out, without text or summary" if left_out else ""
        means = f"{found['article'] / pairs:.1f} words a text, {found['summary'] / pairs:.1f} a summary"
        print(f"{note}; {means}, at most {longest[name]:,}", flush=True)
