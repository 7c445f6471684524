"""Segments text into words, in several processes, and joins the words of Japanese or Chinese.

English is tokenised by Moses; Japanese by MeCab with the IPA dictionary, as in sacreBLEU's ja-mecab; Chinese by jieba,
without the spaces between two Chinese characters, which only some corpora have.
"""

from __future__ import annotations

import functools
import logging
import re
import warnings
from collections.abc import Callable
from pathlib import Path

from corpora.errors import DataError
from corpora.text.lines import one_space
from corpora.text.linewise import change_file
from corpora.tokens.moses_tokenize import Tokenizer

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


SEGMENTERS = {"ja": japanese, "zh": chinese}


def words_of_folder(source: Path, out: Path, segmented: bool, workers: int) -> None:
    """Segment every file NAME.LANG (or NAME.LANG.ref0, …) of a folder into words, and continue a stopped run.

    segmented: Japanese and Chinese are in words. A line without words stays empty in training text (NAME train). Raises
    DataError, for such a line elsewhere too.
    """
    for file in sorted(source.iterdir()):
        name, lang = file.name.split(".")[:2]
        make: Callable[[], Callable[[str], str]] = SEGMENTERS.get(lang) or functools.partial(Tokenizer, lang)
        if segmented and lang in SEGMENTERS:
            make = functools.partial(_given, one_space)
        change_file(file, out / file.name, make, workers, allow_empty=name == "train")


def join_file(source: Path, target: Path, workers: int) -> None:
    """Join the words of a file; raises DataError."""
    change_file(source, target, functools.partial(_given, join), workers)


def _given(change: Callable[[str], str]) -> Callable[[str], str]:
    return change
