"""Segments text into words, in several processes, and joins the words of Japanese or Chinese.

    python -m corpora.tokens.segment words SOURCE OUT [--segmented] [--workers 2]
    python -m corpora.tokens.segment join train.ja.words train.ja

`words` reads a folder of files NAME.LANG (or NAME.LANG.ref0, …) and continues a stopped run. English is tokenised by
Moses; Japanese by MeCab with the IPA dictionary, as in sacreBLEU's ja-mecab; Chinese by jieba, without the spaces
between two Chinese characters, which only some corpora have. A line without words stays empty in training text (NAME
train) and is an error elsewhere. `join` keeps spaces between words of Latin letters.
"""

from __future__ import annotations

import argparse
import functools
import logging
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

from corpora.arguments import add_file_arguments
from corpora.errors import DataError, as_status
from corpora.text.lines import one_space
from corpora.text.linewise import change_file
from corpora.tokens.moses_tokenize import Tokenizer

LANGUAGES = ("ja", "zh")

# Chinese and Japanese characters and their punctuation, full-width forms included.
_WIDE = "\u2e80-\u312f\u31a0-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff"
_INNER_SPACE = re.compile(rf"(?<=[{_WIDE}])\s+(?=[{_WIDE}])")
_OUTER_SPACE = re.compile(rf"(?<=[{_WIDE}])\s+|\s+(?=[{_WIDE}])")


def join(text: str) -> str:
    """Return words as raw text, with spaces only between characters that are neither Chinese nor Japanese."""
    return _OUTER_SPACE.sub("", one_space(text))


def japanese() -> Callable[[str], str]:
    """Return a function from raw text to words with spaces between them; raises DataError where MeCab is missing."""
    try:
        import ipadic  # type: ignore[import-untyped]
        import MeCab  # type: ignore[import-untyped]
    except ImportError:
        raise DataError("Japanese needs MeCab: pip install -e '.[ja]'") from None
    tagger = MeCab.Tagger(ipadic.MECAB_ARGS + " -Owakati")
    return lambda text: one_space(tagger.parse(text.replace("\0", " ")))  # MeCab would stop at a NUL


def chinese() -> Callable[[str], str]:
    """Return a function from raw text to words with spaces between them; raises DataError where jieba is missing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # jieba imports pkg_resources, which warns that it is deprecated
            import jieba  # type: ignore[import-untyped]
    except ImportError:
        raise DataError("Chinese needs jieba: pip install -e '.[zh]'; or give words, with --segmented") from None
    jieba.setLogLevel(logging.WARNING)
    jieba.initialize()
    return lambda text: one_space(" ".join(jieba.cut(_INNER_SPACE.sub("", text))))


def segmenter(lang: str) -> Callable[[str], str]:
    """Return the function from raw text to words for a language of LANGUAGES."""
    return {"ja": japanese, "zh": chinese}[lang]()


def changer(lang: str, kind: str) -> Callable[[str], str]:
    """Return the function for each line; kind: words (segment it), join (join its words) or copy (it is in words)."""
    if kind == "words":
        return segmenter(lang)
    return join if kind == "join" else one_space


def words_of_folder(source: Path, out: Path, segmented: bool, workers: int) -> None:
    """Segment every file of a folder into words; raises DataError."""
    for file in sorted(source.iterdir()):
        name, lang = file.name.split(".")[:2]
        make: Callable[[], Callable[[str], str]]
        if lang in LANGUAGES:
            make = functools.partial(changer, lang, "copy" if segmented else "words")
        else:
            make = functools.partial(Tokenizer, lang)
        change_file(file, out / file.name, make, workers, allow_empty=name == "train", resume=True)


@as_status
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("words", help="the files of a folder in words")
    one.add_argument("--segmented", action="store_true", help="Japanese and Chinese are in words already")
    two = commands.add_parser("join", help="join the words of Japanese or Chinese to raw text")
    for command in (one, two):
        add_file_arguments(command)
    args = parser.parse_args()
    if args.command == "words":
        words_of_folder(args.source, args.target, args.segmented, args.workers)
    else:
        change_file(args.source, args.target, functools.partial(changer, "", "join"), args.workers)


if __name__ == "__main__":
    sys.exit(main())
