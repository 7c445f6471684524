"""SentencePiece models of large files, and text in their pieces, in several processes.

    python -m corpora.tokens.sentencepieces train MODEL raw/train.ja [raw/train.en …] --pieces 16000
    python -m corpora.tokens.sentencepieces apply MODEL raw/train.ja bpe/train.ja [--workers 2]

MODEL is a file .model; several texts make one joint model. `train` reads a sample of 5,000,000 lines of a longer text.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import sentencepiece

from corpora.arguments import add_file_arguments
from corpora.errors import DataError, as_status
from corpora.text.linewise import change_file

SAMPLE = 5_000_000  # lines
_THREADS = 4  # fixed, as the pieces may depend on it


def train(paths: Sequence[Path], model: Path, pieces: int, coverage: float) -> None:
    """Train a unigram model, a file that appears when it is complete; raises DataError.

    pieces: size of its vocabulary; coverage: share of the characters that it must know.
    """
    for path in paths:
        if not path.is_file() or not path.stat().st_size:
            raise DataError(f"{path}: no such text, or empty")
    prefix = model.with_name(f"{model.name}.part{os.getpid()}")
    written = [prefix.with_name(prefix.name + ending) for ending in (".model", ".vocab")]
    sentencepiece.set_random_generator_seed(1)
    try:
        sentencepiece.SentencePieceTrainer.train(
            input=[str(path) for path in paths], model_prefix=str(prefix), vocab_size=pieces, model_type="unigram",
            character_coverage=coverage, input_sentence_size=SAMPLE, shuffle_input_sentence=True,
            num_threads=_THREADS, minloglevel=2,
        )  # fmt: skip
        os.replace(written[0], model)
    except (RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{paths[0]}: no model of {pieces:,} pieces can be trained on it: {reason}") from None
    finally:
        for path in written:
            path.unlink(missing_ok=True)


class Encoder:
    """Splits a line into the pieces of a model."""

    def __init__(self, model: Path) -> None:
        self.model = sentencepiece.SentencePieceProcessor(model_file=str(model))

    def __call__(self, line: str) -> str:
        return " ".join(self.model.encode(line, out_type=str))


@as_status
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("train", help="a model of texts")
    one.add_argument("model", type=Path)
    one.add_argument("texts", type=Path, nargs="+", metavar="TEXT")
    one.add_argument("--pieces", type=int, required=True)
    one.add_argument("--coverage", type=float, default=0.9995, help="share of the characters (default: %(default)s)")
    two = commands.add_parser("apply", help="text in pieces")
    two.add_argument("model", type=Path)
    add_file_arguments(two)
    two.add_argument("--resume", action="store_true", help="go on in TARGET.part, which a stopped run left")
    args = parser.parse_args()
    if args.command == "train":
        train(args.texts, args.model, args.pieces, args.coverage)
        return
    make = functools.partial(Encoder, args.model)
    change_file(args.source, args.target, make, args.workers, allow_empty=True, resume=args.resume)


if __name__ == "__main__":
    sys.exit(main())
