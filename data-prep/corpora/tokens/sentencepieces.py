"""SentencePiece models of large files, and lines in their pieces."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import sentencepiece

from corpora.errors import DataError

SAMPLE = 5_000_000  # lines, of a longer text
COVERAGE = 0.9995  # share of the characters that a model knows: SentencePiece's default; 1.0 for English alone
_THREADS = 4  # fixed, as the pieces may depend on it


def learn(paths: Sequence[Path], model: Path, pieces: int) -> None:
    """Train a unigram model of all texts together, a file that appears when it is complete; raises DataError.

    pieces: size of its vocabulary.
    """
    coverage = 1.0 if [path.suffix for path in paths] == [".en"] else COVERAGE
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


def encoder(model: Path) -> Callable[[str], str]:
    """Return a function that splits a line into the pieces of a model."""
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(model))
    return lambda line: " ".join(pieces.encode(line, out_type=str))
