"""CNN/DailyMail, not anonymised, as See et al. (2017) prepare it: news stories and their highlights.

A story is a file HASH.story, HASH being the SHA-1 of its address: paragraphs, and highlights after lines "@highlight".
The addresses of the splits stand in all_{train,val,test}.txt. What is a line of text and does not end like a sentence
gets a full stop; the lines are joined. Facts: github.com/abisee/cnn-dailymail, make_datafiles.py. Theirs is lower-cased
and in the tokens of the Penn Treebank; here the text stays as it is, as in github.com/artmatsak/cnn-dailymail, which
makes BART's {train,val,test}.{source,target}. These files are read as well.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from corpora.text.bitext import plain_lines
from corpora.text.overlap import aligned
from corpora.text.parallel import DataError

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktSentenceTokenizer

FILES = {"train": "train", "valid": "val", "test": "test"}
# As in TensorFlow Datasets: the lists have 287,227 addresses for training, and 114 of the stories have no text. See et
# al. write 287,226, and their program for training leaves the 114 out.
OFFICIAL = {"train": 287_113, "valid": 13_368, "test": 11_490}
PAPER = {"train": 287_226, "valid": 13_368, "test": 11_490}
MARK = "@highlight"
# How a line may end that needs no full stop: See et al.'s END_TOKENS.
ENDS = (".", "!", "?", "'", "`", '"', "\u2019", "\u201d", ")")

# Words before whose full stop a sentence seldom ends; for LEAD-3 alone.
ABBREVIATIONS = """mr mrs ms dr prof rev gen lt col sgt capt cmdr maj adm sen rep gov st jr sr hon pres supt insp det
    u.s u.k u.n e.u d.c l.a a.m p.m ph.d b.c a.d i.e e.g no nos vs inc ltd co corp bros dept est approx
    jan feb mar apr jun jul aug sept sep oct nov dec mt ft ave blvd"""


def article_and_highlights(text: str) -> tuple[list[str], list[str]]:
    """Return the lines of a story and its highlights. A full stop that ends a highlight is a word of its own.

    Nothing follows the highlights in a story: what does not begin with the mark after the first one is a highlight.
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
    """Return the sentences of these lines on one line; each ends in " .", which stands nowhere else."""
    found = []
    for sentence in (text for line in lines for text in _splitter().tokenize(line)):
        inner = re.sub(r"\s*\.$", "", sentence)
        found += [part for part in inner.split(" . ") if part.strip(" .")]
    return " ".join(f"{sentence.strip()} ." for sentence in found) or " ".join(lines)


def _story(number: int, url: str, file: Path, folders: list[Path]) -> str:
    """Return the text of a story; raises DataError for one that is not there, naming list and line, or is no UTF-8."""
    name = hashlib.sha1(url.encode()).hexdigest() + ".story"
    for folder in folders:
        try:
            return (folder / name).read_bytes().decode("utf-8")
        except FileNotFoundError:
            continue
        except UnicodeDecodeError as error:
            raise DataError(f"{folder / name}: invalid UTF-8 at byte {error.start + 1}") from None
        except OSError as error:
            raise DataError(f"{folder / name}: cannot be read: {error.strerror}") from None
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

    lists: folder with all_{train,val,test}.txt; or with train.source etc., which needs no `stories`. stories: folders
    that have cnn/stories and dailymail/stories. A story may be without text or highlights. judge: see aligned().
    Raises DataError with file and line.
    """
    if (lists / "train.source").exists():
        for split, name in FILES.items():
            articles, summaries = lists / f"{name}.source", lists / f"{name}.target"
            for article, summary in aligned(articles, summaries, OFFICIAL[split], judge):
                yield split, article, summary, sentences([article]) if split == "test" else ""
        return
    folders = story_folders(stories)
    for split, name in FILES.items():
        file = lists / f"all_{name}.txt"
        for number, line in plain_lines(file, open_end=True):
            if url := line.strip():
                lines, highlights = article_and_highlights(_story(number, url, file, folders))
                yield split, " ".join(lines), " ".join(highlights), sentences(lines) if split == "test" else ""
