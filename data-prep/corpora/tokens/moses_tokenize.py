"""Moses punctuation normalisation and tokenisation of a text file, and the reverse, in several processes.

The sacremoses settings give the output of the Moses Perl scripts (normalize-punctuation, remove-non-printing-char,
tokenizer) of before 7 November 2018. Since then tokenizer.perl splits the final period of a line from any word
("96." → "96 ."); here, as before, an abbreviation or a German ordinal keeps it. fairseq-interactive --tokenizer moses
does the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

from corpora.text.linewise import change_file


class Tokenizer:
    """Tokenises single lines of one language.

    lowercase: lower-case the tokens.
    aggressive_dash_splits: write "a-b" as "a @-@ b" (the Perl script's -a).
    normalise: apply the first two scripts; otherwise the tokenizer alone.
    plain_apostrophes: replace ’ by ' first, as fairseq's recipes do in test sets.
    """

    def __init__(
        self, lang: str, *, lowercase: bool = False, aggressive_dash_splits: bool = False, normalise: bool = True,
        plain_apostrophes: bool = False,
    ) -> None:  # fmt: skip
        self.normalizer = MosesPunctNormalizer(lang=lang, perl_parity=True, post_remove_control_chars=True)
        self.tokenizer = MosesTokenizer(lang)
        self.lowercase, self.dashes = lowercase, aggressive_dash_splits
        self.normalise, self.plain_apostrophes = normalise, plain_apostrophes

    def __call__(self, line: str) -> str:
        """Return the tokens of a line (without newline), separated by spaces."""
        text = line.replace("’", "'") if self.plain_apostrophes else line
        if self.normalise:
            text = self.normalizer.normalize(text + "\n")  # the Perl script's rules see the newline
        text = self.tokenizer.tokenize(text, aggressive_dash_splits=self.dashes, return_str=True, escape=True)
        return text.lower() if self.lowercase else text


def detokenizer(lang: str) -> Callable[[str], str]:
    """Return a function from a line of tokens to its text."""
    moses = MosesDetokenizer(lang=lang)
    return lambda line: moses.detokenize(line.split())


def tokenise(
    source: Path, target: Path, lang: str, workers: int, *, allow_empty: bool = False, **settings: bool
) -> None:
    """Write the tokens of a text file, and continue a stopped run; raises DataError.

    allow_empty: a line without tokens is kept, as an empty line. settings: those of Tokenizer.
    """
    change_file(source, target, functools.partial(Tokenizer, lang, **settings), workers, allow_empty=allow_empty)
