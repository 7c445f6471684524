"""Moses punctuation normalisation and tokenisation of a text file, in parallel, line order kept.

    python data-prep/moses_tokenize.py --lang de [--lowercase] [--workers 2] raw/train.de tok/train.de

The sacremoses settings give the output of the Moses Perl scripts (normalize-punctuation, remove-non-printing-char,
tokenizer). The output file appears only when it is complete.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from pathlib import Path

from sacremoses import MosesPunctNormalizer, MosesTokenizer

_CHUNK = 500  # lines sent to a worker at a time


class Tokenizer:
    """Tokenises single lines of one language.

    aggressive_dash_splits: "a-b" becomes "a @-@ b" (the Perl script's -a).
    """

    def __init__(self, lang: str, lowercase: bool = False, aggressive_dash_splits: bool = False) -> None:
        self.normalizer = MosesPunctNormalizer(lang=lang, perl_parity=True, post_remove_control_chars=True)
        self.tokenizer = MosesTokenizer(lang)
        self.lowercase = lowercase
        self.aggressive_dash_splits = aggressive_dash_splits

    def __call__(self, line: str) -> str:
        """Return the tokens of a line (without newline), separated by spaces."""
        text = self.normalizer.normalize(line + "\n")  # the Perl script's rules see the newline
        text = self.tokenizer.tokenize(
            text, aggressive_dash_splits=self.aggressive_dash_splits, return_str=True, escape=True
        )
        return text.lower() if self.lowercase else text


_tokenizer: Tokenizer | None = None  # of a worker process


def _start_worker(lang: str, lowercase: bool, dashes: bool) -> None:
    global _tokenizer
    _tokenizer = Tokenizer(lang, lowercase, dashes)


def _tokenize(line: str) -> str:
    assert _tokenizer is not None
    return _tokenizer(line.rstrip("\n"))


def tokenize_file(source: Path, target: Path, lang: str, lowercase: bool, dashes: bool, workers: int) -> None:
    """Tokenise `source` into `target`; raises ValueError where nothing is left of a line, OSError."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f"{target.name}.part{os.getpid()}")
    options = (lang, lowercase, dashes)
    try:
        # newline="\n": a line ends where the Perl scripts end it, not at a carriage return
        with (
            source.open(encoding="utf-8", newline="\n") as lines,
            temporary.open("w", encoding="utf-8", newline="\n") as out,
            multiprocessing.Pool(workers, _start_worker, options) as pool,
        ):
            for number, text in enumerate(pool.imap(_tokenize, lines, _CHUNK), 1):
                if not text.strip():
                    raise ValueError(f"{source}:{number}: no token left after normalisation; remove the pair")
                out.write(text + "\n")
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--lang", required=True, help="language code: de, en, fr, …")
    parser.add_argument("--lowercase", action="store_true", help="lower-case the tokens")
    parser.add_argument("--aggressive-dash-splits", action="store_true", help='split "a-b" into "a @-@ b"')
    parser.add_argument("--workers", type=int, default=1, help="processes (default: %(default)s)")
    args = parser.parse_args()
    try:
        tokenize_file(
            args.source, args.target, args.lang, args.lowercase, args.aggressive_dash_splits, max(args.workers, 1)
        )
    except OSError as error:
        print(f"data error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"data error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
