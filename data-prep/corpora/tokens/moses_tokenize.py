"""Moses punctuation normalisation and tokenisation of a text file, in parallel, line order kept.

    python -m corpora.tokens.moses_tokenize --lang de [--lowercase] [--workers 2] raw/train.de tok/train.de

The sacremoses settings give the output of the Moses Perl scripts (normalize-punctuation, remove-non-printing-char,
tokenizer). The output file appears only when it is complete.
"""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path

from sacremoses import MosesPunctNormalizer, MosesTokenizer

from corpora.text.linewise import change_file
from corpora.text.parallel import DataError


class Tokenizer:
    """Tokenises single lines of one language.

    aggressive_dash_splits: "a-b" becomes "a @-@ b" (the Perl script's -a).
    normalise: as a recipe does that calls the first two scripts; without it, the tokenizer alone.
    plain_apostrophes: ’ becomes ' before all, as in fairseq's recipes for test sets.
    """

    def __init__(
        self,
        lang: str,
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


def tokenize_file(
    source: Path,
    target: Path,
    lang: str,
    lowercase: bool,
    dashes: bool,
    workers: int,
    *,
    normalise: bool = True,
    plain_apostrophes: bool = False,
    allow_empty: bool = False,
    resume: bool = False,
) -> None:
    """Tokenise `source` into `target`; raises DataError, also where nothing is left of a line (without allow_empty)."""
    make = functools.partial(Tokenizer, lang, lowercase, dashes, normalise, plain_apostrophes)
    change_file(source, target, make, workers, allow_empty=allow_empty, resume=resume)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--lang", required=True, help="language code: de, en, fr, …")
    parser.add_argument("--lowercase", action="store_true", help="lower-case the tokens")
    parser.add_argument(
        "-a", "--aggressive-dash-splits", dest="dashes", action="store_true", help='split "a-b" into "a @-@ b"'
    )
    parser.add_argument(
        "--no-normalise", dest="normalise", action="store_false", help="no normalisation: Moses' tokenizer.perl alone"
    )
    parser.add_argument("--plain-apostrophes", action="store_true", help="’ becomes ' first")
    parser.add_argument("--allow-empty", action="store_true", help="a line without tokens stays, as an empty line")
    parser.add_argument("--resume", action="store_true", help="go on in TARGET.part, which a stopped run left")
    parser.add_argument("--workers", type=int, default=1, help="processes (default: %(default)s)")
    args = parser.parse_args()
    options = {name: getattr(args, name) for name in ("normalise", "plain_apostrophes", "allow_empty", "resume")}
    try:
        tokenize_file(args.source, args.target, args.lang, args.lowercase, args.dashes, max(args.workers, 1), **options)
    except OSError as error:
        print(f"data error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except DataError as error:
        print(f"data error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
