"""Moses punctuation normalisation and tokenisation of a text file, and the reverse, in several processes.

    python -m corpora.tokens.moses_tokenize --lang de [--lowercase] [--workers 2] raw/train.de tok/train.de

The sacremoses settings give the output of the Moses Perl scripts (normalize-punctuation, remove-non-printing-char,
tokenizer) of before 7 November 2018. Since then tokenizer.perl splits the final period of a line from any word
("96." → "96 ."); here, as before, an abbreviation or a German ordinal keeps it. fairseq-interactive --tokenizer moses
does the same. The output file appears only when it is complete.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable

from sacremoses import MosesDetokenizer, MosesPunctNormalizer, MosesTokenizer

from corpora.arguments import add_file_arguments
from corpora.errors import as_status
from corpora.text.linewise import Change, change_file


class Tokenizer:
    """Tokenises single lines of one language.

    lowercase: lower-case the tokens.
    aggressive_dash_splits: write "a-b" as "a @-@ b" (the Perl script's -a).
    normalise: apply the first two scripts; otherwise the tokenizer alone.
    plain_apostrophes: replace ’ by ' first, as fairseq's recipes do in test sets.
    """

    def __init__(
        self,
        lang: str,
        *,
        lowercase: bool = False,
        aggressive_dash_splits: bool = False,
        normalise: bool = True,
        plain_apostrophes: bool = False,
    ) -> None:
        self.normalizer = MosesPunctNormalizer(lang=lang, perl_parity=True, post_remove_control_chars=True)
        self.tokenizer = MosesTokenizer(lang)
        self.lowercase = lowercase
        self.aggressive_dash_splits = aggressive_dash_splits
        self.normalise = normalise
        self.plain_apostrophes = plain_apostrophes

    def __call__(self, line: str) -> str:
        """Return the tokens of a line (without newline), separated by spaces."""
        text = line.replace("’", "'") if self.plain_apostrophes else line
        if self.normalise:
            text = self.normalizer.normalize(text + "\n")  # the Perl script's rules see the newline
        text = self.tokenizer.tokenize(
            text, aggressive_dash_splits=self.aggressive_dash_splits, return_str=True, escape=True
        )
        return text.lower() if self.lowercase else text


class Detokenizer:
    """Joins the tokens of single lines of one language."""

    def __init__(self, lang: str) -> None:
        self.detokenizer = MosesDetokenizer(lang=lang)

    def __call__(self, line: str) -> str:
        """Return the text of a line of tokens."""
        return self.detokenizer.detokenize(line.split())


@as_status
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_file_arguments(parser)
    parser.add_argument("--lang", required=True, help="language code: de, en, fr, …")
    parser.add_argument("--detokenise", action="store_true", help="join tokens to text; without other options")
    parser.add_argument("--lowercase", action="store_true", help="lower-case the tokens")
    parser.add_argument("-a", "--aggressive-dash-splits", action="store_true", help='split "a-b" into "a @-@ b"')
    parser.add_argument(
        "--no-normalise", dest="normalise", action="store_false", help="no normalisation: Moses' tokenizer.perl alone"
    )
    parser.add_argument("--plain-apostrophes", action="store_true", help="replace ’ by ' first")
    parser.add_argument("--allow-empty", action="store_true", help="keep a line without tokens, as an empty line")
    parser.add_argument("--resume", action="store_true", help="continue TARGET.part of a stopped run")
    args = parser.parse_args()
    names = ("lang", "lowercase", "aggressive_dash_splits", "normalise", "plain_apostrophes")
    make: Callable[[], Change] = functools.partial(Tokenizer, **{name: getattr(args, name) for name in names})
    if args.detokenise:
        make = functools.partial(Detokenizer, args.lang)
    change_file(args.source, args.target, make, args.workers, allow_empty=args.allow_empty, resume=args.resume)


if __name__ == "__main__":
    sys.exit(main())
