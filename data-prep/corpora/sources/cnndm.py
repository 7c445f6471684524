"""CNN/DailyMail, not anonymised, as See et al. (2017) prepare it: news stories and their highlights.

A story is a file HASH.story, where HASH is the SHA-1 of its address: paragraphs, and highlights after lines
"@highlight". all_{train,val,test}.txt list the addresses of the splits. A line of text that does not end like a
sentence gets a full stop; the lines are joined, as in make_datafiles.py of github.com/abisee/cnn-dailymail, which also
lower-cases the text and splits it into the tokens of the Penn Treebank. Here it stays as it is, as in
github.com/artmatsak/cnn-dailymail, which makes BART's {train,val,test}.{source,target}; these files are read as well.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from corpora.errors import DataError
from corpora.text.lines import find_file, read_lines, read_whole
from corpora.text.overlap import aligned

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktSentenceTokenizer

FILES = {"train": "train", "valid": "val", "test": "test"}
# As in TensorFlow Datasets: the lists have 287,227 addresses for training, and 114 of the stories have no text. See et
# al. write 287,226, and their program for training leaves the 114 out.
OFFICIAL = {"train": 287_113, "valid": 13_368, "test": 11_490}
PAPER = {"train": 287_226, "valid": 13_368, "test": 11_490}
MARK = "@highlight"
# Ends of a line that needs no full stop: See et al.'s END_TOKENS.
ENDS = (".", "!", "?", "'", "`", '"', "\u2019", "\u201d", ")")

# Abbreviations, whose full stop seldom ends a sentence; for LEAD-3 only.
ABBREVIATIONS = """mr mrs ms dr prof rev gen lt col sgt capt cmdr maj adm sen rep gov st jr sr hon pres supt insp det
    u.s u.k u.n e.u d.c l.a a.m p.m ph.d b.c a.d i.e e.g no nos vs inc ltd co corp bros dept est approx
    jan feb mar apr jun jul aug sept sep oct nov dec mt ft ave blvd"""


def article_and_highlights(text: str) -> tuple[list[str], list[str]]:
    """Return the lines of a story and its highlights. A full stop that ends a highlight is a word of its own.

    A story ends with its highlights: every line after the first mark is one.
    """
    lines: tuple[list[str], list[str]] = ([], [])
    highlight = False
    for raw in text.split("\n"):
        line = " ".join(raw.split())
        if line.startswith(MARK):
            highlight = True
        elif line:
            line = line if line.endswith(ENDS) or MARK in line else f"{line} ."
            lines[highlight].append(re.sub(r"(?<![ .])\.$", " .", line) if highlight else line)
    return lines


@cache
def _splitter() -> PunktSentenceTokenizer:
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    parameters = PunktParameters()
    parameters.abbrev_types = set(ABBREVIATIONS.split())
    return PunktSentenceTokenizer(parameters)


def sentences(lines: list[str]) -> str:
    """Return the sentences of the lines on one line; each ends in " .", which occurs nowhere else."""
    found = []
    for sentence in (text for line in lines for text in _splitter().tokenize(line)):
        inner = re.sub(r"\s*\.$", "", sentence)
        found += [part for part in inner.split(" . ") if part.strip(" .")]
    return " ".join(f"{sentence.strip()} ." for sentence in found) or " ".join(lines)


def _story(number: int, url: str, file: Path, folders: list[Path]) -> str:
    """Return the text of a story; raises DataError, which names list and line where the story is missing."""
    name = hashlib.sha1(url.encode()).hexdigest() + ".story"
    for folder in folders:
        if (folder / name).exists():
            return read_whole(folder / name)
    raise DataError(f"{file}:{number}: no story {name} of {url}; get the stories of CNN and of the Daily Mail again")


def story_folders(roots: Sequence[Path]) -> list[Path]:
    """Return cnn/stories and dailymail/stories, each of which is below one of the roots; raises DataError."""
    found = []
    for name in ("cnn", "dailymail"):
        folders = [root / name / "stories" for root in roots if (root / name / "stories").is_dir()]
        if not folders:
            raise DataError(f"{roots[0]}: has no {name}/stories: unpack {name}_stories.tgz there")
        found += folders[:1]
    return found


def read(lists: Path, stories: Sequence[Path], judge: bool = True) -> Iterator[tuple[str, str, str, str]]:
    """Yield (split, text, summary, sentences of the text) of all splits; the last for test alone, else "".

    lists: folder with all_{train,val,test}.txt, or with train.source etc., plain or .gz, which need no `stories`.
    stories: folders with cnn/stories and dailymail/stories. A story may be without text or highlights. judge: as in
    aligned().
    Raises DataError with file and line.
    """
    if find_file(lists, "train.source").exists():
        for split, name in FILES.items():
            articles, summaries = (find_file(lists, f"{name}.{side}") for side in ("source", "target"))
            for article, summary in aligned(articles, summaries, OFFICIAL[split], judge):
                yield split, article, summary, sentences([article]) if split == "test" else ""
        return
    folders = story_folders(stories)
    for split, name in FILES.items():
        file = lists / f"all_{name}.txt"
        for number, line in read_lines(file, open_end=True):
            if url := line.strip():
                lines, highlights = article_and_highlights(_story(number, url, file, folders))
                yield split, " ".join(lines), " ".join(highlights), sentences(lines) if split == "test" else ""
